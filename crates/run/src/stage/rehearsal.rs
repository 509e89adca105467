//! The first execution of a staged program: reads are made, writes become lines of the review.
//!
//! It ends with the program, or at a commit point: where the program depends on the answer to a write, or to a read for which a
//! person is needed. The guest says so, a read has a mark in its arguments, its server asks something or wants a login, or a rule asks
//! that was not known to before: after the review such a read waits as in any run. Whatever the program says after that is not acted on.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_engine::host::Target;
use toolgate_engine::{Host, HostCall, HostError, HostFuture, HostLayer, RepeatedCall};
use toolgate_functions::Registry;
use toolgate_mcp::bounded_tree;
use toolgate_policy::{Action, PolicyDecision};
use toolgate_wire::foreign_text::clipped;
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{CallErrorCode, CallId, CallState};

use super::{ReadAnswer, Review, StagedLine, StagedRead, arguments_of, placeholder};
use crate::LearnedResults;
use toolgate_bridge::marks::has_marks;
use toolgate_bridge::{Bridge, Foretold, RequestContext, ScopedCatalog};

/// Bytes of arguments of writes, and of arguments and answers of reads, that a rehearsal keeps. It ends where there are more: what follows is asked about as it comes.
const MAX_KEPT: usize = 64 << 20;

/// Characters of a program's text in the words about a commit point.
const MAX_SHOWN: usize = 2_000;
/// The memory of the arguments that name a value which a program needs.
const MAX_POINT_TREE: usize = 1 << 20;

/// The name under which the guest says that it depends on a value. No host function can have it: programs cannot write it.
pub(crate) const COMMIT_POINT: &str = "toolgate:commit-point";

/// What a rehearsal finds out.
#[derive(Default)]
pub struct Rehearsal {
    state: Mutex<RehearsalState>,
    end: CancellationToken,
}

#[derive(Default)]
struct RehearsalState {
    lines: Vec<StagedLine>,
    /// In the order of the calls; `None` as long as there is no answer.
    reads: Vec<Option<StagedRead>>,
    commit_point: Option<String>,
    /// Bytes of reads and lines that are kept.
    bytes: usize,
    /// What the policy says about calls that became lines.
    decisions: HashMap<CallId, DecisionRecord>,
}

impl Rehearsal {
    /// Ends the execution when it is cancelled.
    pub fn end(&self) -> &CancellationToken {
        &self.end
    }

    /// What it found, at this time in milliseconds since 1970.
    pub fn review(&self, at: u64) -> Review {
        let state = self.state.lock();
        Review {
            lines: state.lines.clone(),
            commit_point: state.commit_point.clone(),
            at,
            reads: state.reads.iter().flatten().cloned().collect(),
        }
    }

    fn is_over(&self) -> bool {
        self.state.lock().commit_point.is_some()
    }

    /// The program depends on this value.
    fn end_at(&self, value: String) {
        self.state.lock().commit_point.get_or_insert(value);
        self.end.cancel();
    }

    /// A place for the answer to a read.
    fn begin_read(&self) -> usize {
        let mut state = self.state.lock();
        state.reads.push(None);
        state.reads.len() - 1
    }

    /// Counts bytes that are to be kept; `false` where they are too many, which ends the rehearsal.
    fn has_room(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_add(bytes);
        let has_room = state.bytes <= MAX_KEPT;
        drop(state);
        if !has_room {
            self.end_at("more arguments and answers than are kept".to_owned());
        }
        has_room
    }

    fn end_read(&self, place: usize, target: Target, arguments: String, answer: &Result<String, HostError>) {
        let (backend, tool) = parts(target);
        let read = StagedRead { backend, tool, arguments, answer: ReadAnswer::from(answer) };
        let length = read.arguments.len() + answer.as_ref().map_or(0, String::len);
        if let Some(place) = self.state.lock().reads.get_mut(place) {
            *place = Some(read);
        }
        self.has_room(length);
    }

    fn add_line(&self, call: CallId, target: Target, arguments: String, decision: &PolicyDecision) -> u32 {
        let (backend, tool) = parts(target);
        let rule = decision.rule.as_deref().filter(|_| decision.action == Action::Ask);
        let mut state = self.state.lock();
        let number = u32::try_from(state.lines.len()).unwrap_or(u32::MAX).saturating_add(1);
        state.lines.push(StagedLine {
            number,
            call: call.0,
            backend,
            tool,
            arguments,
            reason: match decision.action {
                Action::Ask => decision.reason(),
                Action::Allow | Action::Deny => "the run is staged".to_owned(),
            },
            rule: rule.map(|rule| rule.id.clone()),
            rule_key: rule.map(|rule| rule.approval_key()),
            approvers: rule.map(|rule| rule.approvers.iter().map(ToString::to_string).collect()).unwrap_or_default(),
            expires: rule.map_or(toolgate_policy::DEFAULT_EXPIRY, |rule| rule.expiry),
        });
        number
    }
}

fn parts(target: Target) -> (Option<String>, String) {
    match target {
        Target::Tool { backend, tool } => (Some(backend), tool),
        Target::Function(name) => (None, name),
    }
}

/// The host of a rehearsal.
#[derive(Clone)]
pub(crate) struct RehearsalHost {
    pub(crate) rehearsal: Arc<Rehearsal>,
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) functions: Registry,
    pub(crate) asked: RequestContext,
    pub(crate) learned: Option<Arc<dyn LearnedResults>>,
    pub(crate) real: Arc<dyn Host>,
}

impl RehearsalHost {
    fn read(&self, call: HostCall) -> HostFuture {
        if has_marks(&call.args) {
            self.rehearsal.end_at(format!("{} reads with {}", call.target, clipped(&call.args, MAX_SHOWN)));
            return never();
        }
        let place = self.rehearsal.begin_read();
        let (target, arguments) = (call.target.clone(), call.args.clone());
        let (id, run) = (call.id, self.asked.run.clone());
        let (rehearsal, answer) = (self.rehearsal.clone(), self.real.call(call));
        Box::pin(async move {
            let answer = answer.await;
            // A function that is a tool fails with a code of its own, and a rule may ask because of what other processes counted.
            let is_noticed = run.is_some_and(|run| run.needs_person(id));
            let why = answer.as_ref().err().and_then(|error| {
                needs_person(error).or_else(|| is_noticed.then(|| "a person is needed for it".to_owned()))
            });
            if let Some(why) = why {
                rehearsal.end_at(format!("the answer to {target}: {why}"));
                return std::future::pending().await;
            }
            rehearsal.end_read(place, target, arguments, &answer);
            answer
        })
    }

    fn write(&self, call: HostCall, foretold: &Foretold) -> HostFuture {
        if !self.rehearsal.has_room(call.args.len()) {
            return never();
        }
        // Counts against the limits of a run.
        let (id, args) = (call.id, call.args.as_bytes());
        self.real.repeated(RepeatedCall {
            id,
            target: &call.target,
            args,
            state: CallState::Applied,
            body: Ok(b"null"),
        });
        self.rehearsal.state.lock().decisions.extend(foretold.record().map(|decision| (id, decision)));
        let shape = self.shape(&call.target);
        let name = call.target.to_string().replace('⟧', "?");
        let line = self.rehearsal.add_line(call.id, foretold.target.clone(), call.args, &foretold.decision);
        let message = format!("{name} was not sent: it is line {line} of the review");
        // The guest makes a placeholder of a reply with this code.
        let staged = HostError::not_sent(CallErrorCode::Staged, message);
        ready(Err(staged.with_data(json!({ "line": line, "tool": name, "shape": shape }))))
    }

    fn shape(&self, target: &Target) -> Value {
        let Target::Tool { backend, tool } = target else { return Value::Null };
        let catalog = self.bridge.catalog();
        let view = ScopedCatalog::new(&catalog, &self.asked.access, &self.asked.tools);
        let Some(found) = view.tool(backend, tool) else { return Value::Null };
        let learned = self.learned.as_ref();
        let learned = learned.and_then(|it| it.result_type(found.backend.name(), &found.tool().name));
        placeholder::shape(found, learned.as_ref())
    }
}

impl HostLayer for RehearsalHost {
    fn inner(&self) -> &dyn Host {
        &*self.real
    }

    fn take_own_decision(&self, id: CallId) -> Option<DecisionRecord> {
        self.rehearsal.state.lock().decisions.remove(&id)
    }

    fn make_call(&self, call: HostCall) -> HostFuture {
        if self.rehearsal.is_over() {
            return never();
        }
        if call.target == Target::Function(COMMIT_POINT.to_owned()) {
            self.rehearsal.end_at(commit_point(&call.args));
            return never();
        }
        let arguments = match arguments_of(&call) {
            Ok(Some(arguments)) => arguments,
            Ok(None) => return self.real.call(call),
            Err(error) => return ready(Err(error)),
        };
        let host = self.clone();
        Box::pin(async move {
            let RehearsalHost { bridge, functions, asked, .. } = &host;
            match bridge.foretell_once_up(&call.target, &arguments, functions, asked).await {
                Err(refused) => match needs_person(&refused) {
                    Some(why) => {
                        host.rehearsal.end_at(format!("the answer to {}: {why}", call.target));
                        never().await
                    }
                    None => Err(refused),
                },
                Ok(foretold) if foretold.is_read() => host.read(call).await,
                Ok(foretold) => host.write(call, &foretold).await,
            }
        })
    }
}

/// Why a call waits for a person in a run that can wait; `None` where it failed for another reason.
fn needs_person(error: &HostError) -> Option<String> {
    match &error.code {
        CallErrorCode::NeedsLogin => Some(clipped(&error.message, MAX_SHOWN).into_owned()),
        CallErrorCode::InputRequired => Some("its server asks a person something".to_owned()),
        _ => None,
    }
}

/// Which value a program needs. Any program can make this call, with any arguments.
fn commit_point(args: &str) -> String {
    let value = bounded_tree(args, MAX_POINT_TREE).unwrap_or_default();
    let (line, at) = (value[0]["line"].to_string(), value[0]["at"].as_str().unwrap_or_default());
    format!("the value {} of line {}", clipped(at, MAX_SHOWN), clipped(&line, MAX_SHOWN))
}

/// The program gets no answer: its execution ends.
fn never() -> HostFuture {
    Box::pin(std::future::pending())
}

fn ready(answer: Result<String, HostError>) -> HostFuture {
    Box::pin(std::future::ready(answer))
}
