//! Types of results that tools do not declare are learned, shown and kept; values are not.

use std::sync::Arc;

use serde_json::json;

use crate::support::{World, fixture};

const ISSUE: &str = "{ id: 7, title: 'canary-3c1f', tags: ['canary-77aa'], mail: 'canary@example.com' }";

async fn learned_world(folder: &Arc<tempfile::TempDir>, settings: serde_json::Value) -> World {
    let world = World::at(Arc::clone(folder), json!({ "f": fixture(&[]) }), settings);
    world.gateway.settled(crate::support::TEST_TIMEOUT, |_| true).await;
    world
}

#[tokio::test]
async fn a_learned_type_is_shown_wherever_types_are() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let world = learned_world(&folder, json!({})).await;
    for _ in 0..3 {
        world.chain(&format!("const q = {ISSUE}; return await f.echo(q)")).await;
    }
    let gateway = Arc::clone(&world.gateway);
    tokio::task::spawn_blocking(move || gateway.save_learned_types()).await.unwrap();
    let expected = "Promise<{ id: number; mail: string; tags: string[]; title: string }>";
    let about = world.text("tool_info", json!({ "tool_name": "f.echo" })).await;
    assert!(about.contains(&format!("{expected} // learned from 3 results")), "{about}");
    let hits = world.text("search_tools", json!({ "task_description": "echo", "limit": 1 })).await;
    assert!(hits.starts_with("f.echo()") && hits.ends_with("// learned from 3 results"), "{hits}");
    world.gateway.shut_down().await;

    // Kept, without values.
    let kept: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .flat_map(|entry| walk(entry.unwrap().path()))
        .filter(|path| path.to_string_lossy().contains("learned-"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(kept.len(), 1, "one file");
    assert!(kept[0].contains("title") && !kept[0].contains("canary"), "{}", kept[0]);
    let again = learned_world(&folder, json!({})).await;
    assert_eq!(again.gateway.learned_types().get("f", "echo").map(|learned| learned.results()), Some(3));
    again.gateway.shut_down().await;
}

fn walk(path: std::path::PathBuf) -> Vec<std::path::PathBuf> {
    if !path.is_dir() {
        return vec![path];
    }
    std::fs::read_dir(path).unwrap().flat_map(|entry| walk(entry.unwrap().path())).collect()
}

#[tokio::test]
async fn nothing_is_learned_of_a_backend_that_is_left_out() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let world = learned_world(&folder, json!({ "backends": { "f": { "learn_types": false } } })).await;
    world.chain("const q = { a: 1 }; return await f.echo(q)").await;
    let gateway = Arc::clone(&world.gateway);
    tokio::task::spawn_blocking(move || gateway.save_learned_types()).await.unwrap();
    assert!(world.gateway.learned_types().is_empty());
    world.gateway.shut_down().await;
}
