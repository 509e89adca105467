//! Which files a server needs to start: those of the system, and those that its command line names.
//!
//! `/etc`, `/proc` and `/dev` are listed file by file. Of the home directory a server sees nothing but what its command
//! names: the program, the `bin` and `lib` folders of the prefix that it is installed in (all of it, for a version manager
//! such as pyenv), and the interpreter that runs it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::super::child::CERTIFICATE_VARIABLES;

/// What every server may read and execute, where it exists.
pub(super) const SYSTEM: &[&str] = &[
    "/bin",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/opt",
    "/run/current-system",
    "/sbin",
    "/snap",
    "/usr",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
];

/// Devices that every server may read and write.
pub(super) const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];

/// How many interpreters are followed: of a script, and of the virtual environment that its interpreter is in.
const MAX_INTERPRETERS: usize = 4;
/// The kernel reads no longer first line of a script.
const MAX_FIRST_LINE: u64 = 256;

/// The program that a command means, by the search path that the child will have.
pub(super) fn program(command: &str, search_path: Option<&OsStr>) -> std::io::Result<PathBuf> {
    let named = Path::new(command);
    if command.contains('/') {
        return std::path::absolute(named);
    }
    let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let folders = search_path.map(OsStr::to_owned).unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    std::env::split_paths(&folders).map(|folder| folder.join(named)).find(|file| is_program(file)).ok_or_else(missing)
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// What a command line names: the program with what it needs to start, and every argument that is an absolute path, alone
/// or after `=`.
pub(super) fn named(program: &Path, args: &[String], search_path: Option<&OsStr>) -> BTreeSet<PathBuf> {
    let mut paths = BTreeSet::new();
    let mut programs = vec![program.to_owned()];
    for _ in 0..MAX_INTERPRETERS {
        let Some(program) = programs.pop() else { break };
        programs.extend(of_program(&program, search_path, &mut paths));
    }
    let value = |arg: &String| arg.split_once('=').map_or(arg.clone(), |(_, value)| value.to_owned());
    let values = args.iter().cloned().chain(args.iter().map(value)).map(PathBuf::from);
    paths.extend(values.filter(|path| path.is_absolute() && path.exists()));
    paths
}

/// Adds a program and the folders that it is installed in; returns the programs that run it.
fn of_program(program: &Path, search_path: Option<&OsStr>, paths: &mut BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut interpreters = Vec::new();
    // It may lie in a folder that the server writes: only what can be executed is taken for a program.
    if !is_program(program) {
        return interpreters;
    }
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    for file in [program, &real] {
        paths.insert(file.to_owned());
        paths.extend(version_manager(file));
        let Some(folder) = file.parent().filter(|folder| folder.ends_with("bin")) else { continue };
        let Some(prefix) = folder.parent() else { continue };
        let settings = prefix.join("pyvenv.cfg");
        if settings.exists() && file != folder.join("python") {
            interpreters.push(folder.join("python"));
        }
        let beside = [folder.to_owned(), prefix.join("lib"), prefix.join("lib64"), settings];
        paths.extend(beside.into_iter().filter(|path| !path.is_symlink()));
    }
    interpreters.extend(interpreter(&real, search_path));
    interpreters
}

/// The folder of the version manager (pyenv, asdf, mise, volta) that a program leads to: it has the real programs.
fn version_manager(file: &Path) -> Option<PathBuf> {
    let folder = file.parent()?;
    let root = folder.parent()?;
    (folder.ends_with("shims") || root.ends_with(".volta")).then(|| root.to_owned())
}

/// The program that a script names in its first line.
fn interpreter(script: &Path, search_path: Option<&OsStr>) -> Option<PathBuf> {
    let mut head = Vec::new();
    File::open(script).ok()?.take(MAX_FIRST_LINE).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = PathBuf::from(OsStr::from_bytes(words.next()?));
    if !first.ends_with("env") {
        return Some(first);
    }
    let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
    program(std::str::from_utf8(name).ok()?, search_path).ok()
}

/// Files with certificates that the environment of the child names.
pub(super) fn certificates<'a>(environment: impl Iterator<Item = (&'a OsStr, &'a OsStr)>) -> Vec<PathBuf> {
    let names_one = |name: &OsStr| CERTIFICATE_VARIABLES.iter().any(|known| name.eq_ignore_ascii_case(known));
    environment.filter(|(name, _)| names_one(name)).map(|(_, value)| PathBuf::from(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(file: &Path, text: &str) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_link_in_a_prefix_leads_nowhere() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        write(&home.join("venv/bin/python3"), "");
        write(&home.join("venv/pyvenv.cfg"), "");
        symlink(&home, home.join("venv/lib64")).unwrap();
        symlink(&home, home.join("venv/bin/python")).unwrap();
        let paths = named(&home.join("venv/bin/python3"), &[], None);
        assert!(paths.iter().all(|path| !path.is_symlink()), "{paths:?}");
        assert!(!paths.contains(&home), "{paths:?}");
    }

    #[test]
    fn a_program_brings_its_prefix_and_its_interpreter_and_nothing_else_of_a_home() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let node = home.join(".nvm/v22");
        write(&node.join("bin/node"), "");
        write(&node.join("lib/node_modules/npm/bin/npx-cli.js"), "#!/usr/bin/env node\n");
        symlink("../lib/node_modules/npm/bin/npx-cli.js", node.join("bin/npx")).unwrap();
        write(&home.join(".ssh/id"), "secret");
        let search = node.join("bin").into_os_string();
        let npx = program("npx", Some(&search)).unwrap();
        assert_eq!(npx, node.join("bin/npx"));
        let paths = named(&npx, &["-y".into(), "pkg".into()], Some(&search));
        for needed in ["bin", "lib", "bin/node"] {
            assert!(paths.contains(&node.join(needed)), "{needed}: {paths:?}");
        }
        assert!(paths.iter().all(|path| path.starts_with(&node)), "{paths:?}");
    }

    #[test]
    fn a_program_of_a_version_manager_brings_the_versions() {
        let home = tempfile::tempdir().unwrap();
        let pyenv = home.path().canonicalize().unwrap().join(".pyenv");
        write(&pyenv.join("shims/python3"), "#!/bin/sh\n");
        assert!(named(&pyenv.join("shims/python3"), &[], None).contains(&pyenv));
    }

    #[test]
    fn a_virtual_environment_brings_the_interpreter_that_it_was_made_of() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let (venv, python) = (home.join("venv"), home.join("python3.12"));
        write(&python.join("bin/python3.12"), "");
        write(&venv.join("pyvenv.cfg"), "");
        write(&venv.join("bin/server"), &format!("#!{}\n", venv.join("bin/python").display()));
        symlink(python.join("bin/python3.12"), venv.join("bin/python")).unwrap();
        let paths = named(&venv.join("bin/server"), &[], None);
        for needed in [venv.join("lib"), venv.join("pyvenv.cfg"), python.join("bin"), python.join("lib")] {
            assert!(paths.contains(&needed), "{needed:?}: {paths:?}");
        }
    }

    #[test]
    fn arguments_that_are_absolute_paths_are_named_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.py");
        write(&file, "");
        let shown = file.display();
        let args = [format!("--config={shown}"), "/no/such/file".to_owned(), "x.py".to_owned(), "--root=~".to_owned()];
        let paths = named(Path::new("/bin/true"), &args, None);
        let given: Vec<_> = paths.iter().filter(|path| path.starts_with(folder.path())).collect();
        assert_eq!(given, [&file]);
        assert!(!paths.contains(Path::new("/no/such/file")));
    }
}
