//! What must never be true of the crates and of a worker, whatever else changes.

mod support;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

use support::machine::{Child, children};
use support::process_builder;
use tokio::sync::Notify;
use toolgate_engine::wire::Profile;
use toolgate_engine::{CancellationToken, Functions, Request};

/// Everything that the guest may link: what hostile code could hope to reach. A new name needs a reason.
const GUEST_CLOSURE: &str = "
    toolgate-guest toolgate-json toolgate-wire
    rquickjs rquickjs-core rquickjs-sys allocator-api2 hashbrown foldhash equivalent
    libc rustix linux-raw-sys bitflags errno landlock enumflags2 seccompiler
    serde serde_core serde_json itoa zmij ryu memchr indexmap thiserror
    url form_urlencoded percent-encoding idna idna_adapter utf8_iter utf16_iter utf_types smallvec
    icu_collections icu_locale_core icu_normalizer icu_normalizer_data icu_properties icu_properties_data icu_provider
    litemap potential_utf stable_deref_trait tinystr write16 writeable yoke zerofrom zerotrie zerovec
";

/// What runs at build time only: macros.
const GUEST_MACROS: &str = "
    displaydoc enumflags2_derive proc-macro2 quote serde_derive syn synstructure thiserror-impl unicode-ident
    yoke-derive zerofrom-derive zerovec-derive
";

/// The packages that a package is made of.
fn closure(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", package, "-e", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo tree");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

#[test]
fn the_guest_links_only_what_is_listed() {
    let allowed: BTreeSet<&str> = GUEST_CLOSURE.split_whitespace().chain(GUEST_MACROS.split_whitespace()).collect();
    let closure = closure("toolgate-guest");
    assert!(closure.contains("rquickjs"), "{closure:?}");
    let strangers: Vec<_> = closure.iter().filter(|name| !allowed.contains(name.as_str())).collect();
    assert!(strangers.is_empty(), "new in the guest: {strangers:?}");
}

#[test]
fn the_guest_knows_no_network_configuration_or_protocol() {
    let closure = closure("toolgate-guest");
    for name in [
        "tokio",
        "rmcp",
        "axum",
        "reqwest",
        "hyper",
        "rustls",
        "ring",
        "toml",
        "clap",
        "redis",
        "jsonschema",
        "oxc",
        "toolgate-plan",
        "toolgate-engine",
        "toolgate-gateway",
        "toolgate",
    ] {
        assert!(!closure.contains(name), "the guest links {name}");
    }
}

#[test]
fn plan_and_guest_do_not_know_each_other() {
    assert!(!closure("toolgate-plan").contains("toolgate-guest"));
    assert!(!closure("toolgate-guest").contains("toolgate-plan"));
}

#[test]
fn the_engine_knows_no_door() {
    let closure = closure("toolgate-engine");
    for name in ["rmcp", "axum", "reqwest", "hyper", "toolgate-gateway", "toolgate-hostile"] {
        assert!(!closure.contains(name), "the engine links {name}");
    }
}

fn read(child: &Child, file: &str) -> std::io::Result<Vec<u8>> {
    std::fs::read(format!("/proc/{}/{file}", child.pid))
}

/// The value of a line in the kernel's account of a process.
fn status(pid: u32, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field}")).trim().to_owned()
}

/// Looks at a process that does not want to be looked at; someone who may not is refused, which is as good.
fn look<T>(what: std::io::Result<T>, check: impl FnOnce(T)) {
    match what {
        Ok(seen) => check(seen),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_has_an_empty_environment_one_descriptor_and_a_filter() {
    let engine = process_builder().workers_ahead(0).build().expect("engine");
    let called = Arc::new(Notify::new());
    let tell = called.clone();
    let host = Functions::new().with("hold", move |_| {
        tell.notify_one();
        std::future::pending()
    });
    let cancel = CancellationToken::new();
    let request =
        Request { host: Arc::new(host), cancel: cancel.clone(), ..Request::new(Profile::Chain, "await hold()") };
    let run = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run(request).await }
    });
    called.notified().await;
    let family: Vec<Child> = children().into_iter().filter(|child| child.name == "toolgate-worker").collect();
    assert_eq!(family.len(), 2, "a zygote and a worker: {family:?}");
    let filters = |pid| status(pid, "Seccomp_filters").parse::<u32>().expect("a number");
    let ours = filters(std::process::id());
    let worker = family.iter().find(|child| filters(child.pid) == ours + 2).expect("a filter over a filter");
    assert_eq!(status(worker.pid, "Seccomp"), "2", "an allow-list");
    assert_eq!(status(worker.pid, "NoNewPrivs"), "1");
    assert_eq!(status(worker.pid, "Threads"), "1");
    assert_eq!(status(worker.pid, "CapEff"), "0000000000000000");
    look(read(worker, "environ"), |environment| assert_eq!(environment, b""));
    look(std::fs::read_dir(format!("/proc/{}/fd", worker.pid)), |descriptors| {
        let open: Vec<_> = descriptors.map(|entry| entry.expect("entry").file_name()).collect();
        assert_eq!(open, ["0"]);
    });
    look(std::fs::read_link(format!("/proc/{}/cwd", worker.pid)), |cwd| assert_eq!(cwd.to_str(), Some("/")));
    let zygote = family.iter().find(|child| child.pid != worker.pid).expect("the other one");
    look(read(zygote, "environ"), |environment| assert_eq!(environment, b""));
    assert_eq!(status(zygote.pid, "Threads"), "1");
    assert_eq!(filters(zygote.pid), ours + 1, "a zygote can fork, and otherwise what a worker can");
    cancel.cancel();
    run.await.expect("joined");
}
