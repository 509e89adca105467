//! The gateway as a client meets it: `toolgate serve` as a process of its own, spoken to over its pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_config::Env;
use toolgate_gateway::runtime::prefill_cache;

use super::meter::{Meter, Samples, micros};

/// One call through the gateway, less what the same call to the server itself takes right before it.
pub(super) fn overhead(meter: &Meter) -> anyhow::Result<Samples> {
    let folder = Folder::new("call")?;
    let config = folder.config(&json!({ "demo": { "command": std::env::current_exe()?, "args": ["demo"] } }))?;
    let mut gateway = Peer::start(&folder, &["serve", "--config", &config])?;
    let mut server = Peer::start(&folder, &["demo"])?;
    let through =
        json!({ "name": "call_tool_chain", "arguments": { "code": "return await demo.get_issue({ number: 7 })" } });
    let direct = json!({ "name": "get_issue", "arguments": { "number": 7 } });
    meter.sample_in_a_row(|| {
        let (alone, _) = server.timed("tools/call", &direct)?;
        let (there, answer) = gateway.timed("tools/call", &through)?;
        anyhow::ensure!(answer["isError"] != Value::Bool(true), "the gateway's call failed: {answer}");
        Ok(there - alone)
    })
}

/// From the start of the process until all tools of a server that is not up are listed.
pub(super) fn from_cache(meter: &Meter, tools: usize) -> anyhow::Result<Samples> {
    let (folder, config) = cached(tools)?;
    meter.sample(|| {
        let since = Instant::now();
        let mut gateway = Peer::start(&folder, &["serve", "--mode", "direct", "--config", &config])?;
        gateway.list(tools)?;
        Ok(micros(since.elapsed()))
    })
}

/// Resident memory of a gateway with so many tools that has been asked for them and stands idle.
pub(super) fn idle_memory(meter: &Meter, tools: usize) -> anyhow::Result<Samples> {
    let (folder, config) = cached(tools)?;
    meter.sample(|| {
        let mut gateway = Peer::start(&folder, &["serve", "--mode", "both", "--config", &config])?;
        gateway.list(tools)?;
        let search = json!({ "name": "search_tools", "arguments": { "task_description": "send mail" } });
        let _: IgnoredAny = gateway.ask("tools/call", &search)?;
        resident(gateway.child.id())
    })
}

/// A configuration whose one server never answers, and the tools it had the last time.
fn cached(tools: usize) -> anyhow::Result<(Folder, String)> {
    let folder = Folder::new("cache")?;
    let config = folder.config(&json!({ "mute": { "command": "sleep", "args": ["600"] } }))?;
    let env = Env::new(Some(folder.0.clone()), folder.0.clone());
    let checked = toolgate_config::load(Path::new(&config), &env)
        .map_err(|problems| anyhow::anyhow!("the benchmark's own configuration is wrong: {problems:?}"))?;
    prefill_cache(&checked, "mute", (0..tools).map(tool).collect())?;
    Ok((folder, config))
}

/// A tool of the usual size.
fn tool(n: usize) -> Value {
    let text = |about: &str| json!({ "type": "string", "description": format!("{about} of item {n}, as the service names it.") });
    json!({
        "name": format!("manage_item_{n}"),
        "description": format!("Creates, changes or removes item {n} of the collection and reports what was done with it."),
        "inputSchema": {
            "type": "object",
            "properties": { "id": text("The identifier"), "title": text("The title"), "owner": text("The owner"),
                "limit": { "type": "integer", "minimum": 1, "maximum": 100, "default": 10 } },
            "required": ["id"],
        },
    })
}

/// Resident memory of a process, in bytes.
pub(super) fn resident(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("cannot look at the process")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")?;
    Ok(kilobytes * 1024.0)
}

/// A folder that is home and working folder of what is measured, and goes with it.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("toolgate-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Folder(folder))
    }

    fn config(&self, servers: &Value) -> anyhow::Result<String> {
        self.config_with(servers, &json!({}))
    }

    /// A configuration with these servers and settings.
    pub(super) fn config_with(&self, servers: &Value, settings: &Value) -> anyhow::Result<String> {
        let file = self.0.join("toolgate.json");
        std::fs::write(&file, json!({ "mcpServers": servers, "toolgate": settings }).to_string())?;
        Ok(file.to_string_lossy().into_owned())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left-over files in the system's own folder for them are only litter.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process that speaks MCP on its pipes.
pub(super) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Peer {
    pub(super) fn start(folder: &Folder, args: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(args)
            .current_dir(&folder.0)
            .env("HOME", &folder.0)
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("TOOLGATE_LOG")
            .env_remove("TOOLGATE_LOG_FILE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start this program again")?;
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut peer = Peer { input: child.stdin.take(), child, output, id: 0 };
        let about = json!({ "name": "bench", "version": "1" });
        let greeting = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
        let _: IgnoredAny = peer.ask("initialize", &greeting)?;
        Ok(peer)
    }

    pub(super) fn timed(&mut self, method: &str, params: &Value) -> anyhow::Result<(f64, Value)> {
        let since = Instant::now();
        let result = self.ask(method, params)?;
        Ok((micros(since.elapsed()), result))
    }

    /// The result of a request; what else is said meanwhile is passed over.
    fn ask<R: DeserializeOwned>(&mut self, method: &str, params: &Value) -> anyhow::Result<R> {
        self.id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        let input = self.input.as_mut().context("closed")?;
        input.write_all(format!("{request}\n").as_bytes())?;
        loop {
            let mut line = String::new();
            anyhow::ensure!(self.output.read_line(&mut line)? > 0, "it ended without an answer to {method}");
            let message: Message<'_> = serde_json::from_str(&line)?;
            if let (Some(id), Some(result)) = (message.id, message.result)
                && id == self.id
            {
                return Ok(serde_json::from_str(result.get())?);
            }
        }
    }

    /// Every page of the list of so many tools. The tools are counted, not read: what a client makes of them is its own time.
    fn list(&mut self, tools: usize) -> anyhow::Result<()> {
        let (mut listed, mut cursor) = (0, None);
        loop {
            let params = cursor.map_or_else(|| json!({}), |cursor: String| json!({ "cursor": cursor }));
            let scope: RequestScope = self.ask("tools/list", &params)?;
            listed += scope.tools.len();
            cursor = scope.next_cursor;
            if cursor.is_none() {
                anyhow::ensure!(listed >= tools, "only {listed} tools were listed");
                return Ok(());
            }
        }
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestScope {
    tools: Vec<IgnoredAny>,
    next_cursor: Option<String>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends with its input.
        self.input.take();
        let _ = self.child.wait();
    }
}
