//! Where the user's own `deno` is.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable that names the program to use, before the search path is looked at.
pub const DENO_VARIABLE: &str = "TOOLGATE_DENO";

/// How to get what is missing, for whoever is told that it is.
pub(crate) const HOW_TO_GET: &str =
    "install deno (https://deno.com, or `npm install -g deno`, or `pip install deno`), or name it in engines.v8.deno";

/// Whether programs can be run on V8 here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum V8Status {
    /// They can.
    Available {
        /// The program that runs them.
        deno: PathBuf,
        /// What it says of its version, such as `deno 2.9.6`.
        version: String,
    },
    /// They cannot.
    Missing {
        /// What is missing and how to get it: one sentence.
        reason: String,
    },
}

/// Why there is no deno.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoDeno {
    #[error("no deno was found: {HOW_TO_GET}")]
    NotFound,
    #[error("{} is not a deno program: {HOW_TO_GET}", .0.display())]
    NotAProgram(PathBuf),
    #[error("this program cannot be started again as a jail for deno")]
    NoJail,
}

/// The program by the setting, the variable or the search path, in this order.
pub(crate) fn find(setting: Option<&Path>) -> Result<PathBuf, NoDeno> {
    let named = setting.map(Path::to_owned).or_else(|| std::env::var_os(DENO_VARIABLE).map(PathBuf::from));
    match named {
        Some(path) => program(&path).ok_or(NoDeno::NotAProgram(path)),
        None => on_search_path().ok_or(NoDeno::NotFound),
    }
}

fn on_search_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find_map(|folder| program(&folder.join("deno")))
}

/// The real program behind a path. The npm package puts a script in front of it; the jail runs no scripts.
fn program(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    if is_executable(&path) {
        return Some(path);
    }
    let behind = path.parent()?.join("deno");
    is_executable(&behind).then_some(behind)
}

fn is_executable(path: &Path) -> bool {
    let mut magic = [0u8; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

/// What the program says of itself.
pub(crate) fn version(deno: &Path) -> Option<String> {
    let output = Command::new(deno)
        .arg("--version")
        .env_clear()
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<&str> = text.lines().next()?.split_whitespace().take(2).collect();
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_not_a_program() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert_eq!(find(Some(&own)), Err(NoDeno::NotAProgram(own)));
    }

    #[test]
    fn what_is_missing_is_said_with_how_to_get_it() {
        assert!(NoDeno::NotFound.to_string().contains("npm install -g deno"));
    }
}
