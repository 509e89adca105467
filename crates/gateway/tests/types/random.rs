//! Random programs: none that runs is refused, and damaged ones are found before their first call.

#![allow(clippy::print_stdout, reason = "the shares are measurements")]

use std::collections::BTreeMap;

use crate::generate::{Random, damaged, marked, unmarked};
use crate::runner::{Case, cases};
use crate::world::{TYPED, UNTYPED, asking, check, run};

/// Correct programs.
const PROGRAMS: usize = 2_000;
/// Damaged programs.
const MUTANTS: usize = 1_000;
/// The part of damaged programs that must be found, in percent.
const WANTED: usize = 95;

pub(crate) fn cases() -> Vec<Case> {
    cases![random::no_correct_program_is_refused, random::damaged_programs_are_found_before_the_first_call]
}

pub(crate) fn no_correct_program_is_refused() {
    let mut random = Random::new(1);
    for n in 0..PROGRAMS {
        let program = unmarked(&marked(&mut random));
        let found = check(&TYPED, &program).unwrap_or_else(|| panic!("no program:\n{program}"));
        assert!(found.errors.is_empty(), "refused:\n{program}\n{:?}", found.errors);
        // Every tenth is run too: the programs are correct.
        if n % 10 == 0 {
            let report = run(&TYPED, &program).report;
            assert!(report.failure().is_none(), "not correct:\n{program}\n{:?}", report.failure());
        }
    }
}

pub(crate) fn damaged_programs_are_found_before_the_first_call() {
    let mut random = Random::new(2);
    let mut shares: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    let mut missed = Vec::new();
    let mut count = 0;
    while count < MUTANTS {
        let Some((how, program)) = damaged(&marked(&mut random), &mut random) else { continue };
        count += 1;
        let before = UNTYPED.check(&asking(&program)).map_or(1, |found| found.errors.len()) > 0;
        let typed = check(&TYPED, &program).is_none_or(|found| !found.errors.is_empty());
        let share = shares.entry(how).or_default();
        *share = (share.0 + 1, share.1 + usize::from(before), share.2 + usize::from(typed));
        if !typed {
            missed.push(format!("{how}:\n{program}\n"));
        }
    }
    let found = count - missed.len();
    let before: usize = shares.values().map(|share| share.1).sum();
    println!("of {count} damaged programs {before} are found without types, {found} with types");
    for (how, (all, before, typed)) in &shares {
        println!("  {how}: {all}, {before} without types, {typed} with types");
    }
    let shown = missed.iter().take(12).cloned().collect::<Vec<_>>().join("\n");
    assert!(found * 100 >= count * WANTED, "{found} of {count} were found; missed:\n{shown}");
}
