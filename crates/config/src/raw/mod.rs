//! The settings as written in the file: each value with its location, before substitution and parsing.
//!
//! `mcpServers` (and VS Code's `servers`) are sections of other programs, so unknown keys there are warnings; an unknown
//! key under `toolgate` is an error. This is the only list of settings: the reader and the JSON Schema are generated from
//! it.

mod auth;
mod policy;
pub(crate) mod reader;
mod server_sandbox;

use std::net::SocketAddr;

pub(crate) use auth::{Login, RawAuth, RawCredential};
pub(crate) use policy::{PolicyRule, RawAnnotations, RawCallLimits};
use reader::section;
pub(crate) use reader::{Located, Location, RawJson, RawSetting, RawText, Reader, StringMap, Table};
use serde_json::{Value as Json, json};
pub(crate) use server_sandbox::RawSandbox;

use super::problem::Problem;
use super::text::Source;
use super::text::tree::{Node, Value};
use super::values::{
    Allowed, Bytes, EgressWord, Endpoint, Engine, Glob, HostName, HttpAuth, Isolation, KeyHash, Method, MetricsAccess,
    Millis, Mode, Origin, Period, PolicyAction, Rate, ResultFormat, Reuse, RunStorePlace, SecretPlace, Start,
    StoreSetting, ToolPath, TransportKind, UnknownCalls,
};

/// The settings of a file, with the problems found while reading them.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    /// The text it came from.
    pub(crate) source: Source,
    /// Its settings. A setting with a problem is absent.
    pub(crate) file: File,
    /// Unknown keys and values of the wrong type.
    pub(crate) problems: Vec<Problem>,
}

impl Raw {
    /// Reads the settings of a text. Fails only if the text cannot be parsed.
    pub(crate) fn read(source: Source) -> Result<Self, Vec<Problem>> {
        let tree = source.tree()?;
        let place = Location { span: tree.span, path: String::new() };
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
        schema = "$schema": RawText<String>,
        /// The MCP servers, as in the files of Claude Desktop, Claude Code and Cursor.
        mcp_servers = "mcpServers": Table<Server>,
        /// The MCP servers, as in the files of VS Code.
        servers: Table<Server>,
        /// Inputs that VS Code asks its user for. Not supported: a server that uses one is an error.
        inputs: RawJson,
        /// Toolgate's own settings.
        toolgate: Toolgate,
    }
}

section! {
    /// One MCP server, as a command to start or a URL to connect to, or an HTTP API with an OpenAPI document.
    Ignored Server {
        /// The transport: stdio, http, or openapi for an HTTP API. By default, a server with a command is stdio and one with a URL is http.
        kind = "type": RawText<TransportKind>,
        /// The program to start.
        command: RawText<String>,
        /// Its arguments.
        args: Vec<Located<RawText<String>>>,
        /// Environment variables for it.
        env: StringMap,
        /// A file of NAME=value lines with more environment variables.
        env_file = "envFile": RawText<String>,
        /// Give it the whole environment of Toolgate. By default it gets PATH, HOME, the locale, and the variables of proxies
        /// and certificates.
        inherit_env = "inheritEnv": bool,
        /// Its working directory; a relative path is relative to the directory of this file.
        cwd: RawText<String>,
        /// Start it in a sandbox: it reads the system's files, its own folders and what its command and arguments name, and writes to its own folders. Linux only; where that is not possible it is not started. An object says what else it may do.
        sandbox: RawSandbox,
        /// The URL of an HTTP server.
        url: RawText<Endpoint>,
        /// Headers for each request to it.
        headers: StringMap,
        /// Do not start this server.
        disabled: bool,
        /// The opposite of disabled, as some clients write it.
        enabled: bool,
        /// Timeout of one call: a duration such as 30s, or a number of milliseconds as in the files of other clients.
        timeout: RawText<Millis>,
        /// A name for people; not used.
        name: RawText<String>,
        /// What it is for, in a phrase: part of the instructions that agents read first.
        description: RawText<String>,
        /// When it is started, as toolgate.start for this server alone.
        start: RawText<Start>,
        /// The OpenAPI document of an API: a file or a URL.
        spec: RawText<String>,
        /// Where the requests of an API go. The document's own servers decide nothing.
        base: RawText<Endpoint>,
        /// How to log in at an HTTP server: not needed where the server's own metadata is enough. For an API: credentials by the names of its security schemes, each a key or a token, or user:password for basic, or a section as for a server; bearer and basic also work without a scheme.
        auth: RawAuth,
        /// Operations of an API that are tools: tag:NAME, a method, a path with *, or a method and a path. By default all.
        include: Vec<Located<RawText<String>>>,
        /// Operations of an API that are no tools; takes precedence over include.
        exclude: Vec<Located<RawText<String>>>,
        /// Hosts and networks that this API may be at although they are not public.
        allow_hosts = "allowHosts": Vec<Located<RawText<Allowed>>>,
    }
}

section! {
    /// Toolgate's own settings.
    Refused Toolgate {
        /// Which tools an agent sees: those of code mode (code), the backends' own (direct), or both.
        mode: RawText<Mode>,
        /// When servers are started: at once (eager), or at the first call where the tool cache knows their tools (lazy).
        start: RawText<Start>,
        /// Have all windows share one gateway: serve starts a daemon unless one runs, and attaches to it. The servers are started once, in its folder and with its environment.
        share: bool,
        /// Which of Toolgate's own tools agents have.
        tools: AgentTools,
        /// Data that agents compute on without seeing it, by name: the tool compute takes a function over it.
        data: Table<DataSource>,
        /// How scripts are run.
        sandbox: Sandbox,
        /// How results are reduced to fit a context window.
        output: Output,
        /// Limits of the whole gateway.
        limits: Limits,
        /// The tool cache on disk.
        cache: Cache,
        /// The HTTP service.
        http: Http,
        /// The audit log.
        audit: Audit,
        /// Traces and metrics for OpenTelemetry.
        telemetry: Telemetry,
        /// Settings of single servers, by name.
        backends: Table<Backend>,
        /// Your own host functions, by the names that scripts call: a name of its own, or one after `api.`.
        functions: Table<Function>,
        /// Rules for tool calls: deny wins over ask, ask over allow, and among rules of one kind the most specific decides. See docs/POLICY.md.
        policy: Vec<Located<PolicyRule>>,
        /// What happens to a call that no rule of the policy is about.
        policy_default: RawText<PolicyAction>,
        /// Where programs may send HTTP requests with httpCall and api.fetch: nowhere (off), to every public host (all), or to the hosts and networks of a list, such as api.example.com or *.example.com. What it does not allow, programs do not have. Endpoints of functions are not concerned.
        egress: RawEgress,
        /// Hosts and networks that guarded outgoing HTTP may reach besides the public internet.
        guard: Guard,
        /// What several gateways share: the URL of a Redis server for sessions, or of a PostgreSQL database for durable runs and learned types (postgres://…). By default nothing (memory).
        store: RawText<StoreSetting>,
        /// Durable runs.
        runs: Runs,
        /// Settings of single engines.
        engines: Engines,
        /// The weather function.
        weather: Weather,
        /// Where values may come from.
        secrets: Secrets,
        /// Allow agents to add and remove backends at run time. A backend may be a program: with this setting the model can start programs as the user of the gateway, who may approve calls.
        allow_runtime_registration: bool,
    }
}

section! {
    /// Which of Toolgate's own tools agents have.
    Refused AgentTools {
        /// run_code: a snippet with host functions and without tools. By default it is listed where there are host functions.
        run_code: bool,
        /// query_tools: a chain that calls only tools which are known to change nothing, so that clients need not ask.
        query_tools: bool,
    }
}

section! {
    /// Data that agents compute on without seeing it.
    Refused DataSource {
        /// The file: JSON, or JSON lines if its name ends with .jsonl or .ndjson. It is read for each computation.
        file: RawText<String>,
        /// What it has, for the model: what a record is and which fields it has.
        description: RawText<String>,
    }
}

section! {
    /// How scripts are run.
    Refused Sandbox {
        /// The engine: auto, quickjs or v8.
        engine: RawText<Engine>,
        /// Run each program in a confined process (process) or in a thread (thread).
        isolation: RawText<Isolation>,
        /// Use a process again (same_caller) for runs of the same caller, after the host has put back everything that the
        /// run changed in it; or never.
        reuse: RawText<Reuse>,
        /// Maximum number of concurrent runs; the default is twice the number of cores, at least 8.
        max_concurrent_runs: u64,
        /// Number of idle workers kept ready.
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
        /// Maximum wall time.
        timeout: RawText<Period>,
        /// Maximum memory of the run.
        memory: RawText<Bytes>,
        /// Maximum stack size.
        stack: RawText<Bytes>,
        /// Maximum length of the code, in characters.
        code: u64,
        /// Maximum size of the result.
        result: RawText<Bytes>,
        /// Maximum number of lines of console output.
        log_lines: u64,
        /// Maximum number of host calls of one run.
        calls: u64,
        /// Maximum number of concurrent host calls of one run.
        calls_in_flight: u64,
    }
}

section! {
    /// How results are reduced to fit a context window.
    Refused Output {
        /// Reduce a result to the parts that match the intent of the call.
        intent: bool,
        /// Replace large JSON by an overview of its structure.
        auto_chunk_json: bool,
        /// Truncate long text in the middle. If off, it is truncated at the end.
        smart_truncation: bool,
        /// Size above which JSON is chunked.
        chunk_threshold: RawText<Bytes>,
        /// Maximum size of a returned result. The default is smaller for MCP clients, which cut long results themselves.
        max_output_size: RawText<Bytes>,
        /// How a result is written: indented JSON (pretty), JSON without white space (compact), lists of records as one header and rows (table), or what is shortest (auto).
        format: RawText<ResultFormat>,
    }
}

section! {
    /// Limits of the whole gateway.
    Refused Limits {
        /// Timeout of one tool call, unless the backend has its own.
        call_timeout: RawText<Period>,
        /// Maximum number of concurrent calls to one backend, unless the backend has its own.
        max_concurrent_calls: u64,
        /// Timeout for the start of a backend.
        start_timeout: RawText<Period>,
        /// Maximum number of queued runs.
        max_queued_runs: u64,
        /// Maximum total size of the full results that are kept after they were reduced.
        result_store: RawText<Bytes>,
        /// How long they are kept.
        result_ttl: RawText<Period>,
        /// How long running work may continue at shutdown.
        shutdown_grace: RawText<Period>,
        /// How long a run waits for the check of its types; after it the run starts unchecked, with a warning. A command that runs one program waits 2 s, unless this says otherwise.
        type_check: RawText<Period>,
        /// Bytes that Toolgate holds at one time for all runs and requests together: answers and messages, the arguments of calls, and HTTP bodies have so many each.
        bytes_in_flight: RawText<Bytes>,
        /// Bytes of answers, and of arguments, that the runs of one caller have on their way at one time.
        caller_bytes_in_flight: RawText<Bytes>,
        /// Bytes of answers, and of arguments, that one run has on their way at one time. What does not fit fails its call with OVER_BUDGET.
        run_bytes_in_flight: RawText<Bytes>,
    }
}

section! {
    /// The tool cache on disk.
    Refused Cache {
        /// Use the cache. If off, the tools of a backend are listed only after it has started.
        enabled: bool,
        /// Its directory; the default is toolgate in the user's cache directory.
        dir: RawText<String>,
    }
}

section! {
    /// The HTTP service.
    Refused Http {
        /// Address and port to listen on.
        bind: RawText<SocketAddr>,
        /// The API keys. Without keys only clients on this machine may connect.
        keys: Vec<Located<Key>>,
        /// How clients on this machine identify themselves where there are no keys: by the token in token_file (token), or not at all (none): then every user of this machine reaches all servers. A client of a Unix socket needs no token.
        auth: RawText<HttpAuth>,
        /// The file with the token, which only this user can read; it is created when it does not exist.
        token_file: RawText<String>,
        /// Admit callers by tokens of an OAuth issuer, besides keys.
        oauth: HttpOAuth,
        /// Origins of web pages that may use the service.
        allowed_origins: Vec<Located<RawText<Origin>>>,
        /// Accepted host names besides those of this machine.
        allowed_hosts: Vec<Located<RawText<HostName>>>,
        /// Who may read /metrics: every caller and the holder of metrics_key (callers), the latter only (key), or everyone who reaches the service (open): they see totals and no names of servers.
        metrics: RawText<MetricsAccess>,
        /// A key that opens /metrics and nothing else: sha256: followed by its SHA-256 as 64 hexadecimal digits.
        metrics_key: RawText<KeyHash>,
    }
}

section! {
    /// Traces and metrics for a collector of OpenTelemetry, as OTLP with JSON. Off without an endpoint.
    Refused Telemetry {
        /// The collector, such as http://127.0.0.1:4318. Plain HTTP: a collector on this machine adds TLS.
        endpoint: RawText<Endpoint>,
        /// Headers of each request to it.
        headers: StringMap,
        /// The name of this service in traces.
        service_name: RawText<String>,
    }
}

section! {
    /// The audit log: a line of JSON for every call and every run, in a hash chain. toolgate audit verify checks it.
    Refused Audit {
        /// Write it.
        enabled: bool,
        /// The file. Archives of it and a lock are beside it.
        file: RawText<String>,
        /// Write the arguments of calls too, shortened and without fields that look secret. If off, only their digests.
        arguments: bool,
        /// Size at which the file becomes an archive and a new one is begun.
        max_size: RawText<Bytes>,
        /// Number of archives to keep.
        keep: u64,
    }
}

section! {
    /// Admit callers by tokens of an OAuth issuer, besides keys.
    Refused HttpOAuth {
        /// The issuer, exactly as its tokens and its metadata have it.
        issuer: RawText<String>,
        /// The identifier of this service, which tokens must be issued for: the URL that clients connect to, such as https://tools.example.com/mcp.
        audience: RawText<String>,
        /// The URL of the issuer's keys; by default the one that its metadata names.
        jwks: RawText<Endpoint>,
        /// What the scopes of a token open, by their names. A token with none of them opens nothing; without this table, every token of the issuer for this service opens everything.
        scopes: Table<OAuthScope>,
    }
}

section! {
    /// What a scope opens.
    Refused OAuthScope {
        /// Patterns of the tools, as backend.tool; by default all.
        tools: Vec<Located<RawText<Glob>>>,
        /// Patterns of the functions; by default all.
        functions: Vec<Located<RawText<Glob>>>,
    }
}

section! {
    /// One API key.
    Refused Key {
        /// The owner of the key, for logs.
        name: RawText<String>,
        /// sha256: followed by the SHA-256 of the key as 64 hexadecimal digits.
        hash: RawText<KeyHash>,
        /// Patterns of the functions it may call, and of the data it may compute on as data.NAME; by default all.
        functions: Vec<Located<RawText<Glob>>>,
        /// Patterns of the backends it may call; by default all.
        backends: Vec<Located<RawText<Glob>>>,
        /// Patterns of the tools of these backends it may call, as backend.tool; by default all.
        tools: Vec<Located<RawText<Glob>>>,
        /// Tool calls it may make in a minute; by default as many as it likes.
        calls_per_minute: u64,
        /// Its rate limit, such as 100/s.
        rate: RawText<Rate>,
    }
}

section! {
    /// Settings of one server.
    Refused Backend {
        /// Timeout of one call.
        timeout: RawText<Period>,
        /// Maximum number of concurrent calls.
        max_concurrent_calls: u64,
        /// Patterns of the tools to show; by default all.
        allow: Vec<Located<RawText<Glob>>>,
        /// Patterns of the tools to hide; takes precedence over allow.
        deny: Vec<Located<RawText<Glob>>>,
        /// Additional search words for its tools.
        tags: Vec<Located<RawText<String>>>,
        /// When it is started; the default is toolgate.start.
        start: RawText<Start>,
        /// Its sandbox, as sandbox in mcpServers, which this takes precedence over.
        sandbox: RawSandbox,
        /// Prefix its tools with the server's name in direct mode. If off, a tool keeps its own name unless another tool has it.
        prefix: bool,
        /// Learn the types of results that its tools do not declare: kinds and keys, never values. false also forgets what was learned of it, in the database of runs too.
        learn_types: bool,
        /// What its tools do, by their names or by patterns of them: takes precedence over what the server says. Of patterns that fit one tool, the one with the most letters counts.
        tools: Table<ToolTraits>,
    }
}

section! {
    /// What a tool does. What is not set here is as the server says.
    Refused ToolTraits {
        /// A call changes nothing: it is allowed in query_tools, and is made again after a crash.
        read_only: bool,
        /// A call may change or delete what is there.
        destructive: bool,
        /// A call may be made again with the same arguments, and changes nothing more then: it is made again after a crash.
        idempotent: bool,
        /// A call may reach beyond a closed system.
        open_world: bool,
    }
}

section! {
    /// A host function: an HTTP endpoint, or a tool under another name.
    Refused Function {
        /// The endpoint.
        url: RawText<Endpoint>,
        /// The HTTP method; by default POST.
        method: RawText<Method>,
        /// Headers of the request.
        headers: StringMap,
        /// Timeout of a call.
        timeout: RawText<Period>,
        /// The tool to call instead of a URL: backend.tool.
        tool: RawText<ToolPath>,
        /// Description for the model.
        description: RawText<String>,
        /// JSON Schema of its argument.
        schema: RawJson,
        /// JSON Schema of its result. Programs that read something else of it are stopped before their first call.
        returns: RawJson,
        /// A call changes nothing.
        read_only: bool,
        /// A call may be made again with the same arguments.
        idempotent: bool,
    }
}

section! {
    /// Hosts and networks that guarded outgoing HTTP may reach besides the public internet.
    Refused Guard {
        /// Hosts such as intranet.example or *.example.com, and networks such as 10.0.0.0/8.
        allow: Vec<Located<RawText<Allowed>>>,
    }
}

/// A word, or a list of hosts.
#[derive(Debug, Clone)]
pub(crate) enum RawEgress {
    /// A word.
    Word(RawText<EgressWord>),
    /// Hosts and networks.
    Hosts(Vec<Located<RawText<Allowed>>>),
}

impl RawSetting for RawEgress {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::List(_) => RawSetting::read(node, place, reader).map(Self::Hosts),
            _ => RawSetting::read(node, place, reader).map(Self::Word),
        }
    }

    fn schema() -> Json {
        json!({"anyOf": [RawText::<EgressWord>::schema(), Vec::<Located<RawText<Allowed>>>::schema()]})
    }
}

section! {
    /// Durable runs: programs whose calls are kept in a store, so that they survive their process.
    Refused Runs {
        /// Where they are kept: an SQLite file, or a PostgreSQL database (postgres://…) that several gateways share, which then has the learned types too.
        store: RawText<RunStorePlace>,
        /// The file with the key that encrypts them, which only this user can read; it is created when it does not exist. Gateways that share a database need the same key.
        key_file: RawText<String>,
        /// The key itself, in place of a file: a text of 32 characters or more, such as ${keyring:NAME}, which is kept in the keyring of the system.
        key: RawText<String>,
        /// How long a run waits after the last sign of life of its process until another one takes it over.
        lease: RawText<Period>,
        /// How long runs are kept after their end.
        keep: RawText<Period>,
        /// Maximum total size of ended runs; the oldest are forgotten first.
        max_size: RawText<Bytes>,
        /// Maximum number of runs of one caller that have not ended.
        max_open: u64,
        /// Maximum total size of the runs of one caller that have not ended. Beyond it none begins, and calls of these runs that may have an effect are not made.
        max_open_size: RawText<Bytes>,
        /// The secret that webhooks are signed with. Without it a run cannot have a webhook.
        webhook_secret: RawText<String>,
        /// An http:// or https:// URL that gets a signed request whenever a run waits for a person and has no webhook of its own: programs of agents have none.
        webhook: RawText<String>,
        /// What becomes of a run with a call that was sent before a crash and never answered: `ask` lets a person decide whether it is sent again, `end` ends the run and names the call, `auto` asks where the policy asks about any call and ends the run otherwise.
        unknown_calls: RawText<UnknownCalls>,
    }
}

section! {
    /// Settings of single engines.
    Refused Engines {
        /// V8, in the user's deno.
        v8: V8,
        /// The tsc of the npm package typescript, version 7 or newer, which checks the types of programs before their first call; off checks none.
        typescript: RawText<String>,
    }
}

section! {
    /// V8, in the user's deno.
    Refused V8 {
        /// The deno binary; by default it is searched on PATH.
        deno: RawText<String>,
        /// Number of idle processes kept ready.
        pool: u64,
        /// Processor time after which a run moves from QuickJS to V8, in milliseconds.
        threshold_ms: u64,
    }
}

section! {
    /// The weather function.
    Refused Weather {
        /// Whether programs have it. By default they do where egress allows the weather service or base_url is set.
        enabled: bool,
        /// The URL of the weather service; the default is Open-Meteo.
        base_url: RawText<Endpoint>,
    }
}

section! {
    /// Where values may come from.
    Refused Secrets {
        /// Allow ${cmd:…} in values: the output of a command, which is run when the servers are started.
        commands: bool,
        /// Where logins and the secrets of `toolgate secret` are kept: in the keyring of the system (keyring), in encrypted files that only this user can read (file), or in the keyring where there is one (auto).
        store: RawText<SecretPlace>,
    }
}
