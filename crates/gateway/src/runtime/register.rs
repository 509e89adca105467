//! Backends that an agent adds while the gateway runs, where the configuration allows it.
//!
//! A registered backend can never stand where a configured one stands: not under its name, nor under any spelling
//! by which a script would call it. It is not written to the file and ends with the gateway.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::Gateway;
use super::backend_records::BackendSource;
use toolgate_backends::{Backend, BackendState};
use toolgate_catalog::names::{NameScope, sanitise};
use toolgate_config::checked::{self, BackendPolicy, BackendTransport, Process, Remote, starts_toolgate};
use toolgate_config::values::{BackendName, Endpoint, Secret, Setting, Start};
use toolgate_mcp::server::Change;

/// More than an agent needs, fewer than a machine can bear.
const MAX_REGISTERED: usize = 16;

/// A server that an agent asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Registration {
    /// A program to start.
    Command {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment, beyond what every child inherits.
        env: BTreeMap<String, String>,
        /// Its folder.
        cwd: Option<PathBuf>,
    },
    /// A server to connect to.
    Url {
        /// Its MCP endpoint.
        url: String,
        /// Headers for each request.
        headers: BTreeMap<String, String>,
    },
}

/// Why a backend was not added or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistrationError {
    /// The configuration does not allow it.
    #[error("adding backends at run time is switched off (toolgate.allow_runtime_registration)")]
    NotAllowed,
    /// The name is no name.
    #[error("name: {0}")]
    BadName(String),
    /// The name, or a spelling of it, is another backend's.
    #[error("name: '{name}' is taken by the backend '{by}'; choose another name")]
    Taken {
        /// The name asked for.
        name: String,
        /// Whose it is.
        by: String,
    },
    /// The way to reach it is no way.
    #[error("{0}")]
    BadTransport(String),
    /// Rules ask about calls or deny them, and a program could make such calls without the gateway.
    #[error(
        "command: there are rules about calls, and a program that an agent starts could make calls that they ask about or deny; ask \
         the user to add it: toolgate add {name}"
    )]
    Rules {
        /// The name asked for.
        name: String,
    },
    /// It is a configured backend, which rules may be about by its name.
    #[error("url: is that of the backend '{by}'; call its tools by that name")]
    SameServer {
        /// The configured one.
        by: String,
    },
    /// There are enough of them.
    #[error("there are {MAX_REGISTERED} registered backends already; remove one with deregister_manual")]
    TooMany,
    /// It did not come up.
    #[error("'{name}' did not come up: {reason}{}", said(.stderr))]
    Failed {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
        /// The end of its standard error.
        stderr: String,
    },
    /// There is no registered backend of that name.
    #[error("name: no backend '{0}' was registered at run time; configured backends can't be removed this way")]
    Unknown(String),
}

fn said(stderr: &str) -> String {
    if stderr.trim().is_empty() { String::new() } else { format!("\nits standard error ends with:\n{stderr}") }
}

/// Whether a script could mean one by a spelling of the other.
pub(super) fn clash(one: &str, other: &str) -> bool {
    let spellings = |name: &str| [name.to_owned(), sanitise(name, NameScope::Global)];
    let others = spellings(other);
    spellings(one).iter().any(|spelling| others.contains(spelling))
}

impl Gateway {
    /// Adds a backend and waits until it is up, at most for `within`. One that does not come up is taken away again;
    /// one whose caller stopped waiting goes on starting.
    pub(crate) async fn register(
        &self,
        name: &str,
        registration: Registration,
        within: Duration,
    ) -> Result<Backend, RegistrationError> {
        let backend = {
            let _changing = self.changing.lock().await;
            let wanted = self.admit(name, registration)?;
            self.add_backend(name, &wanted, BackendSource::Registered)
        };
        if backend.ready(within).await.is_err() {
            let (reason, stderr) = match backend.state() {
                BackendState::Failed { reason, stderr } => (reason, stderr),
                state => (state.to_string(), backend.stderr()),
            };
            let _changing = self.changing.lock().await;
            self.remove_backend(name).await;
            return Err(RegistrationError::Failed { name: name.to_owned(), reason, stderr });
        }
        self.settled(within, |other| other == name).await;
        self.notify(Change::Resource("toolgate://backends".to_owned()));
        Ok(backend)
    }

    /// Takes away a backend that was added at run time.
    pub(crate) async fn deregister(&self, name: &str) -> Result<(), RegistrationError> {
        if !self.config().settings.allow_runtime_registration {
            return Err(RegistrationError::NotAllowed);
        }
        let _changing = self.changing.lock().await;
        if self.origin(name) != Some(BackendSource::Registered) {
            return Err(RegistrationError::Unknown(name.to_owned()));
        }
        self.remove_backend(name).await;
        self.tools_changed();
        self.notify(Change::Resource("toolgate://backends".to_owned()));
        Ok(())
    }

    fn admit(&self, name: &str, registration: Registration) -> Result<checked::BackendConfig, RegistrationError> {
        let config = self.config();
        if !config.settings.allow_runtime_registration {
            return Err(RegistrationError::NotAllowed);
        }
        BackendName::new(name).map_err(RegistrationError::BadName)?;
        let catalog = self.catalog();
        if let Some(taken) =
            catalog.backends().iter().find(|known| clash(known.name(), name) || clash(known.identifier(), name))
        {
            return Err(RegistrationError::Taken { name: name.to_owned(), by: taken.name().to_owned() });
        }
        let registered = self.records().values().filter(|record| record.origin == BackendSource::Registered).count();
        if registered >= MAX_REGISTERED {
            return Err(RegistrationError::TooMany);
        }
        let transport = transport(registration)?;
        if !self.bridge().policy().allows_everything() {
            self.check_by_rules(name, &transport)?;
        }
        Ok(checked::BackendConfig { transport, policy: usual_policy() })
    }

    /// Where there are rules, an agent adds no program, and no configured server under another name. Calls of what it adds are asked
    /// about, other than those that a rule allows by the name of the backend.
    fn check_by_rules(&self, name: &str, transport: &BackendTransport) -> Result<(), RegistrationError> {
        let BackendTransport::Http(wanted) = transport else {
            return Err(RegistrationError::Rules { name: name.to_owned() });
        };
        let config = self.config();
        let same = config.backends.iter().find(|(_, known)| match &known.transport {
            BackendTransport::Http(known) => same_address(&known.url, &wanted.url),
            _ => false,
        });
        match same {
            Some((by, _)) => Err(RegistrationError::SameServer { by: by.to_string() }),
            None => Ok(()),
        }
    }
}

/// Whether two URLs lead to one server, as far as their texts tell.
fn same_address(one: &Endpoint, other: &Endpoint) -> bool {
    let path = |endpoint: &Endpoint| endpoint.url().path().trim_end_matches('/').to_owned();
    one.url().origin() == other.url().origin() && path(one) == path(other)
}

fn usual_policy() -> BackendPolicy {
    let timeout = Duration::from_secs(30);
    let tags = vec!["registered".to_owned()];
    BackendPolicy {
        timeout,
        max_concurrent_calls: 16,
        allow: None,
        deny: Vec::new(),
        tags,
        prefix: true,
        learn_types: true,
        start: Start::Eager,
        description: None,
        tools: Vec::new(),
    }
}

fn transport(registration: Registration) -> Result<BackendTransport, RegistrationError> {
    let bad = RegistrationError::BadTransport;
    match registration {
        Registration::Command { command, args, env, cwd } => {
            if command.trim().is_empty() {
                return Err(bad("command: must not be empty".to_owned()));
            }
            let texts = std::iter::once(&command).chain(&args).chain(env.keys()).chain(env.values());
            if texts.into_iter().any(|text| text.contains('\0'))
                || env.keys().any(|name| name.is_empty() || name.contains('='))
            {
                let message = "command, args and env must be fit for a process: no NUL characters, no '=' in names";
                return Err(bad(message.to_owned()));
            }
            if starts_toolgate(&command, args.iter().map(String::as_str)) {
                return Err(bad("command: starts Toolgate inside of itself".to_owned()));
            }
            if names_toolgate(&command, args.iter().map(String::as_str)) {
                let message = "command: names Toolgate's own program, by which a person decides about calls";
                return Err(bad(message.to_owned()));
            }
            Ok(BackendTransport::Stdio(Process {
                command: command.into(),
                args: args.into_iter().map(Secret::new).collect(),
                env: env.into_iter().map(|(name, value)| (name, Secret::new(value))).collect(),
                inherit_env: false,
                cwd,
                sandbox: None,
            }))
        }
        Registration::Url { url, headers } => {
            let url = Endpoint::parse(&url).map_err(|message| bad(format!("url: {message}")))?;
            let fits = |(name, value): (&String, &String)| {
                http::header::HeaderName::from_bytes(name.as_bytes()).is_ok()
                    && http::header::HeaderValue::from_str(value).is_ok()
            };
            if !headers.iter().all(fits) {
                return Err(bad("headers: a name or a value is not fit for a header".to_owned()));
            }
            let headers = headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
            Ok(BackendTransport::Http(Remote { url, headers, login: None }))
        }
    }
}

/// Whether a command names Toolgate's own program, also inside a shell line: `toolgate approve`, `sh -c '/usr/bin/toolgate …'`,
/// `npx toolgate@1`. A shell has other ways to say it; a caller that may start programs has the rights of the user of this machine.
fn names_toolgate<'a>(command: &'a str, args: impl Iterator<Item = &'a str>) -> bool {
    let own = std::env::current_exe().ok();
    let own = own.as_ref().and_then(|own| own.file_name()).and_then(|name| name.to_str());
    let is_toolgate = |word: &str| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
        let name = name.split(['@', ':']).next().unwrap_or(name).to_ascii_lowercase();
        name.trim_end_matches(".exe") == "toolgate" || own.is_some_and(|own| own.eq_ignore_ascii_case(&name))
    };
    let is_between_words = |letter: char| letter.is_whitespace() || "\"'`;|&()<>{}=$,".contains(letter);
    let names_it = |text: &str| text.split(is_between_words).any(is_toolgate);
    // A folder or a URL that ends in the name is no program.
    let is_shell_line = |text: &str| text.contains(|letter: char| letter.is_whitespace() || ";|&$(`".contains(letter));
    let is_program = |text: &str| !text.contains(['/', '\\']) || std::path::Path::new(text).is_file();
    names_it(command) || args.into_iter().any(|text| names_it(text) && (is_shell_line(text) || is_program(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolgate_is_known_by_its_name_also_in_a_shell_line() {
        let own = std::env::current_exe().expect("a program").display().to_string();
        for (line, expected) in [
            (&["toolgate", "approve", "r", "1"][..], true),
            (&["/usr/local/bin/ToolGate", "demo"], true),
            (&["C:\\bin\\toolgate.exe"], true),
            (&["bash", "-c", "cd /tmp;toolgate approve r 1"], true),
            (&["sh", "-c", "X=$(~/.cargo/bin/toolgate pending)"], true),
            (&["npx", "-y", "toolgate@1.2"], true),
            (&["env", "A=b", &own], true),
            (&["npx", "-y", "toolgate-weather"], false),
            (&["server-filesystem", "/home/me/src/toolgate"], false),
            (&["uvx", "mcp-server-git", "--repository=https://example.com/o/toolgate"], false),
            (&["python3", "server.py", "--config", "/home/me/toolgate.json"], false),
        ] {
            assert_eq!(names_toolgate(line[0], line[1..].iter().copied()), expected, "{line:?}");
        }
    }
}
