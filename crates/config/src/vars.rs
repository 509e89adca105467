//! Variables in settings: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, and `$${` for a literal `${`.
//!
//! Also VS Code's and Cursor's own `${userHome}`, `${workspaceFolder}`, `${workspaceFolderBasename}`,
//! `${pathSeparator}` and `${/}`. A default is used when the variable is unset or empty, as in a shell, and is
//! not itself filled in. What a variable brings is not looked at again, so a value can't smuggle in another variable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the configuration may know of the process it is read in.
#[derive(Clone)]
pub struct Env {
    variables: BTreeMap<String, String>,
    home: Option<PathBuf>,
    cwd: PathBuf,
}

impl std::fmt::Debug for Env {
    // Values of variables are secrets as often as not.
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
        Self { variables: std::env::vars_os().filter_map(text).collect(), home: std::env::home_dir(), cwd }
    }

    /// An environment without variables.
    pub fn new(home: Option<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        Self { variables: BTreeMap::new(), home, cwd: cwd.into() }
    }

    /// The same with one variable more.
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

    /// The folder we were started in.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// A folder from an `XDG_*_HOME` variable, which counts only if it is absolute, or one below the home folder.
    pub(crate) fn xdg(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let set = self.var(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
        set.or_else(|| Some(self.home()?.join(below_home)))
    }
}

/// Why a text could not be filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The variable is not set.
    Unset(String),
    /// VS Code would have asked its user.
    Input(String),
    /// The client would have known this, we don't.
    Unknown(String),
    /// `${` without `}`.
    Unclosed,
}

impl Missing {
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Unset(name) => format!("the environment variable {name} is not set"),
            Self::Input(name) => {
                format!("${{input:{name}}} is a question that VS Code asks its user, and Toolgate can't ask")
            }
            Self::Unknown(name) => format!("${{{name}}} is not a variable that is known here"),
            Self::Unclosed => "${ is never closed by }".to_owned(),
        }
    }

    pub(crate) fn help(&self) -> String {
        match self {
            Self::Unset(name) => format!("set {name}, or write ${{{name}:-a default}}"),
            Self::Input(name) => {
                let variable: String = name
                    .chars()
                    .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
                    .collect();
                format!("put the answer in an environment variable and write ${{{variable}}}")
            }
            Self::Unknown(_) | Self::Unclosed => "write $${ where a literal ${ is meant".to_owned(),
        }
    }
}

/// Fills in all variables of a text, or names all that are missing. `folder` is that of the file.
pub(crate) fn fill(text: &str, env: &Env, folder: &Path) -> Result<String, Vec<Missing>> {
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
        let Some((inside, after)) = after.split_once('}') else {
            missing.push(Missing::Unclosed);
            rest = "";
            break;
        };
        match value(inside, env, folder) {
            Ok(value) => filled.push_str(&value),
            Err(why) => missing.push(why),
        }
        rest = after;
    }
    filled.push_str(rest);
    if missing.is_empty() { Ok(filled) } else { Err(missing) }
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
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !plain {
        return Err(Missing::Unknown(inside.to_owned()));
    }
    match (env.var(name), default) {
        (Some(""), Some(default)) | (None, Some(default)) => Ok(default.to_owned()),
        (Some(value), _) => Ok(value.to_owned()),
        (None, None) => Err(Missing::Unset(name.to_owned())),
    }
}

/// The project that a file belongs to: its folder, or the one above `.vscode` or `.cursor`.
fn workspace(folder: &Path) -> &Path {
    let inner = folder.file_name().is_some_and(|name| name == ".vscode" || name == ".cursor");
    if inner { folder.parent().unwrap_or(folder) } else { folder }
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Writes a text so that [`fill`] gives it back as it is.
pub(crate) fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &[&str]>) {
        let env = Env::new(Some("/home/u".into()), "/w").with("A", "1").with("EMPTY", "").with("TRICK", "${A}");
        let filled = fill(text, &env, Path::new("/w/.vscode"));
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
        check("${input:key}", Err(&["${input:key} is a question that VS Code asks its user, and Toolgate can't ask"]));
        check("${a b}", Err(&["${a b} is not a variable that is known here"]));
        check("${A", Err(&["${ is never closed by }"]));
    }
}
