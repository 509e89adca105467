//! The file, as it is written: every setting with its place, nothing interpreted.
//!
//! `mcpServers` (and VS Code's `servers`) are other programs' sections, so unknown keys
//! there are warnings; everything under `toolgate` is ours, so an unknown key is an error.
//! This is the one list of settings: the reader and the JSON Schema both come from it.

pub(crate) mod shape;

use std::net::SocketAddr;

use shape::section;
pub use shape::{AnyScalar, At, Place, Reader, Scalar, Shape, Table, Texts, Verbatim, Written};

use super::problem::Problem;
use super::text::Source;
use super::values::{
    Allowed, Bytes, Endpoint, Engine, Glob, HostName, Isolation, KeyHash, Method, Millis, Mode, Origin, Period, Rate,
    Store, ToolPath, TransportKind,
};

/// A file that could be read, with what is already known to be wrong in it.
#[derive(Debug, Clone)]
pub struct Raw {
    /// The text it came from.
    pub source: Source,
    /// Its settings; what was unreadable is absent and stands in `problems`.
    pub file: File,
    /// Unknown keys and wrong kinds.
    pub problems: Vec<Problem>,
}

impl Raw {
    /// Reads the shape of a text. Fails only if there is no tree to read from.
    pub fn read(source: Source) -> Result<Self, Vec<Problem>> {
        let tree = source.tree()?;
        let place = Place { span: tree.span, path: String::new() };
        let mut reader = Reader { source: &source, problems: Vec::new() };
        let file = File::read(&tree, &place, &mut reader).unwrap_or_default();
        let mut problems = reader.problems;
        for problem in &mut problems {
            if Toolgate::KEYS.contains(&problem.path.as_str()) {
                problem.help = Some(format!("write it as toolgate.{}", problem.path));
            }
        }
        Ok(Self { source, file, problems })
    }
}

section! {
    /// Toolgate's configuration: the MCP servers behind it, in the form that clients use, and its own settings.
    Refused File {
        /// The address of this schema, for editors.
        schema = "$schema": Written<String>,
        /// The MCP servers, as in the files of Claude Desktop, Claude Code and Cursor.
        mcp_servers = "mcpServers": Table<Server>,
        /// The MCP servers, as in the files of VS Code.
        servers: Table<Server>,
        /// What VS Code would ask its user for. Toolgate can't ask; a server that needs one is an error.
        inputs: Verbatim,
        /// Toolgate's own settings.
        toolgate: Toolgate,
    }
}

section! {
    /// One MCP server: a command to start, or a URL to connect to.
    Ignored Server {
        /// The transport; if absent, a command means stdio and a URL means http.
        kind = "type": Written<TransportKind>,
        /// The program to start.
        command: Written<String>,
        /// Its arguments.
        args: Vec<At<Written<String>>>,
        /// Environment variables for it.
        env: Texts,
        /// A file of NAME=value lines with more of them.
        env_file = "envFile": Written<String>,
        /// The folder it runs in; relative to the folder of this file.
        cwd: Written<String>,
        /// The address of an HTTP server.
        url: Written<Endpoint>,
        /// Headers for each request to it.
        headers: Texts,
        /// Leave this server out.
        disabled: bool,
        /// The opposite of disabled, as some clients write it.
        enabled: bool,
        /// How long one call may take: text such as 30s, or a number of milliseconds, as clients write it.
        timeout: Written<Millis>,
        /// A name for people; not used.
        name: Written<String>,
        /// A note for people; not used.
        description: Written<String>,
    }
}

section! {
    /// Toolgate's own settings.
    Refused Toolgate {
        /// What an agent sees: the few tools of code mode (code), the backends' own (direct), or both.
        mode: Written<Mode>,
        /// How scripts are run.
        sandbox: Sandbox,
        /// How results are fitted to a context window.
        output: Output,
        /// Bounds of the gateway as a whole.
        limits: Limits,
        /// The tool cache on disk.
        cache: Cache,
        /// The HTTP service.
        http: Http,
        /// Settings for single servers, by their names.
        backends: Table<Backend>,
        /// Host functions of your own, by the names that scripts call them.
        functions: Table<Function>,
        /// What guarded outgoing HTTP may reach beyond the public internet.
        guard: Guard,
        /// Where sessions live: memory, or the URL of a Redis that several Toolgates share.
        store: Written<Store>,
        /// Settings for single engines.
        engines: Engines,
        /// The weather function.
        weather: Weather,
        /// Let agents add and remove backends while running.
        allow_runtime_registration: bool,
    }
}

section! {
    /// How scripts are run.
    Refused Sandbox {
        /// The engine: auto, quickjs or v8.
        engine: Written<Engine>,
        /// A confined process for each run, or a thread.
        isolation: Written<Isolation>,
        /// How many runs at once; the default is twice the number of cores, at least 8.
        max_concurrent_runs: u64,
        /// How many workers are kept ready.
        pool: u64,
        /// Limits for each profile.
        limits: Profiles,
    }
}

section! {
    /// Limits for each profile.
    Refused Profiles {
        /// Pure functions over data.
        compute: Profile,
        /// Chains of tool calls.
        chain: Profile,
        /// Quick snippets.
        snippet: Profile,
    }
}

section! {
    /// The limits of one profile.
    Refused Profile {
        /// Wall time.
        timeout: Written<Period>,
        /// Everything the run allocates.
        memory: Written<Bytes>,
        /// The stack.
        stack: Written<Bytes>,
        /// Characters of code.
        code: u64,
        /// Bytes of the result.
        result: Written<Bytes>,
        /// Lines of console output.
        log_lines: u64,
        /// Host calls of one run.
        calls: u64,
        /// Host calls at the same time.
        calls_in_flight: u64,
    }
}

section! {
    /// How results are fitted to a context window.
    Refused Output {
        /// Keep only what an intent asks for.
        intent: bool,
        /// Show large JSON by its structure.
        auto_chunk_json: bool,
        /// Cut out the middle and keep head and tail; off, only the head stays.
        smart_truncation: bool,
        /// JSON above this size is chunked.
        chunk_threshold: Written<Bytes>,
        /// The hard bound on what is returned.
        max_output_size: Written<Bytes>,
    }
}

section! {
    /// Bounds of the gateway as a whole.
    Refused Limits {
        /// How long one tool call may take, unless its backend says otherwise.
        call_timeout: Written<Period>,
        /// How many calls a backend gets at once, unless it says otherwise.
        max_concurrent_calls: u64,
        /// How long a backend may take to start.
        start_timeout: Written<Period>,
        /// How many runs may wait for their turn.
        max_queued_runs: u64,
        /// How much of reduced results is kept to be read again.
        result_store: Written<Bytes>,
        /// How long it is kept.
        result_ttl: Written<Period>,
        /// How long running work may go on at shutdown.
        shutdown_grace: Written<Period>,
    }
}

section! {
    /// The tool cache on disk.
    Refused Cache {
        /// Off: tools are listed only once their backend is up.
        enabled: bool,
        /// Its folder; the default is toolgate in the user's cache folder.
        dir: Written<String>,
    }
}

section! {
    /// The HTTP service.
    Refused Http {
        /// Address and port to listen on.
        bind: Written<SocketAddr>,
        /// Who may use it; without keys only this machine may.
        keys: Vec<At<Key>>,
        /// Origins of web pages that may call it.
        allowed_origins: Vec<At<Written<Origin>>>,
        /// Host names it answers to, besides those of this machine.
        allowed_hosts: Vec<At<Written<HostName>>>,
    }
}

section! {
    /// One API key.
    Refused Key {
        /// Whose it is, for logs.
        name: Written<String>,
        /// sha256: and the 64 hexadecimal digits of the key's SHA-256.
        hash: Written<KeyHash>,
        /// Patterns of the functions it may call; absent, all.
        functions: Vec<At<Written<Glob>>>,
        /// Patterns of the backends it may call; absent, all.
        backends: Vec<At<Written<Glob>>>,
        /// How often it may ask, such as 100/s.
        rate: Written<Rate>,
    }
}

section! {
    /// Settings for one server.
    Refused Backend {
        /// How long one call may take.
        timeout: Written<Period>,
        /// How many calls at once.
        max_concurrent_calls: u64,
        /// Patterns of the tools to show; absent, all.
        allow: Vec<At<Written<Glob>>>,
        /// Patterns of the tools to hide, even if allowed.
        deny: Vec<At<Written<Glob>>>,
        /// Words to find its tools by.
        tags: Vec<At<Written<String>>>,
        /// Off: in direct mode its tools keep their own names, without the server's in front, where no other tool has them.
        prefix: bool,
    }
}

section! {
    /// A host function: an HTTP endpoint, or a tool under another name.
    Refused Function {
        /// The endpoint.
        url: Written<Endpoint>,
        /// Its method; POST if absent.
        method: Written<Method>,
        /// Headers for it.
        headers: Texts,
        /// How long a call may take.
        timeout: Written<Period>,
        /// Instead of a URL: backend.tool.
        tool: Written<ToolPath>,
        /// What it does, for the model.
        description: Written<String>,
        /// JSON Schema of its argument.
        schema: Verbatim,
    }
}

section! {
    /// What guarded outgoing HTTP may reach beyond the public internet.
    Refused Guard {
        /// Hosts such as intranet.example or *.example.com, and networks such as 10.0.0.0/8.
        allow: Vec<At<Written<Allowed>>>,
    }
}

section! {
    /// Settings for single engines.
    Refused Engines {
        /// V8, by the user's deno.
        v8: V8,
    }
}

section! {
    /// V8, by the user's deno.
    Refused V8 {
        /// The deno binary; if absent, it is looked for on PATH.
        deno: Written<String>,
        /// How many processes are kept warm; 0 keeps none.
        pool: u64,
        /// The processor time after which a run moves from QuickJS to V8, in milliseconds.
        threshold_ms: u64,
    }
}

section! {
    /// The weather function.
    Refused Weather {
        /// The service it asks; the default is Open-Meteo.
        base_url: Written<Endpoint>,
    }
}
