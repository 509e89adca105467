//! What docs/ARCHITECTURE.md says is absent is absent, and the tests that the documents name exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every Rust file below a folder, as a path from the root.
fn sources(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| {
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            match entry.path() {
                below if below.is_dir() => sources(&path),
                file if file.extension().is_some_and(|extension| extension == "rs") => vec![path],
                _ => Vec::new(),
            }
        })
        .collect()
}

/// The names of the folders in a folder.
fn folders(of: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(of)).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
    folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The crates of the workspace that a crate's manifest names outside its tests.
fn named_by(manifest: &str) -> BTreeSet<String> {
    let normal = manifest.split("[dev-dependencies]").next().unwrap_or_default();
    let (_, dependencies) = normal.split_once("[dependencies]").expect("dependencies");
    let names = dependencies.lines().filter_map(|line| line.strip_prefix("toolgate-"));
    names.map(|rest| rest.chars().take_while(char::is_ascii_alphabetic).collect()).collect()
}

#[test]
fn crates_depend_on_each_other_only_along_the_arrows() {
    // A row for each crate, with those that it may name in its manifest.
    let arrows: &[(&str, &str)] = &[
        ("wire", ""),
        ("json", ""),
        ("plan", "wire"),
        ("guest", "json wire"),
        ("rewind", ""),
        ("engine", "guest plan rewind wire"),
        ("journal", "engine wire"),
        ("catalog", "json plan wire"),
        ("output", "json wire"),
        ("secrets", ""),
        ("policy", "wire"),
        ("config", "plan policy secrets wire"),
        ("functions", "catalog json plan wire"),
        ("mcp", "json secrets wire"),
        ("openapi", "wire"),
        ("page", ""),
        ("audit", "wire"),
        ("typecheck", "catalog plan wire"),
        ("telemetry", ""),
        ("backends", "catalog engine functions mcp openapi secrets wire"),
        ("bridge", "backends catalog engine functions journal json mcp plan policy wire"),
        (
            "run",
            "audit bridge catalog config engine functions journal json mcp output plan policy telemetry typecheck wire",
        ),
        (
            "gateway",
            "audit backends bridge catalog config engine functions journal json mcp output run secrets telemetry \
             typecheck wire",
        ),
        ("service", "backends bridge catalog config engine functions gateway journal mcp output page plan run wire"),
        ("demo", "mcp wire"),
        ("chaos", "mcp"),
        ("bench", "backends bridge catalog config engine gateway journal output policy run service wire"),
        (
            "cli",
            "audit backends bench bridge catalog chaos config demo engine functions gateway guest journal json mcp \
             openapi output plan policy run secrets service wire",
        ),
    ];
    let crates: BTreeSet<String> = folders("crates").into_iter().filter(|name| name != "hostile").collect();
    assert_eq!(crates, arrows.iter().map(|(name, _)| (*name).to_owned()).collect(), "every crate has its arrows");
    for (name, allowed) in arrows {
        for used in named_by(&read(format!("crates/{name}/Cargo.toml"))) {
            assert!(allowed.split(' ').any(|name| name == used), "{name} may not depend on {used}");
        }
    }
}

/// Every package that a crate links outside its tests.
fn linked_by(name: &str) -> BTreeSet<String> {
    let package = format!("toolgate-{name}");
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", &package, "--edges", "normal", "--prefix", "none"])
        .current_dir(root())
        .output()
        .expect("cargo tree runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).expect("UTF-8");
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// `run` gives programs to an engine. Besides it there are measurements, and a look at the engine itself.
#[test]
fn only_the_run_path_gives_programs_to_an_engine() {
    let own = ["crates/engine/", "crates/run/", "crates/bench/", "crates/cli/src/commands/doctor.rs"];
    let asks =
        ["ComputeOptions", ".engine().run", ".engine().compute", ".run_blocking(", "engine.run(", "engine.compute("];
    for name in folders("crates") {
        for file in sources(&format!("crates/{name}/src")) {
            let text = read(&file);
            let outside_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
            let found = asks.iter().find(|asks| outside_tests.contains(**asks));
            assert!(
                found.is_none() || own.iter().any(|own| file.starts_with(own)),
                "{file} has {found:?}: use `Runner`"
            );
        }
    }
}

#[test]
fn http_stacks_are_linked_where_the_document_says() {
    for (package, allowed) in [("reqwest", ["functions", "mcp"]), ("axum", ["mcp", "service"])] {
        for name in folders("crates") {
            let manifest = read(format!("crates/{name}/Cargo.toml"));
            let normal = manifest.split("[dev-dependencies]").next().unwrap_or_default();
            let named = normal.lines().any(|line| line.starts_with(package));
            assert!(!named || allowed.contains(&name.as_str()), "{name} names {package}");
        }
    }
    for name in ["wire", "json", "plan", "guest", "engine", "catalog", "output", "config", "openapi", "policy"] {
        let linked = linked_by(name);
        for package in ["reqwest", "axum", "hyper", "redis"] {
            assert!(!linked.contains(package), "{name} links {package}");
        }
    }
}

#[test]
fn the_guest_links_nothing_that_reaches_out() {
    let linked = linked_by("guest");
    assert!(linked.contains("rquickjs-sys"), "{linked:?}");
    let forbidden = [
        "toolgate-plan",
        "toolgate-engine",
        "toolgate-gateway",
        "toolgate-config",
        "toolgate-mcp",
        "toolgate-functions",
        "tokio",
        "mio",
        "socket2",
        "hyper",
        "reqwest",
        "axum",
        "redis",
        "rustls",
        "ring",
        "toml",
        "toml_edit",
        "saphyr-parser",
        "clap",
    ];
    for name in forbidden {
        assert!(!linked.contains(name), "the guest links {name}");
    }
}

#[test]
fn unsafe_code_is_where_the_document_says() {
    for name in folders("crates").into_iter().filter(|name| !["guest", "hostile", "rewind"].contains(&name.as_str())) {
        let entry = if name == "cli" { "main" } else { "lib" };
        assert!(read(format!("crates/{name}/src/{entry}.rs")).contains("#![forbid(unsafe_code)]"), "{name}");
    }
    let in_guest = ["lockdown/", "hugepages.rs", "memory.rs", "globals.rs", "data/exotic/"];
    let mut allowed: Vec<_> = in_guest.iter().map(|place| format!("crates/guest/src/{place}")).collect();
    allowed.push("crates/rewind/src/kernel.rs".into());
    for file in [sources("crates/guest/src"), sources("crates/rewind/src")].concat() {
        let has_unsafe = read(&file).lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"].iter().any(|word| code.contains(word))
        });
        assert!(!has_unsafe || allowed.iter().any(|place| file.starts_with(place)), "unsafe code in {file}");
    }
}

#[test]
fn the_gateway_has_a_small_public_surface() {
    let kinds = ["fn", "async fn", "const fn", "struct", "enum", "trait", "const", "type", "static", "mod"];
    let is_public = |line: &str| {
        let item = line.trim_start().strip_prefix("pub ").unwrap_or_default();
        kinds.iter().any(|kind| item.strip_prefix(kind).is_some_and(|rest| rest.starts_with(' ')))
    };
    let of_file = |file: String| read(&file).lines().filter(|line| is_public(line)).count();
    let public: usize = sources("crates/gateway/src").into_iter().map(of_file).sum();
    assert!(public < 60, "{public} public items: doors need fewer");
}

#[test]
fn every_test_that_a_document_names_exists() {
    let documents = ["README.md", "docs/ARCHITECTURE.md", "docs/SECURITY.md", "docs/SPECIFICATION.md"];
    let mut named = 0;
    for document in documents {
        // Code spans are every second part; those that name a test look like `path/to/file.rs::name`.
        let text = read(document);
        for (file, test) in text.split('`').skip(1).step_by(2).filter_map(|span| span.split_once(".rs::")) {
            let source = read(format!("{file}.rs"));
            assert!(source.contains(&format!("fn {test}(")), "{document} names {file}.rs::{test}");
            named += 1;
        }
    }
    assert!(named > 20, "the documents name {named} tests");
}
