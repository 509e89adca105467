//! The messages between a host and its worker.
//!
//! Everything that is not the program's own computation enters it as a [`ToWorker`]: replies,
//! timers, the clock. The same program with the same sequence of them takes the same path.

use crate::{Code, Limits, Profile};

/// The worker's number for one call, timer or question; unique in its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u32);

/// Where a run's random numbers start; recorded, it gives the same numbers again.
///
/// Two parts that say nothing of each other: from what `Math.random` gives, its own part can be worked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    /// For `Math.random`.
    pub math: u64,
    /// The key of `crypto`.
    pub crypto: [u8; 32],
}

impl From<u64> for Seed {
    /// Both parts from one number, for a caller that wants the same numbers again rather than secret ones.
    fn from(number: u64) -> Self {
        let mut crypto = [0; 32];
        crypto[..8].copy_from_slice(&number.to_le_bytes());
        Seed { math: number, crypto }
    }
}

/// A program and all it may know.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The kind of run.
    pub profile: Profile,
    /// What it may use.
    pub limits: Limits,
    /// Where its random numbers start.
    pub seed: Seed,
    /// Its clock, in milliseconds since 1970, until the next message moves it.
    pub now: f64,
    /// JavaScript: an expression that is the function to call.
    pub code: String,
    /// Bytes of JSON text that follow the frame: the data to compute on, or the global `context`.
    /// They travel outside of it, so that neither side ever holds a second copy.
    pub data: Option<u64>,
    /// Names of host functions, dotted for those under an object.
    pub functions: Vec<String>,
    /// Whether there are tools to ask about.
    pub tools: bool,
    /// Answers to [`Question::Global`] that the code will ask for, each with its name: told ahead, they cost no wait.
    /// A worker may as well ask.
    pub named: Vec<(String, Vec<u8>)>,
}

/// From host to worker.
#[derive(Debug, Clone, PartialEq)]
pub enum ToWorker {
    /// Run this. Comes once, first.
    Start(Box<Start>),
    /// A call was answered.
    Reply {
        /// Which call.
        id: CallId,
        /// The clock at the answer.
        now: f64,
        /// JSON text of the value, or of the error's fields.
        body: Result<Vec<u8>, Vec<u8>>,
    },
    /// A timer went off.
    Fire {
        /// Which timer.
        id: CallId,
        /// The clock at that moment.
        now: f64,
    },
    /// What the worker asked for, as JSON text; `None` when there is no such thing.
    Answer(Option<Vec<u8>>),
}

/// What a worker may ask while its program stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// The backend under this key of `tools`, with its tools.
    Backend,
    /// The interface of one tool, by any of its names.
    Interface,
    /// The names of all backends.
    Backends,
    /// The backend that a global variable of this name is, with its tools.
    Global,
}

/// Which console a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// `console.log` and its like.
    Stdout,
    /// `console.error` and its like.
    Stderr,
}

/// What a call is aimed at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A tool of a backend, by the backend's own names.
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
    /// The length of its names.
    pub fn name_bytes(&self) -> usize {
        match self {
            Target::Tool { backend, tool } => backend.len() + tool.len(),
            Target::Function(name) => name.len(),
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

/// The end of a run as the worker tells it. The host believes nothing of it but its form.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// JSON text of the value.
    Returned(Vec<u8>),
    /// What went wrong, with the place in the generated code.
    Failed {
        /// What kind of failure.
        code: Code,
        /// For a reader.
        message: String,
        /// Line and column in the generated code, zero when unknown.
        line: u32,
        /// See `line`.
        column: u32,
    },
}

/// The layers a worker has put on, as it says before it reads anything.
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
    /// Network, IPC and host-name namespaces of its own.
    pub namespaces: bool,
    /// See [`crate::Isolation::private_user`].
    pub private_user: bool,
}

/// From worker to host.
#[derive(Debug, Clone, PartialEq)]
pub enum FromWorker {
    /// Locked down and waiting. Comes once, first.
    Ready {
        /// The worker's process id.
        pid: u32,
        /// What confines it.
        layers: Layers,
    },
    /// A host call.
    Call {
        /// Its number.
        id: CallId,
        /// What it is aimed at.
        target: Target,
        /// JSON text of the arguments.
        args: Vec<u8>,
    },
    /// Wake me.
    Timer {
        /// Its number.
        id: CallId,
        /// Milliseconds from now.
        delay: f64,
    },
    /// Don't wake me.
    Cancel {
        /// The timer's number.
        id: CallId,
    },
    /// A question; the program stands still until the answer.
    Ask {
        /// What about.
        question: Question,
        /// The name in question.
        name: String,
    },
    /// Console output.
    Log {
        /// Which console.
        stream: Stream,
        /// One entry; may hold line breaks.
        text: String,
    },
    /// The run is over. Comes once, last.
    Done {
        /// How it ended.
        end: End,
        /// The most bytes held.
        memory: u64,
        /// Microseconds of processor time.
        cpu: u64,
        /// Lines printed but not sent.
        dropped: u64,
    },
}
