//! The kernel's list of a process's mappings.

use crate::Refusal;
use crate::kernel::AddressRange;

/// The text of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Mappings(pub(crate) String);

/// One mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) range: AddressRange,
    pub(crate) is_writable: bool,
    pub(crate) is_private: bool,
    pub(crate) is_of_file: bool,
}

impl Mapping {
    /// Reads a line such as `7f00-7f01 rw-p 00000000 00:00 0 [heap]`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let flags = words.next()?.as_bytes();
        let inode = words.nth(2)?;
        Some(Mapping {
            range: (address(start)?, address(end)?),
            is_writable: flags.get(1) == Some(&b'w'),
            is_private: flags.get(3) == Some(&b'p'),
            is_of_file: inode != "0",
        })
    }
}

impl Mappings {
    /// Every mapping, by address.
    pub(crate) fn all(&self) -> Result<Vec<Mapping>, Refusal> {
        self.0.lines().map(Mapping::parse).collect::<Option<_>>().ok_or(Refusal::Differs("the list of mappings"))
    }

    /// The ranges that are mapped here and not in `earlier`.
    pub(crate) fn added_since(&self, earlier: &Mappings) -> Result<Vec<AddressRange>, Refusal> {
        let earlier = earlier.all()?;
        let mut added = Vec::new();
        for mapping in self.all()? {
            let (first, end) = mapping.range;
            let mut start = first;
            for known in earlier.iter().map(|known| known.range).filter(|known| known.0 < end && known.1 > first) {
                if start < known.0 {
                    added.push((start, known.0));
                }
                start = known.1;
            }
            if start < end {
                added.push((start, end));
            }
        }
        Ok(added)
    }
}

/// Which mappings are sealed, in the text of `/proc/PID/smaps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seals {
    /// The stack, which shows whether this kernel has seals.
    pub(crate) stack: bool,
    /// Every mapping. The page of old system calls is none: it is in no process's list of mappings, and has no seal.
    pub(crate) all: bool,
}

impl Seals {
    pub(crate) fn of(smaps: &str) -> Self {
        let mut seals = Seals { stack: false, all: true };
        let mut name = "";
        for line in smaps.lines() {
            if let Some(flags) = line.strip_prefix("VmFlags:") {
                let is_sealed = flags.split_ascii_whitespace().any(|flag| flag == "sl");
                seals.stack |= is_sealed && name.ends_with("[stack]");
                seals.all &= is_sealed || name.ends_with("[vsyscall]");
            } else if line.split_ascii_whitespace().next().is_some_and(|word| !word.ends_with(':')) {
                name = line;
            }
        }
        seals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "1000-3000 r-xp 00000000 fe:00 77 /bin/worker\n5000-7000 rw-p 00000000 00:00 0 [heap]\n";

    fn check(now: &str, added: &[AddressRange]) {
        assert_eq!(Mappings(now.into()).added_since(&Mappings(BEFORE.into())).expect("a list"), added, "{now}");
    }

    #[test]
    fn what_was_added_is_found_beside_before_and_between() {
        check(BEFORE, &[]);
        check("5000-9000 rw-p 00000000 00:00 0 [heap]\n", &[(0x7000, 0x9000)]);
        check("0-f000 rw-p 00000000 00:00 0\n", &[(0, 0x1000), (0x3000, 0x5000), (0x7000, 0xf000)]);
        check("3000-4000 rw-p 00000000 00:00 0\n8000-9000 rw-p 0 0:0 0\n", &[(0x3000, 0x4000), (0x8000, 0x9000)]);
        check("", &[]);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_refused() {
        assert!(Mappings("nonsense\n".into()).all().is_err());
    }

    #[test]
    fn seals_are_read_from_the_flags_of_each_mapping() {
        let check = |first: &str, stack: &str, expected: (bool, bool)| {
            let text = format!(
                "1-2 rw-p 0 0:0 0\nRss: 4 kB\nVmFlags: {first}\n5-6 rw-p 0 0:0 0 [stack]\nRss: 4 kB\nVmFlags: {stack}\n\
                 7-8 --xp 0 0:0 0 [vsyscall]\nRss: 0 kB\nVmFlags: ex\n"
            );
            let seals = Seals::of(&text);
            assert_eq!((seals.stack, seals.all), expected, "{text}");
        };
        check("sl", "rd wr gd sl", (true, true));
        check("rd", "rd wr gd sl", (true, false));
        check("sl", "rd wr gd", (false, false));
    }
}
