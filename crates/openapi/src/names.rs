//! Names that must differ: the wanted one, or the wanted one with the first number that is free.
//!
//! The next number of each name is remembered, so that many equal names take linear time.

use std::collections::{HashMap, HashSet};

/// The names that are taken.
#[derive(Debug, Default)]
pub(crate) struct FreeNames {
    taken: HashSet<String>,
    next: HashMap<String, usize>,
}

impl FreeNames {
    /// Takes this very name; false if it is taken.
    pub(crate) fn claim(&mut self, name: &str) -> bool {
        !self.taken.contains(name) && self.taken.insert(name.to_owned())
    }

    /// Takes the name, or else the first of `name_2`, `name_3` that is free.
    pub(crate) fn take(&mut self, name: String) -> String {
        if self.claim(&name) {
            return name;
        }
        let next = self.next.entry(name.clone()).or_insert(2);
        loop {
            let numbered = format!("{name}_{next}");
            *next += 1;
            if self.taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_the_first_free_number() {
        let mut names = FreeNames::default();
        assert!(names.claim("a_3") && !names.claim("a_3"));
        let taken: Vec<String> = ["a", "a", "a", "b", "a_3"].map(|name| names.take(name.to_owned())).into();
        assert_eq!(taken, ["a", "a_2", "a_4", "b", "a_3_2"]);
    }

    #[test]
    fn many_equal_names_take_linear_time() {
        let mut names = FreeNames::default();
        let last = (0..200_000).map(|_| names.take("a".to_owned())).last();
        assert_eq!(last.as_deref(), Some("a_200000"));
    }
}
