//! `toolgate connect` and `disconnect`: Toolgate in the configuration of an MCP client.

use anyhow::Context;
use serde_json::{Map, Value};
use toolgate_config::clients::connect::{self as connecting, ClientLaunch, MovedServers, SharedServers};
use toolgate_config::clients::{Client, Roots, Scope};
use toolgate_config::lookup::FileOrigin;
use toolgate_config::text::Source;
use toolgate_config::trust::TrustStore;
use toolgate_config::{Env, closest, edit, lookup};

use super::super::{Exit, Usage};
use super::edit::{clients, roots, say};
use crate::args::servers::{ConnectArgs, DisconnectArgs, Mode};
use crate::consent::{self, ask, is_interactive};
use crate::print::{escape, note};

pub(crate) fn connect(args: &ConnectArgs) -> anyhow::Result<Exit> {
    let client = named(&args.client)?;
    let scope = if args.project { Scope::Project } else { Scope::User };
    let (launch, served) = launch(args)?;
    let roots = roots()?;
    let take = servers_to_take(args, client, scope, &roots, &served)?;
    let moved = MovedServers::of(&Env::of_process());
    let written = connecting::write(client, scope, &roots, &launch, &take, &moved)?;
    say(&written);
    if !take.is_empty() {
        note(format_args!("  taken out, because Toolgate serves them: {}", names(&take)));
        note(format_args!("  `toolgate disconnect {}` puts them back", client.word()));
    }
    if scope == Scope::User && !args.keep {
        tell_of_project(client, &roots, &served);
    }
    if written.changed {
        note(format_args!("next: {}", connecting::next_step(client)));
    } else {
        note("nothing had to be changed");
    }
    Ok(Exit::Done)
}

pub(crate) fn disconnect(args: &DisconnectArgs) -> anyhow::Result<Exit> {
    let client = named(&args.client)?;
    let scope = if args.project { Scope::Project } else { Scope::User };
    let moved = MovedServers::of(&Env::of_process());
    let (written, back) = connecting::undo(client, scope, &roots()?, &moved)?;
    say(&written);
    if !back.is_empty() {
        note(format_args!("  put back: {}", names(&back)));
    }
    Ok(Exit::Done)
}

fn named(word: &str) -> Result<Client, Usage> {
    Client::named(word).ok_or_else(|| {
        let known: Vec<&str> = Client::ALL.iter().map(|client| client.word()).collect();
        let near = closest(word, &known).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
        Usage(format!("no client `{}`: {near}there are {}", escape::line(word), clients()))
    })
}

/// The client's own servers that Toolgate serves, if the user wants them taken out. Servers of the same name that are others stay.
fn servers_to_take(
    args: &ConnectArgs,
    client: Client,
    scope: Scope,
    roots: &Roots,
    served: &Map<String, Value>,
) -> anyhow::Result<Vec<String>> {
    let SharedServers { same: both, different } = connecting::shared_servers(client, scope, roots, served)?;
    if !different.is_empty() && !args.keep {
        let shown = names(&different);
        note(format_args!(
            "  kept in {}, since Toolgate has another server of this name, or has it disabled: {shown}",
            client.word()
        ));
    }
    if both.is_empty() || args.take_over {
        return Ok(both);
    }
    let shown = names(&both);
    if !args.keep && is_interactive() {
        note(format_args!("{} also starts servers itself that Toolgate serves: {shown}", client.word()));
        if ask("Take them out of it? `toolgate disconnect` puts them back.") {
            return Ok(both);
        }
    } else if !args.keep {
        note(format_args!("{} also starts {shown} itself; --take-over takes them out of it", client.word()));
    }
    Ok(Vec::new())
}

/// Names the servers that Toolgate serves and that the client also starts by the file of the project in this folder.
fn tell_of_project(client: Client, roots: &Roots, served: &Map<String, Value>) {
    let [project, user] = [Scope::Project, Scope::User].map(|scope| roots.file(client, scope));
    let Some(file) = project.filter(|file| file.is_file() && Some(file) != user.as_ref()) else { return };
    // The note is optional: ignore a project file that cannot be read.
    let both = connecting::shared_servers(client, Scope::Project, roots, served).unwrap_or_default().same;
    if !both.is_empty() {
        let (file, word) = (escape::line(&file.to_string_lossy()).into_owned(), client.word());
        note(format_args!("by {file}, {word} also starts {} itself in this folder", names(&both)));
        note(format_args!("  `toolgate connect {word} --project --take-over` takes them out of it"));
    }
}

fn names(names: &[String]) -> String {
    escape::line(&names.join(", ")).into_owned()
}

/// How the client starts us, by absolute paths, since it has its own folder and search path; and the servers behind it.
fn launch(args: &ConnectArgs) -> anyhow::Result<(ClientLaunch, Map<String, Value>)> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut rest = vec!["serve".to_owned()];
    let mut served = Map::new();
    if args.servers.demo {
        rest.push("--demo".to_owned());
    } else {
        let env = Env::of_process();
        let found = lookup::find(args.servers.config.as_deref(), &env).map_err(|error| Usage(error.to_string()))?;
        let Some(found) = found else {
            let message = "there is no configuration yet: `toolgate init` or `toolgate import` writes it";
            return Err(Usage(message.to_owned()).into());
        };
        let from_folder = found.origin == FileOrigin::WorkingFolder;
        if from_folder {
            // The client will start what it names, without a question.
            let source = Source::open(&found.path).map_err(|problem| Usage(problem.to_string()))?;
            consent::require(&source, &TrustStore::of(&env))?;
        }
        let file = std::path::absolute(&found.path)?;
        served = edit::server_entries(&file)?;
        rest.extend(["--config".to_owned(), file.to_string_lossy().into_owned()]);
        // A later change of the folder's file must not be started unasked either.
        if from_folder || args.servers.require_trust {
            rest.push("--require-trust".to_owned());
        }
    }
    if let Some(mode) = args.mode {
        let word = match mode {
            Mode::Code => "code",
            Mode::Direct => "direct",
            Mode::Both => "both",
        };
        rest.extend(["--mode".to_owned(), word.to_owned()]);
    }
    Ok((ClientLaunch { command: program.to_string_lossy().into_owned(), args: rest }, served))
}
