//! The deno of the tests.

use std::path::{Path, PathBuf};

use toolgate_engine::DENO_VARIABLE;

/// Named by the variable, on the search path, or installed by `./check`.
pub(crate) fn deno() -> PathBuf {
    let named = std::env::var_os(DENO_VARIABLE).map(PathBuf::from);
    let on_path =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let on_path = on_path.map(|folder| folder.join("deno"));
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.check/deno/node_modules/deno/deno");
    let found = named.into_iter().chain(on_path).chain([installed]).find(|path| path.is_file());
    found.expect("a deno: `./check` installs one, or name yours in TOOLGATE_DENO")
}
