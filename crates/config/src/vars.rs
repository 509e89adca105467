//! Variable substitution in settings: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, and `$${` for a literal `${`.
//!
//! `${file:PATH}` is the content of a file and `${cmd:LINE}` the output of a command, each without its last line break.
//! Braces of a command line come in pairs; every other `${` ends at the first `}`.
//! `${keyring:NAME}` is a secret that `toolgate secret set NAME` kept.
//! Also the VS Code and Cursor variables `${userHome}`, `${workspaceFolder}`, `${workspaceFolderBasename}`,
//! `${pathSeparator}` and `${/}`. A default applies if the variable is unset or empty, as in a shell. Substitution is not
//! recursive: a variable inside a default is an error, and one inside a variable's value is not substituted.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use toolgate_secrets::{Preference, SecretStore};

use super::problem::Unset;
use super::text::open_regular;

/// Maximum size of a file of `${file:…}`, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// What the inside of a command begins with.
const COMMAND: &str = "cmd:";

/// The process environment that a configuration is read in.
#[derive(Clone)]
pub struct Env {
    variables: BTreeMap<String, String>,
    home: Option<PathBuf>,
    cwd: PathBuf,
    runs_commands: bool,
}

impl std::fmt::Debug for Env {
    // Values of variables may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("home", &self.home).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

impl Env {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        Self {
            variables: std::env::vars_os().filter_map(text).collect(),
            home: std::env::home_dir(),
            cwd,
            runs_commands: false,
        }
    }

    /// An environment without variables.
    pub fn new(home: Option<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        Self { variables: BTreeMap::new(), home, cwd: cwd.into(), runs_commands: false }
    }

    /// This environment for a reader that starts the servers, and so may run the commands of `${cmd:…}` too.
    pub fn running_commands(mut self) -> Self {
        self.runs_commands = true;
        self
    }

    /// Whether the commands of `${cmd:…}` are run.
    pub(crate) fn runs_commands(&self) -> bool {
        self.runs_commands
    }

    /// This environment with one more variable.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// A variable, if it is set.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The user's home folder.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The working directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The directory of what Toolgate remembers about this user: `$XDG_STATE_HOME/toolgate`.
    pub fn state_folder(&self) -> Option<PathBuf> {
        self.xdg("XDG_STATE_HOME", ".local/state").map(|state| state.join("toolgate"))
    }

    /// The secrets of `${keyring:…}`; none without a home directory.
    pub fn secrets(&self, preference: Preference) -> Option<SecretStore> {
        Some(SecretStore::new(self.state_folder()?.join("secrets"), "toolgate secret", preference))
    }

    /// The directory of an `XDG_*_HOME` variable if it is absolute, otherwise `below_home` in the home directory.
    pub(crate) fn xdg(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let set = self.var(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
        set.or_else(|| Some(self.home()?.join(below_home)))
    }
}

/// Why a substitution failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The environment variable is not set.
    Unset(String),
    /// `${input:…}`, which VS Code asks its user for.
    Input(String),
    /// A variable of a client that Toolgate does not support.
    Unknown(String),
    /// `${` without `}`.
    Unclosed,
    /// The default of this variable has a variable inside.
    NestedDefault(String),
    /// The file of `${file:…}` cannot be read, and why.
    File(PathBuf, String),
    /// The secret of `${keyring:…}` is not set.
    NoSecret(String),
    /// The secret of `${keyring:…}` cannot be read, and why.
    Secret(String),
    /// `${cmd:…}`, which the file does not allow.
    CommandsOff,
    /// `${cmd:…}` in a reading that executes nothing.
    CommandNotRun,
    /// The command of `${cmd:…}` failed, and how.
    Command(String),
}

impl Missing {
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Unset(name) => format!("the environment variable {name} is not set"),
            Self::Input(name) => {
                format!("${{input:{name}}} is not supported: VS Code asks the user for its value, Toolgate cannot")
            }
            Self::Unknown(name) => format!("${{{name}}} is not a supported variable"),
            Self::Unclosed => "unterminated variable: ${ without }".to_owned(),
            Self::NestedDefault(name) => {
                format!("the default of ${{{name}}} is a variable itself, which is not supported")
            }
            Self::File(path, why) => format!("{}: {why}", path.display()),
            Self::NoSecret(name) => format!("the secret {name} is not set"),
            Self::Secret(why) => why.clone(),
            Self::CommandsOff => {
                "${cmd:…} is not allowed by this configuration: `toolgate.secrets.commands: true` allows it".to_owned()
            }
            Self::CommandNotRun => "the command of ${cmd:…} is run when the server is started".to_owned(),
            Self::Command(how) => format!("the command of ${{cmd:…}} {how}"),
        }
    }

    /// What is not set.
    pub(crate) fn unset(&self) -> Option<Unset> {
        match self {
            Self::Unset(name) => Some(Unset::Variable(name.clone())),
            Self::NoSecret(name) => Some(Unset::Secret(name.clone())),
            Self::Input(_) | Self::Unknown(_) | Self::Unclosed | Self::NestedDefault(_) | Self::Secret(_) => None,
            Self::File(..) | Self::CommandsOff | Self::CommandNotRun | Self::Command(_) => None,
        }
    }

    pub(crate) fn help(&self) -> String {
        match self {
            Self::Unset(name) => format!("set {name}, or give a default: ${{{name}:-default}}"),
            Self::Input(name) => {
                let variable: String = name
                    .chars()
                    .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
                    .collect();
                format!("set an environment variable and write ${{{variable}}}")
            }
            Self::Unknown(_) | Self::Unclosed => "write $${ for a literal ${".to_owned(),
            Self::NestedDefault(name) => format!("set {name}, or write one of the two variables alone"),
            Self::NoSecret(name) => format!("run: toolgate secret set {name}"),
            Self::Secret(_) => String::new(),
            Self::File(..) | Self::CommandsOff | Self::CommandNotRun | Self::Command(_) => String::new(),
        }
    }
}

/// What a value may come from besides variables.
pub(crate) trait Sources {
    /// The output of a command line.
    fn command(&mut self, line: &str) -> Result<String, Missing>;
    /// A file is about to be read, which may not exist.
    fn reads(&mut self, file: &Path);
    /// A variable of this name was substituted.
    fn variable(&mut self, name: &str, value: &str);
    /// The content of a file, the output of a command or a secret of the keyring was substituted.
    fn secret(&mut self, value: &str);
}

/// Substitutes all variables of a text, or reports all that failed. `folder` is the directory of the file.
pub(crate) fn fill(text: &str, env: &Env, folder: &Path, sources: &mut dyn Sources) -> Result<String, Vec<Missing>> {
    let mut filled = String::with_capacity(text.len());
    let mut missing = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = after;
            continue;
        }
        filled.push_str(before);
        let Some((inside, after)) = split_at_end(after) else {
            missing.push(Missing::Unclosed);
            rest = "";
            break;
        };
        let found = match inside.split_once(':') {
            Some(("file", path)) => content(path, env, folder, sources).inspect(|value| sources.secret(value)),
            Some(("cmd", line)) => sources.command(line).inspect(|value| sources.secret(value)),
            Some(("keyring", name)) => secret(name, env, sources).inspect(|value| sources.secret(value)),
            _ => value(inside, env, folder).inspect(|value| sources.variable(name_of(inside), value)),
        };
        match found {
            Ok(value) => filled.push_str(&value),
            Err(why) => missing.push(why),
        }
        rest = after;
    }
    filled.push_str(rest);
    if missing.is_empty() { Ok(filled) } else { Err(missing) }
}

/// What is inside a `${`, and what follows its `}`.
fn split_at_end(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with(COMMAND) {
        return text.split_once('}');
    }
    let mut open = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open += 1,
            b'}' if open > 0 => open -= 1,
            b'}' => return Some((text.get(..at)?, text.get(at + 1..)?)),
            _ => {}
        }
    }
    None
}

/// The command lines of a text, as they would be run; one without an end goes to the end of the text.
pub fn command_lines(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("${").filter_map(|(at, mark)| text.get(at + mark.len()..));
    starts.filter(|rest| rest.starts_with(COMMAND)).filter_map(|rest| {
        let inside = split_at_end(rest).map_or(rest, |(inside, _)| inside);
        inside.strip_prefix(COMMAND)
    })
}

/// The content of a file: `~/` is the home directory, a relative path is relative to `folder`.
fn content(path: &str, env: &Env, folder: &Path, sources: &mut dyn Sources) -> Result<String, Missing> {
    let path = match (path.strip_prefix("~/"), env.home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => folder.join(path),
    };
    sources.reads(&path);
    let mut bytes = Vec::new();
    let read = open_regular(&path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    let fail = |why: String| Missing::File(path.clone(), why);
    read.map_err(|error| fail(format!("cannot read the file: {error}")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(fail(format!("the file is larger than {MAX_FILE_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| fail("invalid UTF-8".to_owned()))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn secret(name: &str, env: &Env, sources: &mut dyn Sources) -> Result<String, Missing> {
    let unset = || Missing::NoSecret(name.to_owned());
    let store = env.secrets(Preference::Auto).ok_or_else(unset)?;
    sources.reads(&store.entry_file(name));
    store.get(name).map_err(|error| Missing::Secret(error.to_string()))?.ok_or_else(unset)
}

fn value(inside: &str, env: &Env, folder: &Path) -> Result<String, Missing> {
    if let Some(name) = inside.strip_prefix("input:") {
        return Err(Missing::Input(name.to_owned()));
    }
    let workspace = workspace(folder);
    match inside {
        "userHome" => return env.home().map(lossy).ok_or_else(|| Missing::Unset("HOME".to_owned())),
        "workspaceFolder" => return Ok(lossy(workspace)),
        "workspaceFolderBasename" => {
            return Ok(workspace.file_name().map(|name| lossy(Path::new(name))).unwrap_or_default());
        }
        "pathSeparator" | "/" => return Ok(std::path::MAIN_SEPARATOR.to_string()),
        _ => {}
    }
    let inside = inside.strip_prefix("env:").unwrap_or(inside);
    let (name, default) = (name_of(inside), inside.split_once(":-").map(|(_, default)| default));
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !plain {
        return Err(Missing::Unknown(inside.to_owned()));
    }
    if default.is_some_and(|default| default.contains("${")) {
        return Err(Missing::NestedDefault(name.to_owned()));
    }
    match (env.var(name), default) {
        (Some(""), Some(default)) | (None, Some(default)) => Ok(default.to_owned()),
        (Some(value), _) => Ok(value.to_owned()),
        (None, None) => Err(Missing::Unset(name.to_owned())),
    }
}

/// The name of a variable, without `env:` and without its default.
fn name_of(inside: &str) -> &str {
    let inside = inside.strip_prefix("env:").unwrap_or(inside);
    inside.split_once(":-").map_or(inside, |(name, _)| name)
}

/// The project directory of a file: its directory, or the parent of `.vscode` or `.cursor`.
fn workspace(folder: &Path) -> &Path {
    let inner = folder.file_name().is_some_and(|name| name == ".vscode" || name == ".cursor");
    if inner { folder.parent().unwrap_or(folder) } else { folder }
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Whether a text is one variable and nothing else.
pub(crate) fn is_reference(text: &str) -> bool {
    text.starts_with("${") && text.find('}') == Some(text.len() - 1)
}

/// Escapes a text of a configuration so that it stands for itself: no variable in it is substituted.
pub fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands print themselves; the files that were read are kept.
    #[derive(Default)]
    struct Echo(Vec<PathBuf>);

    impl Sources for Echo {
        fn command(&mut self, line: &str) -> Result<String, Missing> {
            Ok(format!("<{line}>"))
        }

        fn reads(&mut self, file: &Path) {
            self.0.push(file.to_owned());
        }

        fn variable(&mut self, _: &str, _: &str) {}

        fn secret(&mut self, _: &str) {}
    }

    fn check(text: &str, expected: Result<&str, &[&str]>) {
        let env = Env::new(Some("/home/u".into()), "/w").with("A", "1").with("EMPTY", "").with("TRICK", "${A}");
        let filled = fill(text, &env, Path::new("/w/.vscode"), &mut Echo::default());
        let filled = filled.map_err(|missing| missing.iter().map(Missing::message).collect::<Vec<_>>());
        assert_eq!(
            filled,
            expected.map(str::to_owned).map_err(|all| all.iter().map(|one| (*one).to_owned()).collect())
        );
    }

    #[test]
    fn variables_are_filled_in() {
        check("a ${A} b ${env:A}", Ok("a 1 b 1"));
        check("${NO:-x y}${EMPTY:-z}${A:-no}", Ok("x yz1"));
        check("${EMPTY}|${NO:-}", Ok("|"));
        check("${userHome}/x ${workspaceFolder} ${workspaceFolderBasename}", Ok("/home/u/x /w w"));
    }

    #[test]
    fn files_and_commands_are_values() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "t0k3n\n").unwrap();
        let env = Env::new(Some(folder.path().into()), "/");
        let filled = |text: &str| fill(text, &env, folder.path(), &mut Echo::default());
        assert_eq!(filled("a ${file:token} ${file:~/token}"), Ok("a t0k3n t0k3n".to_owned()));
        assert_eq!(filled("${cmd:pass show x}"), Ok("<pass show x>".to_owned()));
        let missing = filled("${file:none}").unwrap_err();
        assert!(missing[0].message().contains("none: cannot read the file"), "{missing:?}");
        std::fs::write(folder.path().join("big"), vec![b'x'; 70_000]).unwrap();
        assert!(filled("${file:big}").unwrap_err()[0].message().contains("larger"));
    }

    #[test]
    fn a_pipe_in_place_of_a_file_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap();
        assert!(made.success());
        let env = Env::new(None, "/");
        let missing = fill("${file:pipe}", &env, folder.path(), &mut Echo::default()).unwrap_err();
        assert!(missing[0].message().ends_with("pipe: cannot read the file: it is no regular file"), "{missing:?}");
        let source = super::super::text::Source::open(&folder.path().join("pipe")).unwrap_err();
        assert_eq!(source.message, "cannot read the file: it is no regular file");
    }

    #[test]
    fn a_variable_inside_a_default_is_an_error() {
        let nested = "the default of ${NO} is a variable itself, which is not supported";
        check("${NO:-${A}}", Err(&[nested]));
        check("${NO:-${keyring:K}}", Err(&[nested]));
    }

    #[test]
    fn braces_of_a_command_come_in_pairs() {
        check("a ${cmd:awk '{print $1}' f} b", Ok("a <awk '{print $1}' f> b"));
        check("${cmd:echo ${HOME}}${A}", Ok("<echo ${HOME}>1"));
        check("${cmd:a}}", Ok("<a>}"));
        check("${cmd:echo '{'}", Err(&["unterminated variable: ${ without }"]));
        // A default ends at the first brace, as before.
        check("${NO:-{x}}", Ok("{x}"));
    }

    #[test]
    fn command_lines_are_found_as_they_would_be_run() {
        let found = |text| command_lines(text).collect::<Vec<_>>();
        assert_eq!(found("a ${cmd:awk '{print $1}' f} ${A} ${cmd:b}"), ["awk '{print $1}' f", "b"]);
        assert_eq!(found("${cmd:a {"), ["a {"]);
        assert_eq!(found("${file:cmd:a} $cmd:b"), [""; 0]);
    }

    #[test]
    fn secrets_of_the_keyring_are_values() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::new(Some(home.path().into()), "/");
        let mut echo = Echo::default();
        let unset = fill("a ${keyring:TOKEN}", &env, Path::new("/"), &mut echo).unwrap_err();
        assert_eq!(unset[0].message(), "the secret TOKEN is not set");
        assert_eq!(unset[0].help(), "run: toolgate secret set TOKEN");
        assert_eq!(unset[0].unset(), Some(Unset::Secret("TOKEN".to_owned())));
        env.secrets(Preference::File).unwrap().set("TOKEN", "t0k3n").unwrap();
        let filled = fill("a ${keyring:TOKEN}", &env, Path::new("/"), &mut echo);
        assert_eq!(filled, Ok("a t0k3n".to_owned()));
        assert!(echo.0.iter().all(|file| file.starts_with(home.path())) && echo.0.len() == 2, "{:?}", echo.0);
    }

    #[test]
    fn what_is_no_variable_stays() {
        check("$A $ {A} 100$", Ok("$A $ {A} 100$"));
        check("$${A}", Ok("${A}"));
        check("${TRICK}", Ok("${A}"));
        check(&escape("${A} $${B} $"), Ok("${A} $${B} $"));
    }

    #[test]
    fn every_missing_variable_is_named() {
        let unset = |name: &str| format!("the environment variable {name} is not set");
        check("${X}${A}${env:Y}", Err(&[&unset("X"), &unset("Y")]));
        let input = "${input:key} is not supported: VS Code asks the user for its value, Toolgate cannot";
        check("${input:key}", Err(&[input]));
        check("${a b}", Err(&["${a b} is not a supported variable"]));
        check("${A", Err(&["unterminated variable: ${ without }"]));
    }
}
