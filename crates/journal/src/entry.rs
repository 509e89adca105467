//! What a record consists of.
//!
//! An entry is either a message to the guest, something that the guest said (with its digest), or what the host did
//! about a call that may have an effect. Their order is the total order of the run's messages. Console lines and the end
//! of a run are kept whole, so that a record can be shown and redacted.

use serde::{Deserialize, Serialize};
use toolgate_engine::transcript::{Digest, DigestKey};
use toolgate_wire::frame::{End, Question, Stream, Target};
use toolgate_wire::{CallId, CallState, Code, ErrorClass, FromWorker, Profile};

use crate::recording::RunFacts;
use crate::start::StartMessage;
use crate::text::{Blobs, ContentHash, MissingBlob, Text};

/// The version of the format; another number means that an older reader must not guess.
pub const FORMAT_VERSION: u32 = 1;

/// One entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds from the beginning of the run. Time in which the run was not running does not count.
    pub at: f64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The run was accepted. Always first.
    Header(Box<Header>),
    /// The program went to the guest.
    Start(Box<StartMessage>),
    /// A reply went to the guest.
    Reply(Reply),
    /// An expired timer went to the guest.
    Fire {
        /// The timer.
        id: u32,
        /// The guest's clock.
        now: f64,
    },
    /// The answer to a question went to the guest.
    Answer {
        /// The answer; absent when nothing has that name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Text>,
    },
    /// The guest made a call.
    Call(Call),
    /// The guest set a timer.
    Timer {
        /// The digest of what it said.
        digest: DigestText,
        /// The timer.
        id: u32,
        /// Milliseconds; absent when it is not a number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delay: Option<f64>,
    },
    /// The guest stopped a timer.
    Cancel {
        /// The digest of what it said.
        digest: DigestText,
        /// The timer.
        id: u32,
    },
    /// The guest asked about tools.
    Ask {
        /// The digest of what it said.
        digest: DigestText,
        /// The question.
        question: AskedFor,
    },
    /// The guest printed a line.
    Line {
        /// The digest of what it said.
        digest: DigestText,
        /// Whether it went to standard error.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stderr: bool,
        /// The line.
        text: Text,
    },
    /// The program ended.
    End {
        /// The digest of what it said.
        digest: DigestText,
        /// Console lines that were not sent.
        #[serde(default, skip_serializing_if = "is_zero")]
        dropped: u64,
        /// How it ended.
        end: ProgramEnd,
    },
    /// A call that may have an effect is about to be sent. Durable before it is.
    Intent {
        /// The call.
        id: u32,
        /// When, in milliseconds since 1970.
        sent: u64,
    },
    /// A person is asked about a call, which was not sent: an intent before this counts no more.
    Asked {
        /// The call.
        id: u32,
        /// Whether its server asks, which has had the call then.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_server: bool,
    },
    /// The program was rehearsed: JSON text of what it read and would have written. Its execution begins after this.
    Staged {
        /// The review.
        review: Text,
    },
    /// Such a call was answered. Durable before the guest gets the reply.
    Answered(Reply),
    /// The record reached its bound; nothing after this is recorded.
    Truncated {
        /// Bytes that were recorded.
        bytes: u64,
    },
    /// The report of the run, as JSON text. Always last.
    Report {
        /// The report.
        report: Text,
    },
}

/// What is known of a run before its program starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT_VERSION`] of the writer.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// The kind of run.
    pub profile: Profile,
    /// The program as its author wrote it.
    pub code: Text,
    /// The hash of the program.
    pub code_hash: ContentHash,
    /// What executes programs here. A run that is repeated elsewhere may behave differently.
    pub engine: String,
    /// The name of the caller's key; empty for the local user.
    pub caller: String,
    /// JSON text of what else was asked for, where the run is durable: it is needed to run the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Text>,
    /// When the run was accepted, in milliseconds since 1970.
    pub began: u64,
    /// The key of the digests, in hexadecimal digits.
    pub digest_key: String,
}

impl Header {
    /// The header of a new run.
    pub fn new(facts: RunFacts, key: &DigestKey, blobs: &mut Blobs) -> Self {
        let RunFacts { run, profile, code, caller, request } = facts;
        Header {
            version: FORMAT_VERSION,
            run,
            profile,
            code: blobs.keep(&code).0,
            code_hash: ContentHash::of(&code),
            engine: engine_fingerprint(),
            caller,
            request: request.map(|request| blobs.keep(&request).0),
            began: crate::unix_ms(),
            digest_key: hex(key.bytes()),
        }
    }

    /// The key of the digests; `None` when the text is none.
    pub fn key(&self) -> Option<DigestKey> {
        unhex(&self.digest_key).map(DigestKey::new)
    }
}

/// What executes programs in this build.
pub fn engine_fingerprint() -> String {
    format!("toolgate {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)
}

/// A digest as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DigestText(pub Digest);

impl TryFrom<String> for DigestText {
    type Error = toolgate_engine::transcript::NoDigest;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(DigestText)
    }
}

impl From<DigestText> for String {
    fn from(digest: DigestText) -> Self {
        digest.0.to_string()
    }
}

/// An answer to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The call.
    pub id: u32,
    /// The guest's clock; absent where the reply was not delivered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<f64>,
    /// What is known about the call's effect.
    pub state: CallState,
    /// What the policy let the call through by; absent where no rule is about it, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<AllowedBy>,
    /// The body of the reply.
    #[serde(flatten)]
    pub body: ReplyBody,
}

/// What the policy let a call through by, without a question of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedBy {
    /// The rule; absent where the default of the policy asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Whether the rule asks, and an approval that is remembered answered it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remembered: bool,
}

/// The body of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyBody {
    /// JSON text of the value.
    Value(Text),
    /// JSON text of the error's fields.
    Error(Text),
}

impl ReplyBody {
    /// The text in it.
    pub fn text(&self) -> &Text {
        match self {
            ReplyBody::Value(text) | ReplyBody::Error(text) => text,
        }
    }

    /// The body as it is sent to a worker.
    ///
    /// # Errors
    /// If the text is missing.
    pub fn bytes(&self, blobs: &Blobs) -> Result<Result<Vec<u8>, Vec<u8>>, MissingBlob> {
        let bytes = blobs.text(self.text())?.as_bytes().to_vec();
        Ok(match self {
            ReplyBody::Value(_) => Ok(bytes),
            ReplyBody::Error(_) => Err(bytes),
        })
    }
}

/// A call that the guest made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The digest of what it said.
    pub digest: DigestText,
    /// The number that the guest gave it.
    pub id: u32,
    /// What it invokes.
    #[serde(flatten)]
    pub target: CallTarget,
    /// JSON text of the arguments.
    pub args: Text,
    /// Whether it is known to change nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// In durable runs, with the first call of a tool: a hash of the tool's schemas at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
}

/// What a call invokes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CallTarget {
    /// A tool.
    Tool {
        /// Its backend.
        backend: String,
        /// Its name.
        tool: String,
    },
    /// A host function.
    Function {
        /// Its name.
        function: String,
    },
}

impl From<&Target> for CallTarget {
    fn from(target: &Target) -> Self {
        match target.clone() {
            Target::Tool { backend, tool } => CallTarget::Tool { backend, tool },
            Target::Function(function) => CallTarget::Function { function },
        }
    }
}

impl From<&CallTarget> for Target {
    fn from(target: &CallTarget) -> Self {
        match target.clone() {
            CallTarget::Tool { backend, tool } => Target::Tool { backend, tool },
            CallTarget::Function { function } => Target::Function(function),
        }
    }
}

/// A question about tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedFor {
    /// See [`Question::Backend`].
    Backend(String),
    /// See [`Question::Global`].
    Global(String),
    /// See [`Question::Backends`].
    Backends,
    /// See [`Question::InterfaceOf`].
    InterfaceOf(String),
    /// See [`Question::Interface`].
    Interface {
        /// The backend.
        backend: String,
        /// The tool.
        tool: String,
    },
}

impl From<&Question> for AskedFor {
    fn from(question: &Question) -> Self {
        match question.clone() {
            Question::Backend(name) => AskedFor::Backend(name),
            Question::Global(name) => AskedFor::Global(name),
            Question::Backends => AskedFor::Backends,
            Question::InterfaceOf(name) => AskedFor::InterfaceOf(name),
            Question::Interface { backend, tool } => AskedFor::Interface { backend, tool },
        }
    }
}

impl From<&AskedFor> for Question {
    fn from(question: &AskedFor) -> Self {
        match question.clone() {
            AskedFor::Backend(name) => Question::Backend(name),
            AskedFor::Global(name) => Question::Global(name),
            AskedFor::Backends => Question::Backends,
            AskedFor::InterfaceOf(name) => Question::InterfaceOf(name),
            AskedFor::Interface { backend, tool } => Question::Interface { backend, tool },
        }
    }
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramEnd {
    /// JSON text of what it returned.
    Returned(Text),
    /// Its failure, with the position in the compiled program.
    Failed {
        /// The kind of failure.
        code: Code,
        /// The message.
        message: Text,
        /// The line; zero when unknown.
        line: u32,
        /// The column; zero when unknown.
        column: u32,
        /// What it threw, if that was an error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<ErrorClass>,
    },
}

impl Event {
    /// What the guest said, with the bytes that it adds.
    pub fn said(frame: &FromWorker, read_only: bool, key: &DigestKey, blobs: &mut Blobs) -> Option<(Self, usize)> {
        let digest = DigestText(key.digest(frame));
        let mut bytes = 0;
        let mut keep = |text: &[u8]| {
            let (text, added) = blobs.keep(&String::from_utf8_lossy(text));
            bytes += added;
            text
        };
        let event = match frame {
            FromWorker::Ready { .. } => return None,
            FromWorker::Call { id, target, args } => {
                Event::Call(Call { digest, id: id.0, target: target.into(), args: keep(args), read_only, schema: None })
            }
            FromWorker::Timer { id, delay } => {
                Event::Timer { digest, id: id.0, delay: Some(*delay).filter(|delay| delay.is_finite()) }
            }
            FromWorker::Cancel { id } => Event::Cancel { digest, id: id.0 },
            FromWorker::Ask(question) => Event::Ask { digest, question: question.into() },
            FromWorker::Log { stream, text } => {
                Event::Line { digest, stderr: *stream == Stream::Stderr, text: keep(text.as_bytes()) }
            }
            FromWorker::Done { end, dropped, .. } => {
                let end = match end {
                    End::Returned(json) => ProgramEnd::Returned(keep(json)),
                    End::Failed { code, message, line, column, class } => ProgramEnd::Failed {
                        code: *code,
                        message: keep(message.as_bytes()),
                        line: *line,
                        column: *column,
                        class: *class,
                    },
                };
                Event::End { digest, dropped: *dropped, end }
            }
        };
        Some((event, bytes))
    }

    /// What the guest said then; `None` for an entry that is something else.
    ///
    /// # Errors
    /// If a text is missing.
    pub fn frame(&self, blobs: &Blobs) -> Result<Option<FromWorker>, MissingBlob> {
        Ok(Some(match self {
            Event::Call(call) => FromWorker::Call {
                id: CallId(call.id),
                target: (&call.target).into(),
                args: blobs.text(&call.args)?.into(),
            },
            Event::Timer { id, delay, .. } => FromWorker::Timer { id: CallId(*id), delay: delay.unwrap_or(f64::NAN) },
            Event::Cancel { id, .. } => FromWorker::Cancel { id: CallId(*id) },
            Event::Ask { question, .. } => FromWorker::Ask(question.into()),
            Event::Line { stderr, text, .. } => FromWorker::Log {
                stream: if *stderr { Stream::Stderr } else { Stream::Stdout },
                text: blobs.text(text)?.to_owned(),
            },
            Event::End { dropped, end, .. } => {
                let end = match end {
                    ProgramEnd::Returned(json) => End::Returned(blobs.text(json)?.into()),
                    ProgramEnd::Failed { code, message, line, column, class } => End::Failed {
                        code: *code,
                        message: blobs.text(message)?.to_owned(),
                        line: *line,
                        column: *column,
                        class: *class,
                    },
                };
                FromWorker::Done { end, memory: 0, cpu: 0, dropped: *dropped }
            }
            Event::Header(_)
            | Event::Start(_)
            | Event::Reply(_)
            | Event::Fire { .. }
            | Event::Answer { .. }
            | Event::Intent { .. }
            | Event::Asked { .. }
            | Event::Staged { .. }
            | Event::Answered(_)
            | Event::Truncated { .. }
            | Event::Report { .. } => return Ok(None),
        }))
    }

    /// The texts of an entry that may be long.
    pub fn texts(&self) -> Vec<&Text> {
        match self {
            Event::Header(header) => [&header.code].into_iter().chain(&header.request).collect(),
            Event::Start(start) => {
                let named = start.named.iter().map(|(_, answer)| answer);
                named.chain([&start.compiled]).chain(&start.data).collect()
            }
            Event::Reply(reply) | Event::Answered(reply) => vec![reply.body.text()],
            Event::Answer { body } => body.iter().collect(),
            Event::Call(call) => vec![&call.args],
            Event::Line { text, .. } => vec![text],
            Event::End { end: ProgramEnd::Returned(text) | ProgramEnd::Failed { message: text, .. }, .. } => vec![text],
            Event::Report { report: text } | Event::Staged { review: text } => vec![text],
            Event::Fire { .. }
            | Event::Timer { .. }
            | Event::Cancel { .. }
            | Event::Ask { .. }
            | Event::Intent { .. }
            | Event::Asked { .. }
            | Event::Truncated { .. } => Vec::new(),
        }
    }

    /// The same, to be replaced.
    pub(crate) fn texts_mut(&mut self) -> Vec<&mut Text> {
        match self {
            Event::Header(header) => [&mut header.code].into_iter().chain(&mut header.request).collect(),
            Event::Start(start) => {
                let named = start.named.iter_mut().map(|(_, answer)| answer);
                named.chain([&mut start.compiled]).chain(&mut start.data).collect()
            }
            Event::Reply(reply) | Event::Answered(reply) => match &mut reply.body {
                ReplyBody::Value(text) | ReplyBody::Error(text) => vec![text],
            },
            Event::Answer { body } => body.iter_mut().collect(),
            Event::Call(call) => vec![&mut call.args],
            Event::Line { text, .. } => vec![text],
            Event::End { end: ProgramEnd::Returned(text) | ProgramEnd::Failed { message: text, .. }, .. } => vec![text],
            Event::Report { report: text } | Event::Staged { review: text } => vec![text],
            Event::Fire { .. }
            | Event::Timer { .. }
            | Event::Cancel { .. }
            | Event::Ask { .. }
            | Event::Intent { .. }
            | Event::Asked { .. }
            | Event::Truncated { .. } => Vec::new(),
        }
    }

    /// The digest of what the guest said.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Event::Call(Call { digest, .. })
            | Event::Timer { digest, .. }
            | Event::Cancel { digest, .. }
            | Event::Ask { digest, .. }
            | Event::Line { digest, .. }
            | Event::End { digest, .. } => Some(digest.0),
            _ => None,
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 32 bytes from 64 hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = pair.iter().fold(0, |number, digit| number << 4 | digit);
    }
    Some(bytes)
}
