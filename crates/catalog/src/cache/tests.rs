//! What is written to the cache is read again, and what is damaged is left out.

use super::*;
use serde_json::json;

/// A directory of its own for one test, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("toolgate-cache-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("tools.json")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn cached(tools: usize) -> CachedBackend {
    CachedBackend {
        fingerprint: "f1".into(),
        era: CachedEra::Modern,
        server: json!({ "name": "exa", "version": "1" }),
        tools: (0..tools)
            .map(|n| {
                json!({
                    "name": format!("tool_{n}"),
                    "description": "Looks something up ".repeat(10),
                    "inputSchema": { "type": "object", "properties": { "z": { "type": "string" }, "a": { "type": "integer" } } },
                })
            })
            .filter_map(Tool::from_raw)
            .collect(),
        changed: Vec::new(),
    }
}

#[track_caller]
fn check_ignored(name: &str, text: &[u8]) {
    let scratch = Scratch::new(name);
    fs::write(scratch.file(), text).unwrap();
    assert_eq!(ToolCache::load(&scratch.file()), ToolCache::default());
}

#[test]
fn what_was_saved_is_loaded() {
    let scratch = Scratch::new("round-trip");
    let mut cache = ToolCache::default();
    assert!(cache.put("exa", cached(3)));
    cache.save(&scratch.file()).unwrap();
    let loaded = ToolCache::load(&scratch.file());
    assert_eq!(loaded, cache);
    // The order of a schema's keys is part of it.
    assert_eq!(loaded.get("exa", "f1").unwrap().tools[0].raw().to_string(), cached(1).tools[0].raw().to_string());
}

#[test]
fn an_entry_of_another_configuration_is_void() {
    let mut cache = ToolCache::default();
    cache.put("exa", cached(1));
    assert!(cache.get("exa", "f1").is_some());
    assert!(cache.get("exa", "f2").is_none());
    assert!(cache.get("other", "f1").is_none());
}

#[test]
fn saying_the_same_again_changes_nothing() {
    let mut cache = ToolCache::default();
    assert!(cache.put("exa", cached(1)));
    assert!(!cache.put("exa", cached(1)));
    assert!(cache.put("exa", cached(2)));
}

#[test]
fn backends_that_are_gone_are_forgotten() {
    let mut cache = ToolCache::default();
    cache.put("exa", cached(1));
    cache.put("gone", cached(1));
    cache.retain(|name, _| name != "gone");
    assert!(cache.get("exa", "f1").is_some());
    assert!(cache.get("gone", "f1").is_none());
}

#[test]
fn a_missing_or_damaged_file_is_an_empty_cache() {
    assert_eq!(ToolCache::load(Path::new("/nonexistent/tools.json")), ToolCache::default());
    check_ignored("empty", b"");
    check_ignored("half", br#"{"version":1,"backends":{"exa":{"finge"#);
    check_ignored("other", br#"{"version":1,"backends":[]}"#);
    check_ignored(
        "nameless",
        br#"{"version":1,"backends":{"exa":{"fingerprint":"f1","tools":[{"description":"x"}]}}}"#,
    );
    check_ignored("binary", &[0, 159, 146, 150]);
}

#[test]
fn a_file_of_another_version_is_an_empty_cache() {
    check_ignored("newer", br#"{"version":2,"backends":{"exa":{"fingerprint":"f1","tools":[]}}}"#);
    check_ignored("unversioned", br#"{"backends":{}}"#);
}

#[test]
fn an_era_of_the_future_is_unknown() {
    let era: CachedEra = serde_json::from_str("\"quantum\"").unwrap();
    assert_eq!(era, CachedEra::Unknown);
}

#[test]
fn saving_replaces_the_file_and_leaves_nothing_beside_it() {
    let scratch = Scratch::new("replace");
    let mut cache = ToolCache::default();
    for tools in 1..4 {
        cache.put("exa", cached(tools));
        cache.save(&scratch.file()).unwrap();
    }
    assert_eq!(ToolCache::load(&scratch.file()), cache);
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("mode");
    ToolCache::default().save(&scratch.file()).unwrap();
    assert_eq!(fs::metadata(scratch.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_that_names_it() {
    let scratch = Scratch::new("refused");
    fs::create_dir(scratch.file()).unwrap();
    let error = ToolCache::default().save(&scratch.file()).unwrap_err().to_string();
    assert!(error.contains("tools.json"), "{error}");
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
}
