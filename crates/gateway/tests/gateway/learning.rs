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
    let expected = "Promise<{ id: number; mail: string /* email */; tags: string[]; title: string }>";
    let about = world.text("tool_info", json!({ "tool_name": "f.echo" })).await;
    assert!(about.contains(&format!("{expected} // learned from 3 results")), "{about}");
    let hits = world.text("search_tools", json!({ "task_description": "echo", "limit": 1 })).await;
    assert!(hits.starts_with("f.echo()") && hits.ends_with("// learned from 3 results"), "{hits}");
    world.gateway.shut_down().await;

    // Kept, without values.
    let kept: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .flat_map(|entry| walk(entry.unwrap().path()))
        .filter(|path| is_kept(path))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(kept.len(), 1, "one file");
    assert!(kept[0].contains("title") && !kept[0].contains("canary"), "{}", kept[0]);
    let again = learned_world(&folder, json!({})).await;
    assert_eq!(again.gateway.learned_types().get("f", "echo").map(|learned| learned.results()), Some(3));
    again.gateway.shut_down().await;
}

#[tokio::test]
async fn a_failure_at_a_key_that_no_result_had_is_told_the_keys_that_results_have() {
    let world = learned_world(&Arc::new(tempfile::tempdir().unwrap()), json!({})).await;
    let failing = "const r = await f.echo({ id: 1 }); return r.titel.length";
    let before = world.chain(failing).await.to_string();
    assert!(before.contains("RUNTIME") && !before.contains("title"), "nothing was learned: {before}");
    for _ in 0..3 {
        world.chain(&format!("const q = {ISSUE}; return await f.echo(q)")).await;
    }
    let gateway = Arc::clone(&world.gateway);
    tokio::task::spawn_blocking(move || gateway.save_learned_types()).await.unwrap();
    let told = world.chain(failing).await.to_string();
    assert!(told.contains("RUNTIME") && told.contains("It has") && told.contains("title"), "{told}");
    world.gateway.shut_down().await;
}

/// Whether it is a file of learned types, not the lock beside one.
fn is_kept(path: &std::path::Path) -> bool {
    path.to_string_lossy().contains("learned-") && path.extension().is_some_and(|extension| extension == "json")
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

/// Writes what was observed so far, and takes over what others wrote.
async fn save(world: &World) {
    let gateway = Arc::clone(&world.gateway);
    tokio::task::spawn_blocking(move || gateway.save_learned_types()).await.unwrap();
}

fn results(world: &World, tool: &str) -> Option<u64> {
    world.gateway.learned_types().get("f", tool).map(|learned| learned.results())
}

#[tokio::test]
async fn a_gateway_that_makes_no_calls_learns_from_others() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let idle = learned_world(&folder, json!({})).await;
    let busy = learned_world(&folder, json!({})).await;
    let before = idle.gateway.learned_version();
    for count in [2, 3] {
        for _ in 0..count {
            busy.chain(&format!("const q = {ISSUE}; return await f.echo(q)")).await;
        }
        save(&busy).await;
        save(&idle).await;
        assert_eq!(results(&idle, "echo"), results(&busy, "echo"));
    }
    assert_eq!(results(&idle, "echo"), Some(5));
    assert!(idle.gateway.learned_version() > before, "the type check sees it too");
    // A file that is gone takes nothing away.
    for path in walk(folder.path().to_owned()).into_iter().filter(|path| is_kept(path)) {
        std::fs::remove_file(path).unwrap();
    }
    save(&idle).await;
    assert_eq!(results(&idle, "echo"), Some(5));
    idle.gateway.shut_down().await;
    busy.gateway.shut_down().await;
}

#[tokio::test]
async fn a_type_that_becomes_wider_is_told() {
    let world = learned_world(&Arc::new(tempfile::tempdir().unwrap()), json!({})).await;
    let mut widened = world.gateway.widened_types().unwrap();
    for value in ["{ id: 7 }", "{ id: 8 }", "{ id: null }"] {
        world.chain(&format!("const q = {value}; return await f.echo(q)")).await;
    }
    save(&world).await;
    let told = widened.try_recv().unwrap();
    assert_eq!((told.backend.as_str(), told.tool.as_str(), told.results), ("f", "echo", 3));
    assert!(widened.try_recv().is_err(), "the first result and one that fits widen nothing");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn two_gateways_that_learn_at_one_time_lose_nothing() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let (one, two) = (learned_world(&folder, json!({})).await, learned_world(&folder, json!({})).await);
    for _ in 0..3 {
        for world in [&one, &two] {
            world.chain(&format!("const q = {ISSUE}; return await f.echo(q)")).await;
        }
        tokio::join!(save(&one), save(&two));
    }
    tokio::join!(save(&one), save(&two));
    assert_eq!((results(&one, "echo"), results(&two, "echo")), (Some(6), Some(6)));
    one.gateway.shut_down().await;
    two.gateway.shut_down().await;
}

/// A world whose server has a tool `fresh` with this output schema.
async fn world_with_result(schema: serde_json::Value) -> World {
    let world = learned_world(&Arc::new(tempfile::tempdir().unwrap()), json!({})).await;
    let mut news = world.gateway.bridge().catalog_handle().subscribe();
    let grown = json!({ "name": "fresh", "outputSchema": schema });
    world.chain(&format!("return await f.grow({grown})")).await;
    news.wait_for(|catalog| catalog.tools().any(|tool| tool.tool().name == "fresh")).await.unwrap();
    world
}

#[tokio::test]
async fn a_schema_that_says_nothing_does_not_keep_results_from_being_learned() {
    for schema in [json!({}), json!({ "type": "object" }), json!({ "type": "object", "additionalProperties": true })] {
        let world = world_with_result(schema.clone()).await;
        for _ in 0..3 {
            world.chain("const q = { id: 7 }; return await f.fresh(q)").await;
        }
        save(&world).await;
        let expected = "Promise<{ id: number }> // learned from 3 results";
        let about = world.text("tool_info", json!({ "tool_name": "f.fresh", "detail": "full" })).await;
        assert!(about.contains(expected), "{schema}: {about}");
        let hits = world.text("search_tools", json!({ "task_description": "fresh", "limit": 1 })).await;
        assert!(hits.contains(": Promise<{ id: number }>") && !hits.contains("unknown"), "{schema}: {hits}");
        // After a failure the keys are named.
        let report = world
            .call("call_tool_chain", json!({ "code": "const r = await f.fresh({ id: 7 });\nreturn r.idd.length" }))
            .await;
        assert!(report.to_string().contains("Did you mean `id`?"), "{schema}: {report}");
        world.gateway.shut_down().await;
    }
}

#[tokio::test]
async fn a_result_that_breaks_its_declared_schema_is_told() {
    let number = json!({ "type": "object", "properties": { "id": { "type": "number" } } });
    let world = world_with_result(number).await;
    let note = toolgate_catalog::types::BREAKS_ITS_SCHEMA;
    let about = async || world.text("tool_info", json!({ "tool_name": "f.fresh" })).await;
    world.chain("const q = { id: 7 }; return await f.fresh(q)").await;
    save(&world).await;
    assert!(!about().await.contains(note));
    let before = world.gateway.learned_version();
    world.chain("const q = { id: 'canary-5d1e' }; return await f.fresh(q)").await;
    save(&world).await;
    let told = about().await;
    assert!(told.contains(note) && !told.contains("canary"), "{told}");
    assert!(world.gateway.learned_version() > before, "programs are checked by the schema no more");
    assert!(world.gateway.learned_types().get("f", "fresh").is_none(), "what is declared is not learned");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn what_was_learned_of_a_backend_that_is_left_out_is_forgotten() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let world = learned_world(&folder, json!({})).await;
    for _ in 0..3 {
        world.chain(&format!("const q = {ISSUE}; return await f.echo(q)")).await;
    }
    save(&world).await;
    let kept = || {
        let files = walk(folder.path().to_owned()).into_iter().filter(|path| is_kept(path));
        files.map(|path| std::fs::read_to_string(path).unwrap()).collect::<String>()
    };
    assert!(kept().contains("title"), "{}", kept());
    let exported = world.gateway.learned_types();
    let before = world.gateway.learned_version();
    let settings = json!({ "backends": { "f": { "learn_types": false } } });
    world.gateway.reload(world.config(json!({ "f": fixture(&[]) }), settings)).await;
    assert!(world.gateway.learned_types().is_empty(), "nothing is shown or exported");
    assert!(world.gateway.learned_version() > before, "the type check sees it too");
    save(&world).await;
    assert!(!kept().contains("title"), "{}", kept());
    // What another gateway learned of it is not taken in.
    world.gateway.merge_learned_types((*exported).clone());
    save(&world).await;
    assert!(world.gateway.learned_types().is_empty() && !kept().contains("title"), "{}", kept());
    world.gateway.shut_down().await;
}
