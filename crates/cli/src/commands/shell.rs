//! `toolgate completions` and `toolgate key new`; and what `toolgate` alone says.

use clap::CommandFactory;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
use toolgate_config::{Env, edit, lookup};

use super::Exit;
use crate::args::{Cli, CompletionsArgs, KeyNewArgs};
use crate::print::{escape, note, out};

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "toolgate", &mut script);
    out(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}

/// Makes a key for the HTTP service. Only its hash belongs into the configuration.
pub(crate) fn new_key(args: &KeyNewArgs) -> anyhow::Result<Exit> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
    let key = format!("tg_{}", hexadecimal(&bytes));
    let hash = format!("sha256:{}", hexadecimal(digest(&SHA256, key.as_bytes()).as_ref()));
    if args.json {
        out(json!({ "key": key, "hash": hash }))?;
        return Ok(Exit::Done);
    }
    out(&key)?;
    note("give this key to its user: it is not stored. Its hash goes into toolgate.http.keys of the configuration:");
    note(escape::line(&json!({ "name": args.name, "hash": hash }).to_string()));
    Ok(Exit::Done)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Says the next step, which depends on what is configured.
pub(crate) fn next_step() -> anyhow::Result<Exit> {
    let found = lookup::find(None, &Env::of_process()).ok().flatten();
    let names = found.as_ref().map(|found| edit::server_names(&found.path).unwrap_or_default());
    out("Toolgate runs code that an AI agent wrote, over your MCP servers, in a sealed process of its own.\n")?;
    match (found, names) {
        (Some(found), Some(names)) if !names.is_empty() => {
            let file = found.path.to_string_lossy();
            out(format_args!("{} servers are configured in {}. Next:\n", names.len(), escape::line(&file)))?;
            out("  toolgate list                  connect to them and show their tools")?;
            out("  toolgate connect claude-code   put Toolgate in front of an agent")?;
        }
        _ => {
            out("No server is configured yet. Next:\n")?;
            out("  toolgate import                take over the servers of your MCP clients")?;
            out("  toolgate add NAME -- COMMAND   or add one")?;
            out("  toolgate list --demo           or look at the demo server first")?;
        }
    }
    out("\n`toolgate --help` lists all commands.")?;
    Ok(Exit::Done)
}
