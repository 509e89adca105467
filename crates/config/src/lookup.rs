//! Finds the configuration file: the one given, otherwise `toolgate.*` in the working directory, otherwise in the user's
//! configuration directory. How it was found decides whether its content needs [consent](super::trust).

use std::path::{Path, PathBuf};

use super::vars::Env;

/// The file names that are searched in each directory.
const FILE_NAMES: [&str; 5] = ["toolgate.json", "toolgate.jsonc", "toolgate.yaml", "toolgate.yml", "toolgate.toml"];

/// Why no file was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// The given file does not exist.
    #[error("no such file: {}", .0.display())]
    Missing(PathBuf),
    /// A directory has several configuration files.
    #[error("{} has several configuration files: {}; keep one, or choose one with --config", folder.display(), names.join(", "))]
    Several {
        /// The directory.
        folder: PathBuf,
        /// Its configuration files.
        names: Vec<&'static str>,
    },
}

/// A configuration file, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// The file.
    pub path: PathBuf,
    /// How it was found.
    pub origin: FileOrigin,
}

/// How a configuration file was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOrigin {
    /// The user named it.
    Named,
    /// It is in the working directory, which may be a repository of someone else.
    WorkingFolder,
    /// It is in the user's own configuration directory.
    UserFolder,
}

/// The configuration file; `None` if there is none.
pub fn find(asked: Option<&Path>, env: &Env) -> Result<Option<FoundFile>, FindError> {
    if let Some(asked) = asked {
        let path = env.cwd().join(asked);
        let found = FoundFile { path, origin: FileOrigin::Named };
        return if found.path.is_file() { Ok(Some(found)) } else { Err(FindError::Missing(asked.to_owned())) };
    }
    if let Some(path) = in_folder(env.cwd())? {
        let origin = if is_user_folder(env.cwd(), env) { FileOrigin::UserFolder } else { FileOrigin::WorkingFolder };
        return Ok(Some(FoundFile { path, origin }));
    }
    find_of_user(env)
}

/// The file in the user's own configuration directory, if it exists.
pub fn find_of_user(env: &Env) -> Result<Option<FoundFile>, FindError> {
    let path = user_folder(env).map_or(Ok(None), |folder| in_folder(&folder))?;
    Ok(path.map(|path| FoundFile { path, origin: FileOrigin::UserFolder }))
}

/// The path of a new configuration file: in the user's own configuration directory, or in the working directory if the user
/// has no home directory.
pub fn new_file(env: &Env) -> PathBuf {
    user_folder(env).unwrap_or_else(|| env.cwd().to_owned()).join("toolgate.json")
}

/// `$XDG_CONFIG_HOME/toolgate`, or `~/.config/toolgate`.
fn user_folder(env: &Env) -> Option<PathBuf> {
    env.xdg("XDG_CONFIG_HOME", ".config").map(|config| config.join("toolgate"))
}

fn is_user_folder(folder: &Path, env: &Env) -> bool {
    let real = |folder: &Path| folder.canonicalize().ok();
    user_folder(env).is_some_and(|user| real(&user).is_some() && real(&user) == real(folder))
}

fn in_folder(folder: &Path) -> Result<Option<PathBuf>, FindError> {
    let names: Vec<&'static str> = FILE_NAMES.into_iter().filter(|name| folder.join(name).is_file()).collect();
    match names.as_slice() {
        [] => Ok(None),
        [name] => Ok(Some(folder.join(name))),
        _ => Err(FindError::Several { folder: folder.to_owned(), names }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders() -> (tempfile::TempDir, Env) {
        let root = tempfile::tempdir().unwrap();
        for folder in ["cwd", "home/.config/toolgate", "xdg/toolgate"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let env = Env::new(Some(root.path().join("home")), root.path().join("cwd"));
        (root, env)
    }

    fn touch(root: &tempfile::TempDir, file: &str) -> PathBuf {
        let path = root.path().join(file);
        std::fs::write(&path, "{}").unwrap();
        path
    }

    fn found(env: &Env) -> Option<(PathBuf, FileOrigin)> {
        find(None, env).unwrap().map(|found| (found.path, found.origin))
    }

    #[test]
    fn the_nearest_file_wins() {
        let (root, env) = folders();
        assert_eq!(find(None, &env), Ok(None));
        let in_home = touch(&root, "home/.config/toolgate/toolgate.toml");
        assert_eq!(found(&env), Some((in_home, FileOrigin::UserFolder)));
        let xdg = env.clone().with("XDG_CONFIG_HOME", &root.path().join("xdg").to_string_lossy());
        let in_xdg = touch(&root, "xdg/toolgate/toolgate.yml");
        assert_eq!(found(&xdg), Some((in_xdg, FileOrigin::UserFolder)));
        let here = touch(&root, "cwd/toolgate.jsonc");
        assert_eq!(found(&xdg), Some((here, FileOrigin::WorkingFolder)));
        let asked = touch(&root, "cwd/other.json");
        let named = find(Some(Path::new("other.json")), &xdg).unwrap();
        assert_eq!(named, Some(FoundFile { path: asked, origin: FileOrigin::Named }));
    }

    #[test]
    fn the_users_folder_stays_the_users_own_when_it_is_the_working_directory() {
        let (root, env) = folders();
        let own = touch(&root, "home/.config/toolgate/toolgate.json");
        let inside = Env::new(env.home().map(Path::to_owned), own.parent().unwrap());
        assert_eq!(found(&inside), Some((own, FileOrigin::UserFolder)));
    }

    #[test]
    fn a_file_that_was_asked_for_must_be_there() {
        let (_root, env) = folders();
        assert_eq!(find(Some(Path::new("no.json")), &env), Err(FindError::Missing("no.json".into())));
    }

    #[test]
    fn two_files_in_one_folder_are_named() {
        let (root, env) = folders();
        touch(&root, "cwd/toolgate.json");
        touch(&root, "cwd/toolgate.toml");
        let error = find(None, &env).unwrap_err();
        assert_eq!(
            error,
            FindError::Several { folder: env.cwd().into(), names: vec!["toolgate.json", "toolgate.toml"] }
        );
    }
}
