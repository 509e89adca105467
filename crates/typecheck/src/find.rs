//! Finds the user's own TypeScript 7: the native `tsc` of the npm package `typescript`.

use std::io::Read;
use std::path::{Path, PathBuf};

/// The environment variable that names the compiler. It takes precedence over `PATH`.
pub const TSC_VARIABLE: &str = "TOOLGATE_TSC";

/// How to install the compiler.
const INSTALL_HINT: &str = "install TypeScript 7 (`npm install -g typescript`), or name its tsc in engines.typescript";

/// A compiler that can check programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// The native program.
    pub program: PathBuf,
    /// Its version, as its package says.
    pub version: Option<String>,
}

/// Why there is no compiler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoCompiler {
    /// None was named and none is on the search path.
    #[error("no tsc was found: {INSTALL_HINT}")]
    NotFound,
    /// There is one, but not of TypeScript 7.
    #[error("{} is not the tsc of TypeScript 7: {INSTALL_HINT}", .0.display())]
    NotNative(PathBuf),
    /// The configuration wants none.
    #[error("engines.typescript is off")]
    Off,
    /// Nothing can jail it.
    #[error("this program cannot be started again as a jail for tsc")]
    NoJail,
}

/// The compiler that a setting, the environment variable or `PATH` gives, in this order. Nothing is started.
pub fn find(setting: Option<&Path>) -> Result<Compiler, NoCompiler> {
    let named = setting.map(Path::to_owned).or_else(|| std::env::var_os(TSC_VARIABLE).map(PathBuf::from));
    match named {
        Some(path) => compiler(&path).ok_or(NoCompiler::NotNative(path)),
        None => on_search_path(),
    }
}

/// The first native compiler of the search path: an older one may come before it.
fn on_search_path() -> Result<Compiler, NoCompiler> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut older = None;
    for candidate in std::env::split_paths(&path).map(|folder| folder.join("tsc")).filter(|path| path.is_file()) {
        match compiler(&candidate) {
            Some(found) => return Ok(found),
            None => older = older.or(Some(candidate)),
        }
    }
    Err(older.map_or(NoCompiler::NotFound, NoCompiler::NotNative))
}

/// The native compiler behind a path. The package installs a script, and the program in a package of its own beside it.
fn compiler(path: &Path) -> Option<Compiler> {
    let path = path.canonicalize().ok()?;
    let native = |program: PathBuf| is_native(&program).then_some(program);
    let program = native(path.clone()).or_else(|| {
        let package = format!("@typescript/typescript-{}/lib/tsc", platform());
        path.ancestors()
            .flat_map(|folder| [folder.join("node_modules").join(&package), folder.join(&package)])
            .find_map(native)
    })?;
    let version = version(&program);
    Some(Compiler { program, version })
}

/// The name of this platform in npm's packages.
fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}-{machine}")
}

/// Whether it is an executable with the declarations of the language beside it, which it does not start without.
fn is_native(path: &Path) -> bool {
    let mut magic = [0u8; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    let beside = path.parent().is_some_and(|folder| folder.join("lib.d.ts").is_file());
    read.is_ok() && magic == *b"\x7fELF" && beside
}

fn version(program: &Path) -> Option<String> {
    let package = program.parent()?.parent()?.join("package.json");
    let text = std::fs::read_to_string(package).ok()?;
    let package: serde_json::Value = serde_json::from_str(&text).ok()?;
    let version = package.get("version")?.as_str()?;
    Some(toolgate_wire::foreign_text::one_line(version, 40))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, content: &[u8]) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    #[test]
    fn the_native_program_is_found_beside_its_script() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let script = root.join("node_modules/typescript/bin/tsc");
        write(&script, b"#!/usr/bin/env node\n");
        assert_eq!(find(Some(&script)), Err(NoCompiler::NotNative(script.clone())), "an older TypeScript");
        let native = root.join(format!("node_modules/@typescript/typescript-{}/lib/tsc", platform()));
        write(&native, b"\x7fELF...");
        assert!(find(Some(&script)).is_err(), "without its declarations it does not start");
        write(&native.with_file_name("lib.d.ts"), b"");
        write(&native.parent().unwrap().with_file_name("package.json"), br#"{"version":"7.0.2"}"#);
        let expected = Compiler { program: native.clone(), version: Some("7.0.2".into()) };
        assert_eq!(find(Some(&script)), Ok(expected.clone()));
        assert_eq!(find(Some(&native)), Ok(expected));
        assert!(NoCompiler::NotFound.to_string().contains("npm install -g typescript"));
    }
}
