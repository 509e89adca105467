//! What a hundred rules cost a call on its way through the bridge.
//!
//! Each sample is the mean of many calls with rules, less that of as many calls right before without: look-up, argument check and
//! answer are in both. Beside it, the decision alone.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};
use toolgate_bridge::scripted::ToolScript;
use toolgate_bridge::{Bridge, RequestContext};
use toolgate_catalog::CatalogHandle;
use toolgate_policy::{Action, CallCounts, Condition, Policy, PolicyCall, Rule, TraitFilter, Traits};
use toolgate_wire::Profile;

use super::meter::{Meter, Samples, micros};

/// Decisions of one sample.
const DECISIONS: u32 = 1_000;
/// Calls of one sample, each way: few, so that most samples are over before the scheduler takes the core away.
const CALLS: u32 = 100;

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

fn arguments() -> Value {
    json!({ "amount": 50, "to": "someone@example.com", "ids": [1, 2, 3], "memo": "for lunch" })
}

/// A bridge to a payment service that answers at once.
fn bridge() -> anyhow::Result<Bridge> {
    let tool = json!({ "name": "pay", "inputSchema": { "type": "object" }, "reply": { "paid": true } });
    let script = ToolScript::parse(&json!({ "backends": { "service_12": { "tools": [tool] } } }).to_string())?;
    let bridge = Bridge::new(CatalogHandle::new(script.catalog()));
    for (name, provider) in script.providers() {
        bridge.provide(name, provider);
    }
    Ok(bridge)
}

/// Makes a payment that the conditions of two rules are evaluated for, with the rules and without.
pub(super) fn measure_call(meter: &Meter) -> anyhow::Result<Samples> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (with_rules, without) = (Arc::new(bridge()?), Arc::new(bridge()?));
    with_rules.set_policy(policy()?);
    let arguments = arguments();
    let arguments: &Map<String, Value> = arguments.as_object().context("an object")?;
    let calls = |bridge: &Bridge| -> anyhow::Result<f64> {
        let since = Instant::now();
        for _ in 0..CALLS {
            let asked =
                RequestContext { name: "ci".into(), profile: Some(Profile::Chain), ..RequestContext::default() };
            let answer = runtime.block_on(bridge.call("service_12", "pay", arguments.clone(), asked));
            ensure!(black_box(answer).is_ok(), "the payment was not made");
        }
        Ok(micros(since.elapsed() / CALLS))
    };
    meter.sample_in_a_row(|| {
        let plain = calls(&without)?;
        Ok(calls(&with_rules)? - plain)
    })
}

/// Decides about that payment.
pub(super) fn measure_decision(meter: &Meter) -> anyhow::Result<Samples> {
    let policy = policy()?;
    let (args, usage) = (arguments(), CallCounts::default());
    let traits = Traits::of("service_12", "pay", None);
    let call = PolicyCall {
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
