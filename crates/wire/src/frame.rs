//! The messages between the host and a worker.
//!
//! Everything that the program does not compute itself enters the worker as a [`ToWorker`] message: replies, timers,
//! the clock. The same program with the same sequence of messages takes the same path.

use serde::Serialize;

use crate::{Code, ErrorClass, Limits, Profile};

/// Number that the worker gives to a call or a timer; unique within its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u32);

/// Seeds of a run's two random number generators; the same seeds give the same numbers again.
///
/// They are independent: the state of `Math.random` can be computed from its output, and must not reveal the key of `crypto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    /// Seed of `Math.random`.
    pub math: u64,
    /// ChaCha20 key of `crypto`.
    pub crypto: [u8; 32],
}

impl From<u64> for Seed {
    /// Both seeds from one number, for a caller that wants repeatable numbers rather than secret ones.
    fn from(number: u64) -> Self {
        let mut crypto = [0; 32];
        crypto[..8].copy_from_slice(&number.to_le_bytes());
        Seed { math: number, crypto }
    }
}

/// A program with everything that its worker has to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The kind of run.
    pub profile: Profile,
    /// What the run may use.
    pub limits: Limits,
    /// Seeds of the random number generators.
    pub seed: Seed,
    /// The program's clock in milliseconds since 1970; it stands still until the next message advances it.
    pub now: f64,
    /// A JavaScript expression whose value is the function to call.
    pub code: String,
    /// Length in bytes of the JSON text that follows the frame: the argument of a computation, or the global `context`.
    /// It is sent outside the frame so that neither side holds a second copy of it.
    pub data: Option<u64>,
    /// Names of the host functions; a dot separates an object from its member.
    pub functions: Vec<String>,
    /// Whether the host has tools, so that [`Question`]s make sense.
    pub tools: bool,
    /// Answers to [`Question::Global`] for names that the code uses, sent ahead to save a round trip each.
    /// A worker may ignore them and ask.
    pub named: Vec<(String, Vec<u8>)>,
}

/// From the host to a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum ToWorker {
    /// Run this program. Sent once, first.
    Start(Box<Start>),
    /// The result of a call.
    Reply {
        /// The call.
        id: CallId,
        /// The clock at this moment.
        now: f64,
        /// JSON text of the value, or of the error's fields.
        body: Result<Vec<u8>, Vec<u8>>,
    },
    /// A timer expired.
    Fire {
        /// The timer.
        id: CallId,
        /// The clock at this moment.
        now: f64,
    },
    /// The answer to the last [`Question`] as JSON text; `None` when nothing has that name.
    Answer(Option<Vec<u8>>),
    /// The run waited for a person, which is no wall time of the program. It changes nothing that the program can see, so it
    /// is no part of a record.
    Waited {
        /// How long, in milliseconds.
        ms: u64,
    },
}

/// What a worker asks about the tools. The program is suspended until the answer arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The backend under this key of the global `tools`, with its tools.
    Backend(String),
    /// The backend that a global variable of this name stands for, with its tools.
    Global(String),
    /// The names of all backends.
    Backends,
    /// The interface of the tool that this text names, in any of the accepted spellings.
    InterfaceOf(String),
    /// The interface of one tool of one backend.
    Interface {
        /// The backend, in any of its spellings.
        backend: String,
        /// The tool, in any of its spellings.
        tool: String,
    },
}

impl Question {
    /// Total length of the names in it.
    pub fn name_bytes(&self) -> usize {
        match self {
            Question::Backend(name) | Question::Global(name) | Question::InterfaceOf(name) => name.len(),
            Question::Interface { backend, tool } => backend.len() + tool.len(),
            Question::Backends => 0,
        }
    }
}

/// The console stream that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// `console.log`, `info` and `debug`.
    Stdout,
    /// `console.warn` and `error`.
    Stderr,
}

/// What a call invokes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A tool of a backend, by the names that the backend itself uses.
    Tool {
        /// The backend.
        backend: String,
        /// The tool.
        tool: String,
    },
    /// A host function.
    Function(String),
}

impl Target {
    /// Total length of its names.
    pub fn name_bytes(&self) -> usize {
        match self {
            Target::Tool { backend, tool } => backend.len() + tool.len(),
            Target::Function(name) => name.len(),
        }
    }

    /// The backend of a tool; `None` for a host function.
    pub fn backend(&self) -> Option<&str> {
        match self {
            Target::Tool { backend, .. } => Some(backend),
            Target::Function(_) => None,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Tool { backend, tool } => write!(f, "{backend}.{tool}"),
            Target::Function(name) => f.write_str(name),
        }
    }
}

/// The fields of a target as reports show it: `name` always, `backend` and `tool` for a tool.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct TargetFields<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
}

impl Target {
    pub(crate) fn serialize_fields<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (backend, tool) = match self {
            Target::Tool { backend, tool } => (Some(backend.as_str()), Some(tool.as_str())),
            Target::Function(_) => (None, None),
        };
        TargetFields { name: self.to_string(), backend, tool }.serialize(serializer)
    }
}

/// The end of a run in the worker's words. The host trusts its form only.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// JSON text of the returned value.
    Returned(Vec<u8>),
    /// The failure, with its position in the generated code.
    Failed {
        /// The kind of failure.
        code: Code,
        /// A message for people.
        message: String,
        /// Line in the generated code; zero when unknown.
        line: u32,
        /// Column in the generated code; zero when unknown.
        column: u32,
        /// What the program threw, if that was an error.
        class: Option<ErrorClass>,
    },
}

/// The isolation layers that a worker has applied, reported before it reads anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layers {
    /// See [`crate::Isolation::seccomp`].
    pub seccomp: bool,
    /// See [`crate::Isolation::landlock`].
    pub landlock: u32,
    /// See [`crate::Isolation::no_new_privs`].
    pub no_new_privs: bool,
    /// See [`crate::Isolation::no_exec_memory`].
    pub no_exec_memory: bool,
    /// Network, IPC and UTS namespaces of its own.
    pub namespaces: bool,
    /// See [`crate::Isolation::private_user`].
    pub private_user: bool,
}

impl Layers {
    /// What holds for both: the weaker of the two, layer by layer.
    pub fn weaker(self, other: Layers) -> Layers {
        Layers {
            seccomp: self.seccomp && other.seccomp,
            landlock: self.landlock.min(other.landlock),
            no_new_privs: self.no_new_privs && other.no_new_privs,
            no_exec_memory: self.no_exec_memory && other.no_exec_memory,
            namespaces: self.namespaces && other.namespaces,
            private_user: self.private_user && other.private_user,
        }
    }
}

/// From a worker to the host.
#[derive(Debug, Clone, PartialEq)]
pub enum FromWorker {
    /// Locked down and waiting for a program. Sent once, first.
    Ready {
        /// The worker's process id.
        pid: u32,
        /// The isolation layers in force.
        layers: Layers,
    },
    /// A host call.
    Call {
        /// Its number.
        id: CallId,
        /// What it invokes.
        target: Target,
        /// JSON text of the arguments.
        args: Vec<u8>,
    },
    /// Start a timer.
    Timer {
        /// Its number.
        id: CallId,
        /// Milliseconds from now.
        delay: f64,
    },
    /// Stop a timer.
    Cancel {
        /// The timer's number.
        id: CallId,
    },
    /// A question about the tools; the program is suspended until the answer arrives.
    Ask(Question),
    /// Console output.
    Log {
        /// The console stream.
        stream: Stream,
        /// One line.
        text: String,
    },
    /// The run is over. Sent once, last.
    Done {
        /// How it ended.
        end: End,
        /// Peak number of bytes held.
        memory: u64,
        /// Processor time in microseconds.
        cpu: u64,
        /// Console lines that were printed but not sent.
        dropped: u64,
    },
}
