//! What is kept of a request, so that another process can run it.
//!
//! The program, its profile and its caller are in the header of the record; this is the rest. Functions are kept by
//! their names: those of an embedder or of a WebSocket client are not there after a restart.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolgate_journal::entry::CallTarget;
use toolgate_mcp::RequestOrigin;
use toolgate_wire::{LimitRequest, Profile};

use super::super::door::Door;
use super::super::request::RunRequest;
use super::call_keys::KeyForm;
use super::callers::GrantedScope;
use super::kept_effects::KeptEffects;
use crate::noted_calls::NotedCall;
use crate::stage::Staging;
use toolgate_bridge::AllowedEffects;

/// The fields of a request that are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredRequest {
    /// JSON text of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<String>,
    /// The wall time of the whole run, in milliseconds.
    pub(super) wall_ms: u64,
    /// The other limits that were asked for.
    limits: StoredLimits,
    /// Names of the host functions; all that the caller may use when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    functions: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// The name of the door that it came by. Records of earlier versions may have none.
    pub(super) door: String,
    /// Whether its writes are reviewed before they are sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) stage: bool,
    /// The client that asked, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// Whether the program may only read.
    reads_only: bool,
    /// The run whose effects the program keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fixes: Option<String>,
    /// What it keeps of that run and of those before. Always stored where there is no record of that run: only one process has it
    /// in its memory, and not for long.
    #[serde(skip_serializing_if = "Option::is_none")]
    noted: Option<Vec<StoredCall>>,
    /// Where the end of the run is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) webhook: Option<String>,
    /// The form of the keys of its calls. Records of earlier versions have no such field.
    pub(super) keys: KeyForm,
    /// What the caller may use, where a token says that and not the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) granted: Option<GrantedScope>,
}

/// A call of an earlier run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredCall {
    /// What was called.
    #[serde(flatten)]
    target: CallTarget,
    /// JSON text of the arguments.
    args: String,
    /// Whether it changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
    /// JSON text of the answer; absent where the effect is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

impl From<&NotedCall> for StoredCall {
    fn from(call: &NotedCall) -> Self {
        let NotedCall { target, args, is_read, answer } = call;
        StoredCall { target: target.into(), args: args.clone(), read_only: *is_read, answer: answer.clone() }
    }
}

impl From<StoredCall> for NotedCall {
    fn from(call: StoredCall) -> Self {
        let StoredCall { target, args, read_only, answer } = call;
        NotedCall { target: (&target).into(), args, is_read: read_only, answer }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct StoredLimits {
    memory: Option<u64>,
    stack: Option<u64>,
    code: Option<u64>,
    result: Option<u64>,
    result_depth: Option<u32>,
    log_lines: Option<u64>,
    calls: Option<u64>,
    calls_in_flight: Option<u64>,
}

impl StoredRequest {
    /// What is kept of a request that may run for `wall`.
    pub(super) fn of(request: &RunRequest, wall: Duration, webhook: Option<String>) -> Self {
        let LimitRequest { wall: _, memory, stack, code, result, result_depth, log_lines, calls, calls_in_flight } =
            request.limits.clone();
        let carried = request.kept.as_ref().and_then(|kept| kept.carried());
        StoredRequest {
            data: request.data.clone(),
            wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
            limits: StoredLimits { memory, stack, code, result, result_depth, log_lines, calls, calls_in_flight },
            functions: request.functions.as_ref().map(|functions| functions.names()),
            engine: request.engine.map(|engine| engine.name().to_owned()),
            seed: request.seed,
            door: request.door.name().to_owned(),
            stage: request.staging.is_on(),
            client: request.origin.client.clone(),
            reads_only: request.effects == AllowedEffects::ReadOnly,
            fixes: request.kept.as_ref().map(|kept| kept.run().to_owned()),
            noted: carried.map(|calls| calls.iter().map(StoredCall::from).collect()),
            webhook,
            keys: KeyForm::Uuid,
            granted: None,
        }
    }

    /// What this run keeps of those that it corrects, where it is stored here. It is taken out: it may be large.
    pub(super) fn take_carried(&mut self) -> Option<KeptEffects> {
        let calls: Vec<NotedCall> = self.noted.take()?.into_iter().map(NotedCall::from).collect();
        Some(KeptEffects::noted(self.fixes.as_deref()?, &calls))
    }

    /// The wall time of the whole run.
    pub(super) fn wall(&self) -> Duration {
        Duration::from_millis(self.wall_ms)
    }

    /// The door that it came by.
    pub(super) fn door(&self) -> Door {
        Door::recorded(&self.door)
    }

    /// The names of the functions that it may call; `None` means all that the caller may use.
    pub(super) fn function_names(&self) -> Option<&[String]> {
        self.functions.as_deref()
    }

    /// The request again. Caller, functions and record are the reader's to add.
    pub(super) fn request(&self, profile: Profile, code: String) -> RunRequest {
        let StoredLimits { memory, stack, code: length, result, result_depth, log_lines, calls, calls_in_flight } =
            self.limits.clone();
        let wall = Some(self.wall());
        RunRequest {
            data: self.data.clone(),
            limits: LimitRequest {
                wall,
                memory,
                stack,
                code: length,
                result,
                result_depth,
                log_lines,
                calls,
                calls_in_flight,
            },
            engine: self.engine.as_deref().and_then(|engine| engine.parse().ok()),
            seed: self.seed,
            door: self.door(),
            staging: if self.stage { Staging::Wanted } else { Staging::No },
            origin: RequestOrigin { client: self.client.clone(), ..RequestOrigin::default() },
            effects: if self.reads_only { AllowedEffects::ReadOnly } else { AllowedEffects::Any },
            ..RunRequest::new(profile, code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use toolgate_engine::EngineChoice;
    use toolgate_engine::host::Target;

    #[test]
    fn what_is_kept_is_enough_to_ask_again() {
        let request = RunRequest {
            data: Some("{}".into()),
            limits: LimitRequest { memory: Some(1), calls: Some(7), ..LimitRequest::default() },
            engine: Some(EngineChoice::V8),
            seed: Some(3),
            door: Door::Http,
            effects: AllowedEffects::ReadOnly,
            origin: RequestOrigin { client: Some("agent 1.0".into()), ..RequestOrigin::default() },
            ..RunRequest::new(Profile::Snippet, "return 1")
        };
        let stored = StoredRequest::of(&request, Duration::from_secs(5), Some("https://example.com/".into()));
        let text = serde_json::to_string(&stored).unwrap();
        let read: StoredRequest = serde_json::from_str(&text).unwrap();
        assert_eq!(read, stored);
        let again = read.request(Profile::Snippet, "return 1".into());
        let wall = Some(Duration::from_secs(5));
        assert_eq!((again.data, again.seed, again.engine), (request.data, request.seed, request.engine));
        assert_eq!(again.limits, LimitRequest { wall, ..request.limits });
        assert_eq!((again.text.as_str(), again.effects), ("return 1", AllowedEffects::ReadOnly), "rights stay");
        assert_eq!((again.origin.client.as_deref(), again.door), (Some("agent 1.0"), Door::Http));
    }

    #[test]
    fn a_run_that_goes_on_has_the_door_that_it_came_by() {
        for door in [Door::Mcp("call_tool_chain"), Door::Http, Door::WebSocket, Door::CommandLine, Door::Api] {
            let request = RunRequest { door, ..RunRequest::new(Profile::Chain, "return 1") };
            let text = serde_json::to_string(&StoredRequest::of(&request, Duration::from_secs(5), None)).unwrap();
            let read: StoredRequest = serde_json::from_str(&text).unwrap();
            assert_eq!(read.request(Profile::Chain, "return 1".into()).door, door);
        }
        let earlier: StoredRequest = serde_json::from_str("{}").unwrap();
        assert_eq!(earlier.request(Profile::Chain, "return 1".into()).door, Door::Durable);
    }

    #[test]
    fn what_a_correction_keeps_is_stored_with_it() {
        let call = |target: Target, is_read: bool, answer: Option<&str>| NotedCall {
            target,
            args: "{}".into(),
            is_read,
            answer: answer.map(str::to_owned),
        };
        let tool = |tool: &str| Target::Tool { backend: "b".into(), tool: tool.into() };
        let calls = [
            call(tool("read"), true, Some("1")),
            call(tool("write"), false, Some("2")),
            call(Target::Function("send".into()), false, None),
        ];
        let kept = KeptEffects::in_memory("first", &calls, None, None);
        let request = RunRequest { kept: Some(Arc::new(kept)), ..RunRequest::new(Profile::Chain, "return 1") };
        let text = serde_json::to_string(&StoredRequest::of(&request, Duration::from_secs(5), None)).unwrap();
        let mut read: StoredRequest = serde_json::from_str(&text).unwrap();
        let kept = read.take_carried().expect("the calls");
        assert_eq!(kept.run(), "first");
        let left = kept.left();
        assert!(left.len() == 3 && calls.iter().all(|call| left.contains(call)), "{left:?}");
        // Records of earlier versions have no such field.
        let mut earlier: StoredRequest = serde_json::from_str(r#"{"fixes":"first"}"#).unwrap();
        assert!(earlier.take_carried().is_none());
        assert_eq!((earlier.keys, read.keys), (KeyForm::Digits, KeyForm::Uuid));
        assert_eq!(earlier.fixes.as_deref(), Some("first"));
    }
}
