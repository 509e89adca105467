//! Learned types of gateways that share a PostgreSQL and no folder.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate_catalog::types::learned::LearnedTypes;

use crate::postgres::Server;
use crate::support::{TEST_TIMEOUT, World, fixture};

const ISSUE: &str = "{ id: 7, title: 'canary-3c1f', tags: ['canary-77aa'], mail: 'canary@example.com' }";

/// A database, by its URL and by the address for statements of the test.
async fn database(server: &mut Server) -> (String, String) {
    let address = server.database().await;
    let part = |name: &str| address.split(name).nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let host = part("host=").replace('/', "%2F");
    (format!("postgres://toolgate@{host}/{}", part("dbname=")), address)
}

fn settings(url: &str, learns: bool) -> Value {
    json!({ "runs": { "store": url }, "backends": { "f": { "learn_types": learns } } })
}

async fn gateway(folder: &Arc<tempfile::TempDir>, settings: Value) -> World {
    let world = World::at(Arc::clone(folder), json!({ "f": fixture(&[]) }), settings);
    world.gateway.settled(TEST_TIMEOUT, |_| true).await;
    world
}

fn folder() -> Arc<tempfile::TempDir> {
    Arc::new(tempfile::tempdir().unwrap())
}

/// Exchanges what was observed so far with the database.
async fn save(world: &World) {
    let gateway = Arc::clone(&world.gateway);
    tokio::task::spawn_blocking(move || gateway.save_learned_types()).await.unwrap();
}

async fn learn(world: &World, times: usize) {
    for _ in 0..times {
        world.chain(&format!("const q = {ISSUE}; return await f.echo(q)")).await;
    }
}

fn results(world: &World) -> Option<u64> {
    world.gateway.learned_types().get("f", "echo").map(|learned| learned.results())
}

/// Saves until so many results are known: a database that is slow, or was gone, may need more than one exchange.
async fn reaches(world: &World, expected: Option<u64>) {
    let deadline = Instant::now() + 2 * TEST_TIMEOUT;
    while results(world) != expected {
        assert!(Instant::now() < deadline, "{:?} results are known, not {expected:?}", results(world));
        save(world).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Everything that the tables of the database hold, as text.
async fn rows(server: &Server, address: &str) -> String {
    let sql = server.sql(address).await;
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
    let mut text = String::new();
    for table in sql.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        for row in sql.query(&format!("SELECT kept::text FROM {table} AS kept"), &[]).await.unwrap() {
            let row: String = row.get(0);
            text += &format!("{table} {row} ");
            // Bytes are shown as hexadecimal digits.
            for bytes in row.split(',').filter_map(|field| field.trim_matches(['"', '(', ')']).strip_prefix("\\\\x")) {
                let byte = |at| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap_or(b'?');
                let bytes: Vec<u8> = (0..bytes.len() / 2).map(|at| byte(2 * at)).collect();
                text += &format!("{} ", String::from_utf8_lossy(&bytes));
            }
            text.push('\n');
        }
    }
    text
}

/// The files of a folder whose names begin so, as text.
fn files(folder: &tempfile::TempDir, begins: &str) -> Vec<String> {
    fn walk(path: std::path::PathBuf) -> Vec<std::path::PathBuf> {
        if !path.is_dir() {
            return vec![path];
        }
        std::fs::read_dir(path).unwrap().flat_map(|entry| walk(entry.unwrap().path())).collect()
    }
    let is_kept = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(begins) && name.ends_with(".json")
    };
    walk(folder.path().to_owned())
        .into_iter()
        .filter(is_kept)
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_gateway_learns_another_one_shows() {
    let mut server = Server::start().await;
    let (url, address) = database(&mut server).await;
    let folders = [folder(), folder()];
    let one = gateway(&folders[0], settings(&url, true)).await;
    let two = gateway(&folders[1], settings(&url, true)).await;
    let before = two.gateway.learned_version();
    learn(&one, 3).await;
    reaches(&one, Some(3)).await;
    reaches(&two, Some(3)).await;
    assert!(two.gateway.learned_version() > before, "the type check sees it too");
    let about = two.text("tool_info", json!({ "tool_name": "f.echo" })).await;
    let expected = "Promise<{ id: number; mail: string /* email */; tags: string[]; title: string }>";
    assert!(about.contains(&format!("{expected} // learned from 3 results")), "{about}");
    // Both at one time, and neither loses or doubles anything.
    for _ in 0..3 {
        tokio::join!(learn(&one, 2), learn(&two, 1));
        tokio::join!(save(&one), save(&two));
    }
    reaches(&one, Some(12)).await;
    reaches(&two, Some(12)).await;
    // The database and the copies of it have names of fields and no values.
    let kept = rows(&server, &address).await;
    assert!(kept.contains("toolgate_learned_types") && kept.contains("title"), "{kept}");
    assert!(!kept.contains("canary"), "{kept}");
    for folder in &folders {
        let copy = files(folder, "shared-types-");
        assert!(copy.len() == 1 && copy[0].contains("title") && !copy[0].contains("canary"), "{copy:?}");
        assert_eq!(files(folder, "learned-"), [""; 0], "the database has everything");
    }
    one.gateway.shut_down().await;
    two.gateway.shut_down().await;
    // A new replica knows it in a moment.
    let three = gateway(&folder(), settings(&url, true)).await;
    reaches(&three, Some(12)).await;
    three.gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_out_is_forgotten_in_the_database_and_by_other_gateways() {
    let mut server = Server::start().await;
    let (url, address) = database(&mut server).await;
    let folders = [folder(), folder()];
    let one = gateway(&folders[0], settings(&url, true)).await;
    let two = gateway(&folders[1], settings(&url, true)).await;
    learn(&one, 3).await;
    reaches(&one, Some(3)).await;
    reaches(&two, Some(3)).await;
    one.gateway.reload(one.config(json!({ "f": fixture(&[]) }), settings(&url, false))).await;
    assert_eq!(results(&one), None, "at once");
    learn(&one, 1).await;
    reaches(&two, None).await;
    let kept = rows(&server, &address).await;
    assert!(!kept.contains("title"), "{kept}");
    assert!(
        files(&folders[0], "shared-types-")
            .iter()
            .chain(&files(&folders[1], "shared-types-"))
            .all(|it| !it.contains("title"))
    );
    // One that still learns of it is not hindered, and does not teach the other one.
    learn(&two, 2).await;
    reaches(&two, Some(2)).await;
    save(&one).await;
    assert_eq!(results(&one), None);
    two.gateway.shut_down().await;
    // Learned again once it is wanted: what the others have is read anew.
    one.gateway.reload(one.config(json!({ "f": fixture(&[]) }), settings(&url, true))).await;
    reaches(&one, Some(2)).await;
    one.gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_gone_costs_nothing_and_gets_what_was_learned_meanwhile() {
    let mut server = Server::start().await;
    let (url, _) = database(&mut server).await;
    let folders = [folder(), folder()];
    let one = gateway(&folders[0], settings(&url, true)).await;
    learn(&one, 3).await;
    reaches(&one, Some(3)).await;
    server.kill();
    learn(&one, 1).await;
    // It fails, and the next one does not ask the database.
    save(&one).await;
    save(&one).await;
    assert_eq!(results(&one), Some(4));
    assert!(files(&folders[0], "learned-")[0].contains("title"), "kept in the file meanwhile");
    one.gateway.shut_down().await;
    // A start knows what the copy and the file have, and does not wait for the database.
    let one = gateway(&folders[0], settings(&url, true)).await;
    assert_eq!(results(&one), Some(4));
    learn(&one, 1).await;
    save(&one).await;
    server.start_again().await;
    // Both have it once the database is back; the gateways ask again by themselves.
    let two = gateway(&folders[1], settings(&url, true)).await;
    reaches(&two, Some(5)).await;
    reaches(&one, Some(5)).await;
    assert_eq!(files(&folders[0], "learned-"), [""; 0], "nothing waits in the file any more");
    one.gateway.shut_down().await;
    two.gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_hold_no_type_are_ignored_and_written_anew() {
    let mut server = Server::start().await;
    let (url, address) = database(&mut server).await;
    let one = gateway(&folder(), settings(&url, true)).await;
    learn(&one, 3).await;
    reaches(&one, Some(3)).await;
    one.gateway.shut_down().await;
    let sql = server.sql(&address).await;
    let deep = format!("{}{}", r#"{"version":1,"results":9,"shape":"#, r#"{"items":"#.repeat(5_000));
    let wide =
        json!({ "version": 1, "results": 9, "shape": { "objects": 9, "fields": { "canary 5f1d": { "present": 9 } } } });
    for (tool, shape) in [
        ("echo", "{".to_owned()),
        ("order", deep),
        ("other", r#"{"version":1,"results":9,"shape":{"strings":"canary"}}"#.to_owned()),
        ("text", "null".to_owned()),
        ("wide", wide.to_string()),
        ("many", r#"{"version":1,"results":18446744073709551615,"shape":{"strings":18446744073709551615}}"#.to_owned()),
    ] {
        let text =
            "INSERT INTO toolgate_learned_types VALUES (1, 'f', convert_to($1, 'UTF8'), convert_to($2, 'UTF8'), 1000)
            ON CONFLICT (version, backend, tool) DO UPDATE SET shape = excluded.shape, edition = excluded.edition";
        sql.execute(text, &[&tool, &shape]).await.unwrap();
    }
    sql.batch_execute("UPDATE toolgate_learned_editions SET edition = 1000").await.unwrap();
    let two = gateway(&folder(), settings(&url, true)).await;
    let known = |world: &World| {
        let types = world.gateway.learned_types();
        types.iter().map(|(_, tool, _)| tool.to_owned()).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + TEST_TIMEOUT;
    while known(&two).is_empty() {
        assert!(Instant::now() < deadline, "nothing is read");
        save(&two).await;
    }
    assert_eq!(known(&two), ["many", "wide"], "what is a type is read");
    let exported = two.gateway.learned_types().export().to_string();
    assert!(!exported.contains("canary"), "the rule for keys holds: {exported}");
    // The next result writes the row anew.
    learn(&two, 2).await;
    reaches(&two, Some(2)).await;
    two.gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_learned_before_there_was_a_database_gets_there() {
    let mut server = Server::start().await;
    let (url, _) = database(&mut server).await;
    let folder = folder();
    let alone = gateway(&folder, json!({})).await;
    learn(&alone, 3).await;
    save(&alone).await;
    alone.gateway.shut_down().await;
    let one = gateway(&folder, settings(&url, true)).await;
    assert_eq!(results(&one), Some(3), "known at once");
    let two = gateway(&self::folder(), settings(&url, true)).await;
    reaches(&two, Some(3)).await;
    // What is imported gets there too.
    let mut imported = LearnedTypes::default();
    imported.observe("f", "order", r#"{"a":1}"#).unwrap();
    one.gateway.merge_learned_types(imported);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while two.gateway.learned_types().get("f", "order").is_none() {
        assert!(Instant::now() < deadline, "it does not get there");
        tokio::join!(save(&one), save(&two));
    }
    one.gateway.shut_down().await;
    two.gateway.shut_down().await;
}
