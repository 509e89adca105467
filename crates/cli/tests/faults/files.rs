//! Files of a home that are damaged, and a home that two gateways share.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::client::{COUNT, User};

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// A user whose gateway has written what it writes: caches, a log, an audit log, durable runs, learned types.
fn experienced() -> User {
    let user = User::new();
    user.configure(&json!({ "audit": { "enabled": true } }));
    let mut client = user.serve();
    let durable = json!({ "name": "call_tool_chain", "arguments": { "code": COUNT, "durable": true } });
    let answer = client.ask("tools/call", durable);
    assert_eq!(answer["content"][0]["text"], json!("20"), "{answer}");
    client.leave();
    user
}

#[test]
fn a_gateway_serves_whatever_is_in_the_files_of_its_home() {
    let user = experienced();
    let files = files_below(&user.home());
    assert!(files.len() > 3, "{files:?}");
    let mut damaged_files = 0;
    for file in files.iter().filter(|file| !is_lock(file)) {
        // A store removes its log when its last user leaves.
        let Ok(whole) = std::fs::read(file) else { continue };
        damaged_files += 1;
        let half = whole[..whole.len() / 2].to_vec();
        for damaged in [Vec::new(), half, b"\0\xff\xfe{\"version\":".repeat(100)] {
            std::fs::write(file, &damaged).expect("written");
            let mut client = user.serve();
            assert_eq!(client.chain(COUNT), "20", "{}", file.display());
            client.leave();
        }
        std::fs::write(file, &whole).expect("written");
    }
    assert!(damaged_files > 3, "{files:?}");
}

fn is_lock(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "lock")
}

#[test]
fn a_damaged_result_is_said_to_be_damaged() {
    let user = User::new();
    let code = "return Array.from({ length: 20_000 }, (_, i) => ({ i, name: 'n' + i }))";
    let (_, stdout, stderr) = user.run_program(code, &["--intent", "n7", "--max-output", "2KB"]);
    let id =
        stdout.split_whitespace().find(|word| word.starts_with("res_")).unwrap_or_else(|| panic!("{stdout}{stderr}"));
    let file = files_below(&user.home()).into_iter().find(|file| file.to_string_lossy().contains(id)).expect("a file");
    let whole = std::fs::read(&file).expect("readable");
    for damaged in [Vec::new(), whole[..whole.len() / 2].to_vec(), b"\0\xff\xfe".to_vec()] {
        std::fs::write(&file, damaged).expect("written");
        let (code, stdout, stderr) = user.run(&["result", id]);
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains(id), "{stderr}");
    }
}

#[test]
fn two_gateways_share_a_home() {
    let user = User::new();
    user.configure(&json!({ "audit": { "enabled": true } }));
    let mut clients = [user.serve(), user.serve()];
    for _ in 0..5 {
        for client in &mut clients {
            let durable = json!({ "name": "call_tool_chain", "arguments": { "code": COUNT, "durable": true } });
            let answer = client.ask("tools/call", durable);
            assert_eq!(answer["content"][0]["text"], json!("20"), "{answer}");
            assert_eq!(client.chain(COUNT), "20");
        }
    }
    for client in clients {
        client.leave();
    }
    let (code, stdout, stderr) = user.run(&["audit", "verify"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let cache = files_below(&user.home().join(".cache"));
    assert!(!cache.is_empty());
    for file in cache.iter().filter(|file| file.extension().is_some_and(|extension| extension == "json")) {
        let text = std::fs::read(file).expect("readable");
        assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok(), "{}", file.display());
    }
}
