//! One decision of the policy about a call, at a hundred rules.
//!
//! Each sample is the mean of many decisions: one takes about as long as reading the clock.

use std::hint::black_box;
use std::time::Instant;

use anyhow::ensure;
use serde_json::json;
use toolgate_policy::{Action, Call, Condition, Policy, Rule, TraitFilter, Traits, Usage};

use super::meter::{Meter, Samples, micros};

/// Decisions of one sample.
const DECISIONS: u32 = 1_000;

/// A hundred rules as a team writes them: tools by name, patterns of a backend, conditions on arguments, annotations.
fn policy() -> anyhow::Result<Policy> {
    let rule = |index: usize| -> anyhow::Result<Rule> {
        let id = format!("policy[{index}]");
        let condition = |text: &str| Condition::parse(text).map(Some);
        Ok(match index % 5 {
            0 => Rule::new(id, format!("service_{}.delete_*", index / 5), Action::Deny),
            1 => {
                let when = condition("args.amount > 100 && args.to.endsWith('@example.com')")?;
                Rule { when, ..Rule::new(id, format!("service_{}.pay", index / 5), Action::Ask) }
            }
            2 => Rule::new(id, format!("service_{}.get_*", index / 5), Action::Allow),
            3 => {
                let traits = TraitFilter { destructive: Some(true), ..TraitFilter::default() };
                Rule { traits, ..Rule::new(id, format!("*.archive_{index}*"), Action::Ask) }
            }
            _ => Rule { when: condition("size(args.ids) > 10")?, ..Rule::new(id, "service_1?.*", Action::Ask) },
        })
    };
    Ok(Policy::new((0..100).map(rule).collect::<anyhow::Result<_>>()?, Action::Allow))
}

/// Decides about a payment that a rule's condition holds for.
pub(super) fn measure(meter: &Meter) -> anyhow::Result<Samples> {
    let policy = policy()?;
    let args = json!({ "amount": 50, "to": "someone@example.com", "ids": [1, 2, 3], "memo": "for lunch" });
    let usage = Usage::default();
    let traits = Traits::of("service_12", "pay", None);
    let call = Call {
        paths: &["service_12.pay"],
        backend: "service_12",
        tool: "pay",
        traits,
        caller: "ci",
        profile: "chain",
        args: &args,
    };
    ensure!(
        policy.rules().len() == 100 && policy.decide(&call, &usage, &usage).action == Action::Allow,
        "another policy"
    );
    meter.sample_in_a_row(|| {
        let since = Instant::now();
        for _ in 0..DECISIONS {
            black_box(policy.decide(black_box(&call), &usage, &usage));
        }
        Ok(micros(since.elapsed() / DECISIONS))
    })
}
