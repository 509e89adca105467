//! Which parts of a program run where it catches what they throw.
//!
//! The block of a `try` does, and so does a function that is called there, or that is given to a function of the program
//! which has a `try` of its own: `attempt(() => store.get({}))`. Functions are known by their names, whatever they belong
//! to: a false guard makes an error a warning.

use std::collections::{HashMap, HashSet};

use oxc::span::Span;

/// What a program declares, calls and catches. Filled while it is read.
#[derive(Default)]
pub(super) struct Guards {
    /// The blocks of `try` statements.
    pub(super) blocks: Vec<Span>,
    /// Where the `try` statements that catch begin.
    pub(super) catching: Vec<u32>,
    /// Functions by their names.
    pub(super) functions: HashMap<String, Vec<Span>>,
    /// Calls of functions by name.
    pub(super) calls: Vec<NamedCall>,
}

/// A call, and the functions that it is given.
pub(super) struct NamedCall {
    pub(super) name: String,
    pub(super) at: u32,
    /// Functions that are written as arguments.
    pub(super) inline: Vec<Span>,
    /// Arguments that are names.
    pub(super) named: Vec<String>,
}

impl Guards {
    /// The parts of the program in which an error may be caught.
    pub(super) fn guarded(mut self) -> Vec<Span> {
        if self.blocks.is_empty() {
            return Vec::new();
        }
        self.catching.sort_unstable();
        self.calls.sort_by_key(|call| call.at);
        let mut guarded = self.blocks.clone();
        let mut known: HashSet<&str> = HashSet::new();
        let catching: HashSet<&str> = self.names_that_catch().collect();
        for call in self.calls.iter().filter(|call| catching.contains(call.name.as_str())) {
            guarded.extend(&call.inline);
            for name in &call.named {
                self.guard(name, &mut known, &mut guarded);
            }
        }
        let mut done = 0;
        while let Some(&span) = guarded.get(done) {
            done += 1;
            for call in within(&self.calls, span, |call| call.at) {
                self.guard(&call.name, &mut known, &mut guarded);
            }
        }
        guarded
    }

    /// Guards the functions of a name, once.
    fn guard<'g>(&'g self, name: &'g str, known: &mut HashSet<&'g str>, guarded: &mut Vec<Span>) {
        if let Some(spans) = self.functions.get(name)
            && known.insert(name)
        {
            guarded.extend(spans);
        }
    }

    /// The names of functions that catch errors.
    fn names_that_catch(&self) -> impl Iterator<Item = &str> {
        let has_catch = |function: &Span| !within(&self.catching, *function, |start| *start).is_empty();
        let some = self.functions.iter().filter(move |(_, spans)| spans.iter().any(has_catch));
        some.map(|(name, _)| name.as_str())
    }
}

/// Those of a sorted list that begin inside of a span.
fn within<T>(sorted: &[T], span: Span, start: impl Fn(&T) -> u32) -> &[T] {
    let before = |bound: u32| sorted.partition_point(|one| start(one) < bound);
    sorted.get(before(span.start)..before(span.end)).unwrap_or_default()
}
