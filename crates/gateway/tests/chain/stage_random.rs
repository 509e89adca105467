//! Random programs with writes, branches, edits and denials: nothing is sent before the review, and afterwards what was approved.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_run::durable::{DecisionKind, PendingView};

use crate::runner::{Case, cases};
use crate::stage::{State, World, decision, edit, id_of, world};
use crate::support::block_on;

pub(crate) fn cases() -> Vec<Case> {
    cases![stage_random::random_programs_send_what_was_approved_and_nothing_before]
}

/// One write of a random program.
#[derive(Debug, Clone)]
struct Step {
    /// The step whose id and title it uses.
    uses: Option<usize>,
    is_create: bool,
    /// What is decided about its line, and about it alone.
    line: DecisionKind,
    alone: DecisionKind,
}

/// A random program: groups of writes, each made at the same time, and a branch before some groups.
#[derive(Debug, Clone)]
struct Program {
    prefix: String,
    groups: Vec<(Option<Branch>, Vec<Step>)>,
}

#[derive(Debug, Clone, Copy)]
enum Branch {
    /// On a number of the step.
    Number(usize),
    /// On a truth value of the step.
    Flag(usize),
    /// On a text of the step, which nothing tells: the program takes the other way.
    Text(usize),
}

/// Numbers that are the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

impl Program {
    fn random(number: u64) -> Program {
        let mut chance = Chance(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1);
        let mut groups = Vec::new();
        let mut before = 0_usize;
        for _ in 0..=chance.below(3) {
            let earlier = |chance: &mut Chance| chance.below(before.max(1) as u64) as usize;
            let branch = match chance.below(6) {
                0 if before > 0 => Some(Branch::Number(earlier(&mut chance))),
                1 if before > 0 => Some(Branch::Flag(earlier(&mut chance))),
                2 if before > 0 => Some(Branch::Text(earlier(&mut chance))),
                _ => None,
            };
            let (approve, deny) = (DecisionKind::Approve, DecisionKind::Deny);
            let steps: Vec<Step> = (0..=chance.below(3))
                .map(|_| Step {
                    uses: (before > 0 && chance.below(3) > 0).then(|| earlier(&mut chance)),
                    is_create: chance.below(4) > 0,
                    line: chance.one_of(&[approve, approve, approve, DecisionKind::Edit, deny]),
                    alone: chance.one_of(&[approve, approve, deny]),
                })
                .collect();
            before += steps.len();
            groups.push((branch, steps));
        }
        Program { prefix: format!("p{number}s"), groups }
    }

    fn steps(&self) -> Vec<&Step> {
        self.groups.iter().flat_map(|(_, steps)| steps).collect()
    }

    fn tool(step: &Step) -> &'static str {
        if step.is_create { "create" } else { "close" }
    }

    fn code(&self) -> String {
        let mut code = "const r = []; const list = await tracker.list({}); let way = '';\n".to_owned();
        let mut number = 0;
        for (branch, steps) in &self.groups {
            match branch {
                Some(Branch::Number(of)) => code += &format!("way = r[{of}].id > 0 ? '' : 'low';\n"),
                Some(Branch::Flag(of)) => code += &format!("way = r[{of}].ok ? '' : 'bad';\n"),
                Some(Branch::Text(of)) => {
                    code += &format!("way = `${{r[{of}].title}}`.startsWith('real') ? 'real' : '';\n")
                }
                None => {}
            }
            code += "await Promise.all([\n";
            for step in steps {
                let title = format!("{}{number}", self.prefix);
                let used = match step.uses {
                    Some(of) => format!("parent: r[{of}].id, body: `of ${{r[{of}].title}} #${{r[{of}].id}}${{way}}`"),
                    None => "body: `${list[1].title}${way}`".to_owned(),
                };
                code += &format!(
                    "tracker.{}({{ title: '{title}', {used} }}).catch(e => ({{ id: -{number}, title: e.code, ok: false }})).then(v => {{ r[{number}] = v }}),\n",
                    Program::tool(step)
                );
                number += 1;
            }
            code += "]);\n";
        }
        code + "return r.length"
    }
}

/// What a step gave, as the program sees it.
fn gave(step: &Step, number: usize, title: &str, was_sent: bool) -> Value {
    match (was_sent, step.is_create) {
        (false, _) => json!({ "id": -(number as i64), "title": "DENIED", "ok": false }),
        (true, true) => json!({ "id": id_of(title), "title": format!("real-{title}"), "ok": true }),
        (true, false) => json!({ "state": "closed", "by": { "name": "ann" } }),
    }
}

/// `${value.key}`.
fn text(value: &Value, key: &str) -> String {
    match value.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "undefined".to_owned(),
    }
}

/// Drives one program, and checks it against a model of what it does.
async fn check(world: &World, program: &Program) {
    let run = world.begin(&program.code()).await;
    let context = || format!("{program:?}\n{}", program.code());
    let steps = program.steps();
    let title = |number: usize| format!("{}{number}", program.prefix);
    let number_of = |pending: &PendingView| -> usize {
        let arguments: Value = serde_json::from_str(pending.arguments.0.get()).unwrap();
        arguments["title"].as_str().unwrap().rsplit('s').next().unwrap().parse().unwrap()
    };
    // What a person was shown and approved, with real values, by the number of the step.
    let mut approved: BTreeMap<usize, (String, Value)> = BTreeMap::new();
    let mut templates: BTreeMap<usize, Value> = BTreeMap::new();
    let mut lines: BTreeMap<u32, usize> = BTreeMap::new();
    let mut is_first = true;
    let report = loop {
        let pending = match world.state(&run).await {
            State::Ended(report) => break report,
            State::Waits(pending) => pending,
        };
        if std::mem::take(&mut is_first) {
            assert!(world.tracker.sent_of(&program.prefix).is_empty(), "sent before the review: {}", context());
            lines = pending.iter().map(|it| (it.call_id, number_of(it))).collect();
        }
        let count = pending.len();
        for (at, question) in pending.iter().enumerate() {
            let number = number_of(question);
            let step = steps[number];
            assert_eq!(question.tool, Program::tool(step));
            let shown: Value = serde_json::from_str(question.arguments.0.get()).unwrap();
            let is_line = question.staged.is_some();
            let kind = if is_line { step.line } else { step.alone };
            let sent_now = world.tracker.sent_of(&program.prefix).len();
            let made = match kind {
                DecisionKind::Edit => {
                    let mut edited = shown.clone();
                    edited["body"] = json!("edited");
                    templates.insert(number, edited.clone());
                    edit(question.call_id, &edited)
                }
                kind => {
                    if kind == DecisionKind::Approve && is_line {
                        templates.insert(number, shown.clone());
                    } else if kind == DecisionKind::Approve {
                        // Shown with real values: exactly this may be sent.
                        templates.remove(&number);
                        approved.insert(number, (question.tool.clone(), shown));
                    } else {
                        templates.remove(&number);
                    }
                    decision(question.call_id, kind)
                }
            };
            if is_line && at + 1 == count {
                assert_eq!(sent_now, 0, "sent before the last line was decided: {}", context());
            }
            world.decide(&run, vec![made]).await;
        }
    };
    assert_eq!(report["ok"], true, "{report} {}", context());
    let sent: BTreeMap<usize, (String, Value)> = world
        .tracker
        .sent_of(&program.prefix)
        .into_iter()
        .map(|(tool, arguments)| {
            let number = arguments["title"].as_str().unwrap().rsplit('s').next().unwrap().parse().unwrap();
            (number, (tool, arguments))
        })
        .collect();
    assert_eq!(sent.len(), world.tracker.sent_of(&program.prefix).len(), "sent twice: {}", context());
    // The marks of a template, filled with what its lines really gave.
    let values: BTreeMap<u32, Value> = lines
        .iter()
        .map(|(line, step)| (*line, gave(steps[*step], *step, &title(*step), sent.contains_key(step))))
        .collect();
    for (number, (tool, arguments)) in &sent {
        let expected = match (approved.get(number), templates.get(number)) {
            (Some((approved, shown)), _) => (approved.clone(), shown.clone()),
            (None, Some(template)) => (Program::tool(steps[*number]).to_owned(), filled(template, &values)),
            (None, None) => panic!("step {number} was sent and nobody approved it: {}", context()),
        };
        assert_eq!((tool.clone(), arguments.clone()), expected, "step {number}: {}", context());
    }
    for number in approved.keys() {
        assert!(sent.contains_key(number), "step {number} was approved and not sent: {}", context());
    }
}

/// An independent substitution: by the text of the marks that the values would have.
fn filled(template: &Value, values: &BTreeMap<u32, Value>) -> Value {
    let mut filled = template.clone();
    for field in filled.as_object_mut().unwrap().values_mut() {
        let Some(mut written) = field.as_str().map(str::to_owned) else { continue };
        for (line, value) in values {
            for key in ["id", "title"] {
                for tool in ["create", "close"] {
                    let mark = format!("⟦#{line}/{key} of tracker.{tool}⟧");
                    if written == mark {
                        *field = value.get(key).cloned().unwrap_or(Value::Null);
                    }
                    written = written.replace(&mark, &text(value, key));
                }
            }
        }
        if field.is_string() {
            *field = json!(written);
        }
    }
    let undefined = |value: &Value| value.is_null();
    let Value::Object(fields) = filled else { panic!("an object") };
    Value::Object(fields.into_iter().filter(|(_, value)| !undefined(value)).collect())
}

/// `TOOLGATE_STAGED_PROGRAMS=1000` is the long form.
pub(crate) fn random_programs_send_what_was_approved_and_nothing_before() {
    let count = std::env::var("TOOLGATE_STAGED_PROGRAMS").ok().and_then(|count| count.parse().ok()).unwrap_or(150);
    let world = Arc::new(world());
    block_on(async {
        // Some at a time: most of the time a run waits.
        for first in (0..count).step_by(10) {
            let checks = (first..(first + 10).min(count)).map(|number| {
                let world = world.clone();
                tokio::spawn(async move { check(&world, &Program::random(number)).await })
            });
            for checked in checks.collect::<Vec<_>>() {
                checked.await.unwrap();
            }
        }
    });
}
