//! Which parts of a program run where it catches what they throw.
//!
//! The block of a `try` does, and so does a function that is called there, or that is given to a function of the program
//! which has a `try` of its own: `attempt(() => store.get({}))`. What a function throws whose promise is handled by `catch`,
//! by `then` with two functions or by `Promise.allSettled` is caught too. Functions are known by their names, whatever they
//! belong to: a false guard makes an error a warning.

use std::collections::{HashMap, HashSet};

use oxc::{semantic::SymbolId, span::Span};

/// What a program declares, calls and catches. Filled while it is read.
#[derive(Default)]
pub(super) struct Guards {
    /// The blocks of `try` statements.
    pub(super) blocks: Vec<Span>,
    /// Where the `try` statements that catch begin.
    pub(super) catching: Vec<u32>,
    /// Functions by their names.
    pub(super) functions: HashMap<String, Vec<Span>>,
    /// All functions.
    pub(super) bodies: Vec<Span>,
    /// Calls of functions by name.
    pub(super) calls: Vec<NamedCall>,
    /// Expressions whose promises are handled.
    pub(super) handled: Vec<Span>,
    /// What variables are given: values, and items that are put into them.
    pub(super) given: HashMap<SymbolId, Vec<Span>>,
}

/// A call, and the functions that it is given.
pub(super) struct NamedCall {
    pub(super) name: String,
    pub(super) at: u32,
    /// Functions that are written as arguments, and tools.
    pub(super) inline: Vec<Span>,
    /// Arguments that are names.
    pub(super) named: Vec<String>,
}

impl Guards {
    /// The parts of the program in which an error may be caught, by where it names its variables, which is sorted.
    pub(super) fn guarded(mut self, references: &[(u32, SymbolId)]) -> Vec<Span> {
        if self.blocks.is_empty() && self.handled.is_empty() {
            return Vec::new();
        }
        self.catching.sort_unstable();
        self.calls.sort_by_key(|call| call.at);
        self.bodies.sort_unstable_by_key(|body| body.start);
        let mut guarded = self.blocks.clone();
        let mut known: HashSet<&str> = HashSet::new();
        let catching: HashSet<&str> = self.names_that_catch().collect();
        for call in self.calls.iter().filter(|call| catching.contains(call.name.as_str())) {
            guarded.extend(&call.inline);
            for name in &call.named {
                self.guard(name, &mut known, &mut guarded);
            }
        }
        for span in self.handled_parts(references) {
            guarded.extend(within(&self.bodies, span, |body| body.start));
            for call in within(&self.calls, span, |call| call.at) {
                self.guard(&call.name, &mut known, &mut guarded);
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

    /// Expressions whose promises are handled, where they are made: `const jobs = ids.map(load); Promise.allSettled(jobs)`.
    fn handled_parts(&self, references: &[(u32, SymbolId)]) -> Vec<Span> {
        let mut parts = self.handled.clone();
        let mut known: HashSet<SymbolId> = HashSet::new();
        let mut done = 0;
        while let Some(&span) = parts.get(done) {
            done += 1;
            for (_, variable) in within(references, span, |(at, _)| *at) {
                if let Some(given) = self.given.get(variable)
                    && known.insert(*variable)
                {
                    parts.extend(given);
                }
            }
        }
        // Of spans that contain each other, the outermost.
        parts.sort_unstable_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
        let mut end = 0;
        parts.retain(|span| {
            let is_outer = span.end > end;
            end = end.max(span.end);
            is_outer
        });
        parts
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
