//! The programs of examples/cookbook, which docs/GUIDE.md shows, run and return what the guide says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

mod support;
use support::toolgate;

/// Each program with its value, the number of its calls, and whether it could be run again without repeating an effect.
fn cookbook() -> Vec<(&'static str, Value, usize, bool)> {
    let missing = "ToolError of demo.get_issue: there is no issue 9999; they are numbered 1 to 240";
    vec![
        (
            "pages.ts",
            json!({ "pages": 3, "byPriority": { "critical": 41, "low": 33, "medium": 28, "high": 28 } }),
            3,
            true,
        ),
        (
            "parallel.ts",
            json!([
                { "number": 151, "words": 22 }, { "number": 159, "words": 20 }, { "number": 170, "words": 22 },
                { "number": 213, "words": 20 }, { "number": 231, "words": 20 },
            ]),
            6,
            true,
        ),
        (
            "join.ts",
            json!([
                { "who": "nobody", "critical": 18, "bugs": 8 },
                { "who": "ada", "critical": 5, "bugs": 1 },
                { "who": "barbara", "critical": 5, "bugs": 1 },
            ]),
            2,
            true,
        ),
        ("failures.ts", json!({ "found": 2, "missing": [missing] }), 3, true),
        ("write.ts", json!({ "lines": 2, "owners": ["grace", "grace"] }), 7, false),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cookbook")
}

#[test]
fn every_program_returns_what_the_guide_says() {
    for (name, value, calls, safe_to_retry) in cookbook() {
        let file = folder().join(name);
        let ran = toolgate(&["run", file.to_str().expect("UTF-8"), "--demo", "--json"]);
        assert_eq!(ran.code, 0, "{name}: {} {}", ran.stdout, ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
        assert_eq!(report["value"], value, "{name}");
        assert_eq!(report["calls"].as_array().map(Vec::len), Some(calls), "{name}");
        assert_eq!(report["safe_to_retry"], safe_to_retry, "{name}");
        assert_eq!(report["warnings"], json!([]), "{name}");
    }
}

#[test]
fn every_program_of_the_folder_is_tested_and_in_the_guide() {
    let entries = std::fs::read_dir(folder()).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    let files: BTreeSet<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    let tested: BTreeSet<String> = cookbook().into_iter().map(|(name, ..)| name.to_owned()).collect();
    assert_eq!(files, tested);
    let guide = std::fs::read_to_string(folder().join("../../docs/GUIDE.md")).expect("the guide");
    for name in files {
        assert!(guide.contains(&format!("examples/cookbook/{name}")), "docs/GUIDE.md does not name {name}");
    }
}
