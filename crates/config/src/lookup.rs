//! Finds the configuration file: the one given, otherwise `toolgate.*` in the working directory, otherwise in the user's
//! configuration directory.

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

/// The configuration file; `None` if there is none.
pub fn find(asked: Option<&Path>, env: &Env) -> Result<Option<PathBuf>, FindError> {
    if let Some(asked) = asked {
        let path = env.cwd().join(asked);
        return if path.is_file() { Ok(Some(path)) } else { Err(FindError::Missing(asked.to_owned())) };
    }
    match in_folder(env.cwd())? {
        Some(path) => Ok(Some(path)),
        None => user_folder(env).map_or(Ok(None), |folder| in_folder(&folder)),
    }
}

/// `$XDG_CONFIG_HOME/toolgate`, or `~/.config/toolgate`.
fn user_folder(env: &Env) -> Option<PathBuf> {
    env.xdg("XDG_CONFIG_HOME", ".config").map(|config| config.join("toolgate"))
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

    #[test]
    fn the_nearest_file_wins() {
        let (root, env) = folders();
        assert_eq!(find(None, &env), Ok(None));
        let in_home = touch(&root, "home/.config/toolgate/toolgate.toml");
        assert_eq!(find(None, &env), Ok(Some(in_home)));
        let xdg = env.clone().with("XDG_CONFIG_HOME", &root.path().join("xdg").to_string_lossy());
        let in_xdg = touch(&root, "xdg/toolgate/toolgate.yml");
        assert_eq!(find(None, &xdg), Ok(Some(in_xdg)));
        let here = touch(&root, "cwd/toolgate.jsonc");
        assert_eq!(find(None, &xdg), Ok(Some(here)));
        let asked = touch(&root, "cwd/other.json");
        assert_eq!(find(Some(Path::new("other.json")), &xdg), Ok(Some(asked)));
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
