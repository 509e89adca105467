//! A rule of the policy as it is written.

use serde_json::{Value as Json, json};

use super::reader::section;
use super::{Located, Location, RawSetting, RawText, Reader};
use crate::text::tree::{Node, Value};
use crate::values::{CallLimitWords, Glob, Period, PolicyAction, PolicyAnnotation, PolicyProfile};

section! {
    /// One rule of the policy: which calls it is about, and what happens to them.
    Refused PolicyRule {
        /// The tools: a pattern over backend.tool, or over the name of a host function; by default every one.
        tool: RawText<Glob>,
        /// Annotations that the tool must have: a list such as ["destructive"], or an object such as {"readOnly": false}. What a server does not say is taken from presets and from the verb of the name.
        annotations: RawAnnotations,
        /// Patterns of the callers' names; local is the user of this machine. By default every caller.
        callers: Vec<Located<RawText<Glob>>>,
        /// The kinds of run: chain, snippet, compute, or direct for calls without a program. By default every kind.
        profiles: Vec<Located<RawText<PolicyProfile>>>,
        /// A condition in CEL over args, caller, counts, profile and tool. One that fails counts against the call.
        when: RawText<String>,
        /// What happens: allow, ask (a person decides), or deny.
        action = "do": RawText<PolicyAction>,
        /// Why; the program and people read it.
        reason: RawText<String>,
        /// Patterns of the names of those who may decide; by default everyone who may decide at all.
        approvers: Vec<Located<RawText<Glob>>>,
        /// How long a question to a person stands.
        expiry: RawText<Period>,
        /// With do: ask, whether a program that may make such a call is staged: all its writes are reviewed before any is sent.
        stage: bool,
        /// How many calls the rule lets through, such as "at most 20 a run" or {"run": 20, "day": 100}; the calls after that are denied.
        limits: RawCallLimits,
    }
}

/// Names of annotations, or a table of them.
#[derive(Debug, Clone)]
pub(crate) enum RawAnnotations {
    /// Those that the tool must have.
    Names(Vec<Located<RawText<PolicyAnnotation>>>),
    /// Those that it must or must not have.
    Flags(AnnotationFlags),
}

section! {
    /// Annotations that a tool must or must not have.
    Refused AnnotationFlags {
        /// It changes nothing.
        read_only = "readOnly": bool,
        /// It may change or delete what is there.
        destructive: bool,
        /// It may reach beyond a closed system.
        open_world = "openWorld": bool,
    }
}

impl RawSetting for RawAnnotations {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::List(_) => RawSetting::read(node, place, reader).map(Self::Names),
            _ => RawSetting::read(node, place, reader).map(Self::Flags),
        }
    }

    fn schema() -> Json {
        json!({"anyOf": [AnnotationFlags::schema(), Vec::<Located<RawText<PolicyAnnotation>>>::schema()]})
    }
}

/// Limits in words, or as a table.
#[derive(Debug, Clone)]
pub(crate) enum RawCallLimits {
    /// In words.
    Words(RawText<CallLimitWords>),
    /// As a table.
    Counts(CallLimitCounts),
}

section! {
    /// How many calls a rule lets through.
    Refused CallLimitCounts {
        /// In one run.
        run: u64,
        /// By one caller since midnight UTC.
        day: u64,
    }
}

impl RawSetting for RawCallLimits {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Map(_) => RawSetting::read(node, place, reader).map(Self::Counts),
            _ => RawSetting::read(node, place, reader).map(Self::Words),
        }
    }

    fn schema() -> Json {
        json!({"anyOf": [RawText::<CallLimitWords>::schema(), CallLimitCounts::schema()]})
    }
}
