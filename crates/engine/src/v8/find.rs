//! Finds the user's own `deno`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable that names the deno program. It takes precedence over `PATH`.
pub const DENO_VARIABLE: &str = "TOOLGATE_DENO";

/// How to install deno.
const INSTALL_HINT: &str =
    "install deno (https://deno.com, or `npm install -g deno`, or `pip install deno`), or name it in engines.v8.deno";

/// Whether programs can run on V8 here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum V8Status {
    /// They can.
    Available {
        /// The deno program.
        deno: PathBuf,
        /// Its version, such as `deno 2.9.6`.
        version: String,
    },
    /// They cannot.
    Missing {
        /// What is missing and how to install it: one sentence.
        reason: String,
    },
}

/// Why there is no deno.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoDeno {
    #[error("no deno was found: {INSTALL_HINT}")]
    NotFound,
    #[error("{} is not a deno program: {INSTALL_HINT}", .0.display())]
    NotAProgram(PathBuf),
    #[error("this program cannot be started again as a jail for deno")]
    NoJail,
    #[error("programs run on V8 in a jail around deno, which needs Linux")]
    System,
}

/// The deno program that the setting, the environment variable or `PATH` gives, in this order.
pub(crate) fn find(setting: Option<&Path>) -> Result<PathBuf, NoDeno> {
    if cfg!(not(target_os = "linux")) {
        return Err(NoDeno::System);
    }
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

/// The executable behind a path. The npm package installs a script beside the executable, and the jail cannot run scripts.
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

/// The first two words that `deno --version` prints.
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
    fn the_message_says_how_to_install_deno() {
        assert!(NoDeno::NotFound.to_string().contains("npm install -g deno"));
    }
}
