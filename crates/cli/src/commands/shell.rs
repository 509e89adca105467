//! `toolgate completions` and `toolgate key new`; and what `toolgate` alone says.

use clap::CommandFactory;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
use toolgate_config::clients::{Client, Roots, Scope, connect};
use toolgate_config::{Env, edit, lookup};

use super::Exit;
use super::servers::edit::roots;
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

/// Says the next step, which depends on what is configured and connected.
pub(crate) fn next_step() -> anyhow::Result<Exit> {
    let found = lookup::find(None, &Env::of_process());
    out("Toolgate runs code that an AI agent wrote, over your MCP servers, in a sealed process of its own.\n")?;
    let names = match &found {
        Ok(Some(found)) => edit::server_names(&found.path).map_err(|error| error.to_string()),
        Ok(None) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    };
    match (found, names) {
        (_, Err(problem)) => {
            out(format_args!("The configuration cannot be read. Next: mend it.\n\n  {}", escape::text(&problem)))?;
        }
        (Ok(Some(found)), Ok(names)) if !names.is_empty() => {
            let file = found.path.to_string_lossy();
            out(format_args!("Servers configured in {}: {}. Next:\n", escape::line(&file), names.len()))?;
            after_servers()?;
        }
        (_, Ok(_)) => {
            out("No server is configured yet. Next:\n")?;
            out("  toolgate import                take over the servers of your MCP clients")?;
            out("  toolgate add NAME -- COMMAND   or add one")?;
            out("  toolgate ui --demo             or look at the page over the demo server first")?;
        }
    }
    out("\n`toolgate --help` lists all commands.")?;
    Ok(Exit::Done)
}

/// What follows once there are servers.
fn after_servers() -> anyhow::Result<()> {
    out("  toolgate list                  connect to them and show their tools")?;
    let roots = roots().ok();
    let of_roots = |has: &dyn Fn(Client, &Roots) -> bool| -> Vec<Client> {
        Client::ALL.into_iter().filter(|client| roots.as_ref().is_some_and(|roots| has(*client, roots))).collect()
    };
    let connected = of_roots(&connect::is_connected);
    if connected.is_empty() {
        let is_there =
            |client: Client, roots: &Roots| roots.file(client, Scope::User).is_some_and(|file| file.exists());
        let client = of_roots(&is_there).first().copied().unwrap_or(Client::ClaudeCode);
        let command = format!("toolgate connect {}", client.word());
        return out(format_args!("  {command:<29}  put Toolgate in front of an agent"));
    }
    out("  toolgate ui                    watch runs, decide about calls, try a program")?;
    out("  toolgate logs                  what the Toolgate of an agent did")?;
    let words: Vec<&str> = connected.into_iter().map(Client::word).collect();
    out(format_args!("\nIt is in front of {}; start an agent anew to use it.", words.join(", ")))
}
