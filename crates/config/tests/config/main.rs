//! Configuration files in all formats: what the good ones mean, and what is said about the bad ones.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod clients;
mod edit;

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use toolgate_config::checked::{BackendTransport, ServerSandbox};
use toolgate_config::text::{Format, Source};
use toolgate_config::{Checked, Env, Problem, check, schema};

fn env() -> Env {
    Env::new(Some("/home/u".into()), "/w").with("GITHUB_TOKEN", "ghp_very_secret")
}

fn fixtures(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config").join(kind);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn read(bytes: Vec<u8>, name: &str) -> Result<Checked, Vec<Problem>> {
    let name = Path::new(name);
    let source = Source::from_bytes(name, Format::of(name), bytes).map_err(|problem| vec![*problem])?;
    check(source, &env())
}

fn read_fixture(file: &Path) -> Result<Checked, Vec<Problem>> {
    read(std::fs::read(file).unwrap(), &name_of(file))
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap().to_string_lossy().into_owned()
}

fn shown(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn all_problems_of_a_bad_file_are_reported_with_their_places() {
    for file in fixtures("bad") {
        let problems = read_fixture(&file).expect_err(&name_of(&file));
        insta::assert_snapshot!(format!("bad_{}", name_of(&file)), shown(&problems));
    }
}

#[test]
fn no_key_has_the_name_of_the_local_user() {
    let hash = format!("sha256:{}", "0".repeat(64));
    let config =
        |name: &str| format!(r#"{{"toolgate": {{"http": {{"keys": [{{"name": "{name}", "hash": "{hash}"}}]}}}}}}"#);
    assert!(read(config("locals").into_bytes(), "toolgate.json").is_ok());
    let problems = read(config("local").into_bytes(), "toolgate.json").expect_err("it is the local user's");
    assert!(
        shown(&problems).contains("local is the user of this machine in rules and approvers"),
        "{}",
        shown(&problems)
    );
}

#[test]
fn no_key_has_the_name_of_a_caller_with_a_token() {
    let hash = format!("sha256:{}", "0".repeat(64));
    let config =
        |name: &str| format!(r#"{{"toolgate": {{"http": {{"keys": [{{"name": "{name}", "hash": "{hash}"}}]}}}}}}"#);
    assert!(read(config("oauth").into_bytes(), "toolgate.json").is_ok());
    let problems = read(config("oauth:alice").into_bytes(), "toolgate.json").expect_err("it is that of a token");
    assert!(shown(&problems).contains("names that begin with oauth:"), "{}", shown(&problems));
}

#[test]
fn the_key_for_metrics_is_there_and_is_no_other_key() {
    let hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let check = |http: serde_json::Value, expected: &str| {
        let text = serde_json::json!({"toolgate": {"http": http}}).to_string();
        let problems = read(text.into_bytes(), "toolgate.json").expect_err("refused");
        assert!(shown(&problems).contains(expected), "{}", shown(&problems));
    };
    check(serde_json::json!({"metrics": "key"}), "there is no key for metrics");
    let keys = serde_json::json!([{"name": "a", "hash": hash}]);
    check(serde_json::json!({"keys": keys, "metrics_key": hash}), "this key is one of toolgate.http.keys too");
}

#[test]
fn good_files_mean_what_they_say() {
    for name in ["full.jsonc", "vscode.json", "empty.json"] {
        let file = fixtures("good").into_iter().find(|file| name_of(file) == name).unwrap();
        let checked = read_fixture(&file).unwrap_or_else(|problems| panic!("{}", shown(&problems)));
        insta::assert_debug_snapshot!(format!("good_{name}"), checked);
    }
}

#[test]
fn the_three_formats_say_the_same() {
    for group in ["full", "empty"] {
        let files: Vec<PathBuf> =
            fixtures("good").into_iter().filter(|file| name_of(file).starts_with(group)).collect();
        assert_eq!(files.len(), 3);
        let meanings: Vec<Checked> = files
            .iter()
            .map(|file| read_fixture(file).unwrap_or_else(|problems| panic!("{}", shown(&problems))))
            .map(|checked| Checked { file: PathBuf::new(), ..checked })
            .collect();
        assert_eq!(meanings[0], meanings[1]);
        assert_eq!(meanings[0], meanings[2]);
    }
}

#[test]
fn a_server_has_the_sandbox_that_is_written_and_is_not_started_with_a_wrong_one() {
    let read_server = |server: &str, own: &str| {
        let text = format!(r#"{{"mcpServers": {{"s": {server}}}, "toolgate": {{"backends": {{"s": {own}}}}}}}"#);
        read(text.into_bytes(), "a.json").unwrap_or_else(|problems| panic!("{}", shown(&problems)))
    };
    let sandbox = |server: &str, own: &str| match &read_server(server, own).backends["s"].transport {
        BackendTransport::Stdio(process) => process.sandbox.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(sandbox(r#"{"command": "x"}"#, "{}"), None);
    assert_eq!(sandbox(r#"{"command": "x", "sandbox": false}"#, "{}"), None);
    let usual = sandbox(r#"{"command": "x", "sandbox": true}"#, "{}").unwrap();
    assert!(usual.network && usual.read.is_empty() && usual.write.is_empty());
    assert_eq!(usual.home.as_deref(), Some(Path::new("/home/u/.local/state/toolgate/servers/s")));
    assert_eq!(sandbox(r#"{"command": "x", "sandbox": {}}"#, "{}"), Some(usual.clone()));
    assert_eq!(sandbox(r#"{"command": "x"}"#, r#"{"sandbox": true}"#), Some(usual.clone()));
    let narrow =
        sandbox(r#"{"command": "x", "sandbox": true}"#, r#"{"sandbox": {"network": false, "write": ["~/o"]}}"#);
    assert_eq!(narrow, Some(ServerSandbox { network: false, write: vec!["/home/u/o".into()], ..usual }));
    for wrong in [r#""yes""#, r#"{"writes": ["/x"]}"#, r#"{"memory": "1KB"}"#, r#"{"read": [""]}"#] {
        let text = format!(r#"{{"mcpServers": {{"s": {{"command": "x", "sandbox": {wrong}}}}}}}"#);
        let started = read(text.into_bytes(), "a.json").is_ok_and(|checked| checked.backends.contains_key("s"));
        assert!(!started, "{wrong}");
    }
    let remote = read_server(r#"{"url": "https://example.com/mcp", "sandbox": true}"#, "{}");
    assert!(shown(&remote.warnings).contains("has an effect on stdio servers only"), "{:?}", remote.warnings);
}

#[test]
fn an_api_must_have_a_document_and_a_base() {
    let read_server = |server: &str| {
        let text = format!(r#"{{"mcpServers": {{"pets": {server}}}}}"#);
        let found = read(text.into_bytes(), "a.json").unwrap_or_else(|problems| panic!("{}", shown(&problems)));
        found.incomplete.values().map(|server| shown(&server.problems)).collect::<String>()
    };
    let base = r#""base": "https://pets.example.com""#;
    for (server, expected) in [
        (r#"{"type": "openapi"}"#.to_owned(), "an openapi server must have a spec"),
        (r#"{"type": "openapi", "spec": "a.yaml"}"#.to_owned(), "an openapi server must have a base"),
        (format!(r#"{{"type": "openapi", "spec": "http://[", {base}}}"#), "must be a URL"),
        (r#"{"type": "openapi", "spec": "a.yaml", "base": "ftp://a"}"#.to_owned(), "must be an http or https URL"),
        (format!(r#"{{"type": "openapi", "spec": "a.yaml", {base}, "auth": {{"k": "a\nb"}}}}"#), "control characters"),
        (format!(r#"{{"type": "openapi", "spec": "a.yaml", {base}, "allowHosts": ["a b"]}}"#), "must be a host"),
        (r#"{"url": "https://a.example/mcp", "auth": {"allowHosts": ["a b"]}}"#.to_owned(), "must be a host"),
        (r#"{"url": "https://a.example/mcp", "auth": {"issuer": "as.example"}}"#.to_owned(), "must be a URL"),
    ] {
        let found = read_server(&server);
        assert!(found.contains(expected), "{server}: {found}");
    }
    assert_eq!(
        read_server(&format!(r#"{{"type": "openapi", "spec": "https://pets.example.com/o.json", {base}}}"#)),
        ""
    );
    // The issuer of a login whose endpoints are configured is what its redirects name.
    let login = r#"{"issuer": "https://b.example/t", "tokenUrl": "https://b.example/t", "authorizationUrl": "https://b.example/a"}"#;
    assert_eq!(read_server(&format!(r#"{{"url": "https://a.example/mcp", "auth": {login}}}"#)), "");
}

#[test]
fn no_secret_is_ever_shown() {
    for file in fixtures("good") {
        let checked = read_fixture(&file).unwrap();
        assert!(!format!("{checked:?}").contains("very_secret"), "{}", name_of(&file));
    }
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolgate.json");
    std::fs::write(&file, vec![b' '; 4 * 1024 * 1024 + 1]).unwrap();
    let problems = toolgate_config::load(&file, &env()).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].message, "the file is larger than 4 MB");
}

#[test]
fn deep_nesting_is_refused_in_every_format() {
    for (name, open) in [("a.json", "["), ("a.yaml", "["), ("a.toml", "a=["), ("b.yaml", "- "), ("b.json", "{\"a\":")] {
        let problems = read(open.repeat(100_000).into_bytes(), name).unwrap_err();
        assert_eq!(problems.len(), 1, "{name}");
    }
}

#[test]
fn an_env_file_is_read_and_the_entry_stands_above_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".env"), "# note\nexport A=1\nB='two words'\nC=3 # three\nD=\"#4\"\n\n").unwrap();
    let file = folder.path().join("toolgate.json");
    let text = r#"{"mcpServers": {"a": {"command": "x", "envFile": ".env", "env": {"A": "own"}}}}"#;
    std::fs::write(&file, text).unwrap();
    let checked = toolgate_config::load(&file, &env()).unwrap();
    let toolgate_config::checked::BackendTransport::Stdio(process) = &checked.backends["a"].transport else {
        panic!("a command is a process")
    };
    let shown: Vec<String> = process.env.iter().map(|(name, value)| format!("{name}={}", value.expose())).collect();
    assert_eq!(shown, ["A=own", "B=two words", "C=3", "D=#4"]);
}

#[test]
fn an_env_file_that_makes_no_sense_is_a_problem_of_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".env"), "A=1\nnonsense\n").unwrap();
    let file = folder.path().join("toolgate.json");
    let text = r#"{"mcpServers": {"a": {"command": "x", "envFile": ".env"}, "b": {"command": "x", "envFile": "no"}}}"#;
    std::fs::write(&file, text).unwrap();
    let checked = toolgate_config::load(&file, &env()).unwrap();
    let problems: Vec<&Problem> = checked.incomplete.values().flat_map(|server| &server.problems).collect();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["mcpServers.a.envFile", "mcpServers.b.envFile"]);
    assert!(problems[0].message.ends_with(".env:2: expected NAME=value"), "{}", problems[0].message);
}

fn as_json(file: &Path) -> serde_json::Value {
    let source = Source::open(file).unwrap();
    source.tree().unwrap().to_json()
}

#[test]
fn the_schema_accepts_good_files() {
    let validator = jsonschema::validator_for(&schema::schema()).unwrap();
    for file in fixtures("good") {
        let faults: Vec<String> = validator.iter_errors(&as_json(&file)).map(|error| error.to_string()).collect();
        assert_eq!(faults, Vec::<String>::new(), "{}", name_of(&file));
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let validator = jsonschema::validator_for(&schema::schema()).unwrap();
    let table = [
        r#"{"sandbox": {}}"#,
        r#"{"mcpServers": []}"#,
        r#"{"mcpServers": {"a": {"command": 1}}}"#,
        r#"{"mcpServers": {"a": {"command": "x", "args": "y"}}}"#,
        r#"{"mcpServers": {"a": {"command": "x", "env": {"A": []}}}}"#,
        r#"{"mcpServers": {"a": {"type": "websocket", "url": "https://x"}}}"#,
        r#"{"mcpServers": {"a": {"url": "ftp://x"}}}"#,
        r#"{"mcpServers": {"a": {"command": "x", "disabled": "yes"}}}"#,
        r#"{"toolgate": {"mode": "all"}}"#,
        r#"{"toolgate": {"sandbox": {"engine": "v9"}}}"#,
        r#"{"toolgate": {"sandbox": {"pool": -1}}}"#,
        r#"{"toolgate": {"sandbox": {"pool": 1.5}}}"#,
        r#"{"toolgate": {"sandbox": {"limits": {"chain": {"timeout": "soon"}}}}}"#,
        r#"{"toolgate": {"sandbox": {"limits": {"chain": {"timeout": 0}}}}}"#,
        r#"{"toolgate": {"sandbox": {"limits": {"chain": {"memory": "lots"}}}}}"#,
        r#"{"toolgate": {"output": {"intent": 1}}}"#,
        r#"{"toolgate": {"output": {"chunk_threshold": "5."}}}"#,
        r#"{"toolgate": {"http": {"bind": "here"}}}"#,
        r#"{"toolgate": {"http": {"keys": [{"name": "a", "hash": "sha256:1"}]}}}"#,
        r#"{"toolgate": {"http": {"keys": [{"name": "a", "hash": 1}]}}}"#,
        r#"{"toolgate": {"http": {"allowed_origins": ["x"]}}}"#,
        r#"{"toolgate": {"http": {"allowed_hosts": ["a/b"]}}}"#,
        r#"{"toolgate": {"http": {"metrics": "all"}}}"#,
        r#"{"toolgate": {"http": {"metrics_key": "sha256:1"}}}"#,
        r#"{"mcpServers": {"a": {"command": "x"}}, "toolgate": {"backends": {"a": {"alow": []}}}}"#,
        r#"{"mcpServers": {"a": {"command": "x"}}, "toolgate": {"backends": {"a": {"allow": [""]}}}}"#,
        r#"{"toolgate": {"functions": {"f": {"url": "x"}}}}"#,
        r#"{"toolgate": {"functions": {"f": {"tool": "x"}}}}"#,
        r#"{"toolgate": {"functions": {"f": {"url": "https://x", "method": "BREW"}}}}"#,
        r#"{"toolgate": {"guard": {"allow": ["a b"]}}}"#,
        r#"{"toolgate": {"store": "mysql://x"}}"#,
        r#"{"toolgate": {"engines": {"v9": {}}}}"#,
        r#"{"toolgate": {"weather": {"base_url": 1}}}"#,
        r#"{"toolgate": {"allow_runtime_registration": null}}"#,
        r#"{"toolgate": null}"#,
        r#"[]"#,
    ];
    for text in table {
        // A server, a function or data: only that one is refused.
        let is_of_part = |warning: &Problem| warning.message.contains("is left out");
        let refused = match read(text.as_bytes().to_vec(), "toolgate.json") {
            Ok(checked) => !checked.incomplete.is_empty() || checked.warnings.iter().any(is_of_part),
            Err(_) => true,
        };
        assert!(refused, "the reader takes {text}");
        assert!(!validator.is_valid(&serde_json::from_str(text).unwrap()), "the schema takes {text}");
    }
}

#[test]
fn every_setting_is_described() {
    fn undescribed(schema: &serde_json::Value, path: &str, found: &mut Vec<String>) {
        if let Some(properties) = schema.get("properties").and_then(|properties| properties.as_object()) {
            for (key, inner) in properties {
                let path = format!("{path}.{key}");
                if inner.get("description").and_then(|text| text.as_str()).is_none_or(str::is_empty) {
                    found.push(path.clone());
                }
                undescribed(inner, &path, found);
            }
        }
        for inner in ["additionalProperties", "items"].iter().filter_map(|key| schema.get(key)) {
            undescribed(inner, path, found);
        }
    }
    let mut found = Vec::new();
    undescribed(&schema::schema(), "", &mut found);
    assert_eq!(found, Vec::<String>::new());
}

proptest! {
    #[test]
    fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for name in ["a.json", "a.yaml", "a.toml"] {
            let _ = read(bytes.clone(), name);
        }
    }

    #[test]
    fn no_likely_text_makes_the_readers_panic(
        text in r#"([\[\]{}:,"'#&*!|>%@`?~$ \r\n\t-]|mcpServers|toolgate|command|\$\{|\\u|é|[a-z0-9.=])*"#
    ) {
        for name in ["a.json", "a.yaml", "a.toml"] {
            let _ = read(text.clone().into_bytes(), name);
        }
    }

    #[test]
    fn every_json_value_is_read_as_it_is(value in json_value(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        // Line breaks stand only between tokens, so comments may stand there.
        let text = text.replace('\n', " // comment \" ]\n /* { */ ");
        let source = Source::new(Path::new("a.json"), Format::Json, text);
        prop_assert_eq!(source.tree().unwrap().to_json(), value.clone());
        // JSON is YAML, so the other reader must agree.
        let source = Source::new(Path::new("a.yaml"), Format::Yaml, serde_json::to_string(&value).unwrap());
        prop_assert_eq!(source.tree().unwrap().to_json(), value);
    }
}

fn json_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        (-1e9..1e9f64).prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            proptest::collection::vec(("[a-zA-Z é\"\\\\]{0,6}", inner), 0..6)
                .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    })
}

#[test]
fn a_bad_server_is_incomplete_and_the_others_are_used() {
    let text = r#"{"mcpServers": {
        "good": {"command": "x"},
        "unset": {"command": "x", "env": {"A": "${NOT_SET} ${GITHUB_TOKEN}"}, "args": ["${ALSO_NOT_SET}", "${NOT_SET}"]},
        "file": {"command": "x", "envFile": "/no/such/file"},
        "odd": {"url": "not a url"},
        "type": {"command": 7},
        "none": {},
        "dotted.name": {"url": "${NOT_SET}"},
        "off": {"command": "${NOT_SET}", "disabled": true}
    }, "toolgate": {"functions": {"find": {"tool": "unset.search"}}}}"#;
    let checked = read(text.into(), "toolgate.json").unwrap_or_else(|problems| panic!("{}", shown(&problems)));
    assert_eq!(checked.backends.keys().map(ToString::to_string).collect::<Vec<_>>(), ["good"]);
    let reasons: String =
        checked.incomplete.iter().map(|(name, server)| format!("{name} {}\n", server.reason())).collect();
    insta::assert_snapshot!(reasons, @r"
    dotted.name needs configuration: set NOT_SET
    file needs configuration: /no/such/file: cannot read the file: No such file or directory (os error 2)
    none needs configuration: the server has neither a command nor a url
    odd needs configuration: must be a URL: relative URL without a base
    type needs configuration: the server has neither a command nor a url; must be a string, not a number
    unset needs configuration: set ALSO_NOT_SET, NOT_SET
    ");
    let unset = checked.incomplete.get("unset").unwrap().unset();
    assert_eq!(unset.iter().map(|it| it.name()).collect::<Vec<_>>(), ["ALSO_NOT_SET", "NOT_SET"]);
}

#[test]
fn an_error_outside_of_servers_is_reported_with_theirs() {
    let text = r#"{"mcpServers": {"bad": {"url": "${NOT_SET}"}}, "toolgate": {"backends": {"bad": {"deny": [""]}},
        "functions": {"f": {}}, "audit": {"enabled": "yes"}}}"#;
    let problems = read(text.into(), "toolgate.json").unwrap_err();
    assert_eq!(problems.len(), 4, "{}", shown(&problems));
    assert!(problems.iter().all(|problem| !problem.message.contains("left out")), "{}", shown(&problems));
}

/// Also an error in its settings under `toolgate.backends`, and an entry that is not an object.
#[test]
fn an_error_of_one_server_is_its_state_wherever_it_is() {
    let text = r#"{"mcpServers": {
        "good": {"command": "x"}, "null": null, "list": [], "unset": {"command": "x"}, "empty": {"command": "x"},
        "typo": {"command": "x"}, "github": {"command": "x"}, "off": {"command": "x", "disabled": true}
    }, "toolgate": {"backends": {
        "unset": {"timeout": "${NOT_SET}"}, "empty": {"allow": [""]}, "typo": {"alow": []}, "gihub": {"deny": ["*"]},
        "off": {"allow": [""]}
    }}}"#;
    let checked = read(text.into(), "toolgate.json").unwrap_or_else(|problems| panic!("{}", shown(&problems)));
    assert_eq!(checked.backends.keys().map(ToString::to_string).collect::<Vec<_>>(), ["good"]);
    let reasons: String =
        checked.incomplete.iter().map(|(name, server)| format!("{name} {}\n", server.reason())).collect();
    insta::assert_snapshot!(reasons, @r"
    empty needs configuration: toolgate.backends.empty.allow[0]: must not be an empty pattern
    github needs configuration: toolgate.backends.gihub: no server of this name in mcpServers
    list needs configuration: must be an object, not a list
    null needs configuration: must be an object, not null
    typo needs configuration: toolgate.backends.typo.alow: unknown setting
    unset needs configuration: set NOT_SET
    ");
    assert_eq!(shown(&checked.warnings), "");
}

/// A server that was renamed must not start without what hides its tools.
#[test]
fn settings_that_restrict_a_server_that_is_gone_are_an_error_where_another_may_be_meant() {
    let file = |row: &str, other: &str| {
        let text = format!(
            r#"{{"mcpServers": {{"gh": {{"command": "x"}}}}, "toolgate": {{"backends": {{"github": {row}{other}}}}}}}"#
        );
        read(text.into_bytes(), "toolgate.json").is_ok()
    };
    for row in [r#"{"deny": ["delete_*"]}"#, r#"{"allow": ["get_*"]}"#, r#"{"sandbox": {}}"#, r#"{"tools": {}}"#] {
        assert!(!file(row, ""), "{row}");
        assert!(file(row, r#", "gh": {}"#), "{row}");
    }
    assert!(file(r#"{"timeout": "1s"}"#, ""));
}

#[test]
fn what_cannot_be_used_for_itself_is_left_out_with_a_warning() {
    let long = "n".repeat(500);
    let text = r#"{"mcpServers": {
        "good": {"command": "x"}, " x": {"command": 7}, "": null, "LONG": {"command": 7}
    }, "toolgate": {
        "backends": {"removed": {"timeout": "1s", "alow": []}, "god": {"deny": ["*"]}, "good": {}},
        "functions": {
            "fine": {"tool": "good.a"}, "gone": {"tool": "removed.a"}, "bad name": {"tool": "good.a"}, "none": null,
            "head": {"url": "https://example.com", "headers": {"A": "${NOT_SET}"}}
        },
        "data": {"here": {"file": "a.json"}, "there": {"file": "${NOT_SET}"}, "none": 7}
    }}"#;
    let text = text.replace("LONG", &long);
    let checked = read(text.into(), "toolgate.json").unwrap_or_else(|problems| panic!("{}", shown(&problems)));
    assert_eq!(checked.backends.keys().map(ToString::to_string).collect::<Vec<_>>(), ["good"]);
    assert_eq!(checked.settings.functions.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["fine"]);
    assert_eq!(checked.settings.data.keys().collect::<Vec<_>>(), ["here"]);
    assert!(checked.incomplete.is_empty());
    insta::assert_snapshot!(shown(&checked.warnings).replace(&"n".repeat(389), "N"), @r#"
    toolgate.json:2:35: warning: mcpServers[" x"]: the name of a server must not contain control characters, nor begin or end with white space; the server is left out
    toolgate.json:2:53: warning: mcpServers[" x"].command: must be a string, not a number; the server is left out
    toolgate.json:2:57: warning: mcpServers[""]: the name of a server must not be empty; the server is left out
    toolgate.json:2:61: warning: mcpServers[""]: must be an object, not null; the server is left out
    toolgate.json:2:67: warning: mcpServers.N…: the name of a server must not exceed 200 characters; the server is left out
    toolgate.json:2:583: warning: mcpServers.N…: must be a string, not a number; the server is left out
    toolgate.json:4:22: warning: toolgate.backends.removed: no server of this name in mcpServers; these settings have no effect
    toolgate.json:4:51: warning: toolgate.backends.removed.alow: unknown setting; these settings have no effect
      help: did you mean allow?
    toolgate.json:4:64: warning: toolgate.backends.god: no server of this name in mcpServers; these settings have no effect
      help: did you mean good?
    toolgate.json:6:58: warning: toolgate.functions.gone.tool: the server of this tool is not in mcpServers; the function is left out
      help: write the tool as server.tool
    toolgate.json:6:72: warning: toolgate.functions["bad name"]: the name of a function must consist of at most 100 letters, digits, _ and $, and must not begin with a digit; it may follow `api.`; the function is left out
      help: choose another name
    toolgate.json:6:112: warning: toolgate.functions.none: must be an object, not null; the function is left out
    toolgate.json:7:69: warning: toolgate.functions.head.headers.A: the environment variable NOT_SET is not set; the function is left out
      help: set NOT_SET, or give a default: ${NOT_SET:-default}
    toolgate.json:9:64: warning: toolgate.data.there.file: the environment variable NOT_SET is not set; the data is left out
      help: set NOT_SET, or give a default: ${NOT_SET:-default}
    toolgate.json:9:87: warning: toolgate.data.none: must be an object, not a number; the data is left out
    "#);
}

#[test]
fn keys_policy_and_audit_are_used_as_they_are_written_or_not_at_all() {
    for wrong in [
        r#""http": {"keys": [{"name": "a", "hash": "${NOT_SET}"}]}"#,
        r#""policy": [{"tool": "x"}]"#,
        r#""audit": {"enabled": true, "file": "${NOT_SET}"}"#,
        r#""backends": []"#,
        r#""functions": 7"#,
    ] {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "x"}}}}, "toolgate": {{{wrong}}}}}"#);
        assert!(read(text.into_bytes(), "toolgate.json").is_err(), "{wrong}");
    }
}

#[cfg(unix)]
#[test]
fn a_command_is_run_only_where_it_is_allowed_and_servers_are_started() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let config = |allowed: bool| {
        let line = format!("touch {}; echo s3cret", mark.display());
        let server = serde_json::json!({"command": "x", "env": {"TOKEN": format!("Bearer ${{cmd:{line}}}")}});
        serde_json::json!({"mcpServers": {"a": server}, "toolgate": {"secrets": {"commands": allowed}}}).to_string()
    };
    let read = |allowed: bool, env: Env| {
        let source = Source::new(Path::new("toolgate.json"), Format::Json, config(allowed));
        check(source, &env).unwrap_or_else(|problems| panic!("{}", shown(&problems)))
    };
    for (allowed, env) in [(false, env().running_commands()), (true, env()), (false, env())] {
        let reason = read(allowed, env).incomplete.get("a").unwrap().reason();
        assert!(reason.contains("${cmd:…}") && !mark.exists(), "{reason}");
        assert_eq!(reason.contains("`toolgate.secrets.commands: true` allows it"), !allowed, "{reason}");
    }
    let checked = read(true, env().running_commands());
    let toolgate_config::checked::BackendTransport::Stdio(process) = &checked.backends.get("a").unwrap().transport
    else {
        panic!("a process")
    };
    assert_eq!(process.env.get("TOKEN").unwrap().expose(), "Bearer s3cret");
}

#[test]
fn the_pattern_with_the_most_letters_says_what_a_tool_does() {
    let text = r#"{"mcpServers": {"s": {"command": "x"}}, "toolgate": {"backends": {"s": {"tools": {
        "get_all": {"read_only": false}, "*": {"open_world": false, "idempotent": false}, "get_*": {"read_only": true, "idempotent": true}
    }}}}}"#;
    let checked = read(text.into(), "toolgate.json").unwrap_or_else(|problems| panic!("{}", shown(&problems)));
    let policy = &checked.backends["s"].policy;
    let of =
        |tool: &str| policy.traits_of(tool).hints().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>();
    assert_eq!(of("get_one"), ["readOnlyHint true", "idempotentHint true", "openWorldHint false"]);
    assert_eq!(of("get_all"), ["readOnlyHint false", "idempotentHint true", "openWorldHint false"]);
    assert_eq!(of("set"), ["idempotentHint false", "openWorldHint false"]);
    for (tools, problem) in [
        (r#"{"x": {"read_only": true, "destructive": true}}"#, "cannot be destructive"),
        (r#"{"": {}}"#, "must not be an empty pattern"),
        (r#"{"x": {"readOnly": true}}"#, "did you mean read_only?"),
    ] {
        let text = format!(
            r#"{{"mcpServers": {{"s": {{"command": "x"}}}}, "toolgate": {{"backends": {{"s": {{"tools": {tools}}}}}}}}}"#
        );
        let checked =
            read(text.into_bytes(), "toolgate.json").unwrap_or_else(|problems| panic!("{}", shown(&problems)));
        assert!(checked.backends.is_empty(), "it is not started");
        let problems = shown(&checked.incomplete["s"].problems);
        assert!(problems.contains(problem), "{problems}");
    }
}

#[test]
fn a_more_specific_pattern_replaces_what_contradicts_it() {
    let text = r#"{"mcpServers": {"s": {"command": "x"}}, "toolgate": {"backends": {"s": {"tools": {
        "*": {"destructive": true}, "get_user": {"read_only": true}, "list_*": {"read_only": true}, "list_and_clear": {"destructive": true}
    }}}}}"#;
    let checked = read(text.into(), "toolgate.json").unwrap_or_else(|problems| panic!("{}", shown(&problems)));
    let policy = &checked.backends["s"].policy;
    let of = |tool: &str| policy.traits_of(tool).hints().collect::<Vec<_>>();
    assert_eq!(of("set_user"), [("destructiveHint", true)]);
    assert_eq!(of("get_user"), [("readOnlyHint", true)]);
    assert_eq!(of("list_users"), [("readOnlyHint", true)]);
    assert_eq!(of("list_and_clear"), [("destructiveHint", true)]);
}

/// Also of a server that cannot be started.
#[test]
fn the_secrets_of_a_configuration_are_known() {
    let text = r#"{"mcpServers": {
        "local": {"command": "x", "args": ["--api-key", "opensesame"], "env": {"LEVEL": "debugging", "DB_PASSWORD": "letmein1"}},
        "remote": {"url": "https://u:pa55word@example.com/mcp?key=querykey", "headers": {"X-Api-Key": "headerkey"}},
        "unset": {"command": "x", "env": {"A": "${NOT_SET}", "TOKEN": "of-one-that-is-not-started"}},
        "api": {"type": "openapi", "spec": "./a.yaml", "base": "https://example.com", "auth": {"basic": "ann:passphrase"}}
    }, "toolgate": {
        "runs": {"webhook_secret": "webhook words"},
        "functions": {"price": {"url": "https://example.com/", "headers": {"Authorization": "Bearer functiontoken"}}}
    }}"#;
    let checked = read(text.into(), "toolgate.json").unwrap_or_else(|problems| panic!("{}", shown(&problems)));
    let secrets: Vec<&str> = checked.secrets.iter().collect();
    let expected = [
        "ann:passphrase",
        "functiontoken",
        "headerkey",
        "letmein1",
        "of-one-that-is-not-started",
        "opensesame",
        "pa55word",
        "passphrase",
        "querykey",
        "webhook words",
    ];
    assert_eq!(secrets, expected);
    assert!(!format!("{checked:?}").contains("passphrase"), "never shown");
}
