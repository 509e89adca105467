//! Learned types of several replicas in one PostgreSQL: nothing is lost, and what is read is bounded whatever the rows are.

#[path = "support/postgres.rs"]
#[allow(dead_code, reason = "the tests of the stores use the rest")]
mod postgres;

use std::collections::BTreeMap;

use postgres::Server;
use toolgate_journal::store::StoreError;
use toolgate_journal::store::postgres::learned_types::{
    ChangedTypes, KeptShape, LearnedTypeTable, MAX_ALL_BYTES, MAX_NAME_BYTES, MAX_TYPE_BYTES, MAX_TYPES, ToolName,
};

const VERSION: u32 = 1;

fn tool(name: &str) -> ToolName {
    ("b".to_owned(), name.to_owned())
}

/// A shape that counts: what is there, and one more.
fn one_more(kept: KeptShape<'_>) -> String {
    (kept.shape.and_then(|shape| shape.parse::<u64>().ok()).unwrap_or_default() + 1).to_string()
}

async fn table(address: &str) -> LearnedTypeTable {
    LearnedTypeTable::connect(address, VERSION).await.expect("a table")
}

fn shown(changed: &ChangedTypes) -> BTreeMap<&str, &str> {
    changed.rows.iter().map(|row| (row.tool.1.as_str(), row.shape.as_str())).collect()
}

const WRITERS: usize = 6;
const ROUNDS: u64 = 25;

async fn write(address: String, writer: usize) {
    let table = table(&address).await;
    // In different orders: two writers never wait for each other in a circle.
    let mut tools = vec![tool("x"), tool("y"), tool("z")];
    tools.rotate_left(writer % 3);
    for _ in 0..ROUNDS {
        table.merge(&tools, one_more).await.expect("merged");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_write_at_one_time_lose_nothing() {
    let mut server = Server::start().await;
    let address = server.database().await;
    let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(address.clone(), writer))).collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
    let all = table(&address).await.changed_since(0).await.expect("read");
    let total = (WRITERS as u64 * ROUNDS).to_string();
    assert_eq!(shown(&all), BTreeMap::from([("x", &*total), ("y", &total), ("z", &total)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_gets_what_has_changed() {
    let mut server = Server::start().await;
    let address = server.database().await;
    let (one, two) = (table(&address).await, table(&address).await);
    let empty = two.changed_since(0).await.expect("read");
    assert_eq!((empty.edition, empty.is_whole, empty.rows.len()), (0, true, 0));
    one.merge(&[tool("x"), tool("y")], one_more).await.expect("merged");
    let first = two.changed_since(0).await.expect("read");
    assert_eq!(shown(&first), BTreeMap::from([("x", "1"), ("y", "1")]));
    assert_eq!(two.changed_since(first.edition).await.expect("read").rows, [], "nothing is new");
    one.merge(&[tool("y")], one_more).await.expect("merged");
    let second = two.changed_since(first.edition).await.expect("read");
    assert_eq!((shown(&second), second.is_whole), (BTreeMap::from([("y", "2")]), false));
    // Another release has rows of its own.
    let other = LearnedTypeTable::connect(&address, VERSION + 1).await.expect("a table");
    other.merge(&[tool("x")], one_more).await.expect("merged");
    assert_eq!(shown(&other.changed_since(0).await.expect("read")), BTreeMap::from([("x", "1")]));
    // What is forgotten is forgotten by all of them, and a reader is told.
    one.merge(&[("c".to_owned(), "z".to_owned())], one_more).await.expect("merged");
    one.forget(&["b".to_owned()]).await.expect("forgotten");
    let third = two.changed_since(second.edition).await.expect("read");
    assert_eq!((shown(&third), third.is_whole), (BTreeMap::from([("z", "1")]), true));
    assert_eq!(other.changed_since(1).await.expect("read").rows, []);
    one.forget(&["b".to_owned()]).await.expect("forgotten");
    let fourth = two.changed_since(third.edition).await.expect("read");
    assert_eq!((fourth.edition, fourth.is_whole), (third.edition, false), "nothing was there to be forgotten");
    server.kill();
    assert!(matches!(two.changed_since(0).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(one.merge(&[tool("x")], one_more).await, Err(StoreError::Unavailable(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_another_program_are_bounded_and_left_out() {
    let mut server = Server::start().await;
    let address = server.database().await;
    let table = table(&address).await;
    // Names and shapes are bytes: no encoding of a database refuses them.
    table.merge(&[tool("a\0b"), tool("ü⟧")], one_more).await.expect("merged");
    table.merge(&[tool(&"n".repeat(MAX_NAME_BYTES + 1)), tool("x")], one_more).await.expect("merged");
    assert_eq!(table.changed_since(0).await.expect("read").rows.len(), 3, "a name that is too long has no row");
    let sql = server.sql(&address).await;
    let too_long = MAX_TYPE_BYTES + 1;
    sql.batch_execute(&format!(
        "INSERT INTO toolgate_learned_types VALUES
            ({VERSION}, 'b', 'huge', convert_to(repeat('x', {too_long}), 'UTF8'), 100),
            ({VERSION}, 'b', 'no text', '\\xff00ff', 100),
            ({VERSION}, '\\xff', 'no name', '1', 100),
            ({VERSION}, 'b', convert_to(repeat('n', {MAX_NAME_BYTES} + 1), 'UTF8'), '1', 100);
         UPDATE toolgate_learned_editions SET edition = 100"
    ))
    .await
    .expect("rows");
    let changed = table.changed_since(1).await.expect("read");
    assert!(changed.rows.iter().all(|row| row.shape.len() < 9), "{changed:?}");
    assert_eq!(changed.rows.len(), 1, "x, which is newer: {changed:?}");
    // One that cannot be read is written anew.
    let mut seen = Vec::new();
    let broken = [tool("huge"), tool("no text")];
    let merged = table.merge(&broken, |kept| {
        seen.push((kept.tool.1.clone(), kept.shape.map(str::to_owned)));
        "7".to_owned()
    });
    merged.await.expect("merged");
    assert_eq!(seen, [("huge".to_owned(), None), ("no text".to_owned(), None)]);
    assert_eq!(shown(&table.changed_since(100).await.expect("read")).get("huge"), Some(&"7"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_has_so_many_rows_and_bytes_and_no_more() {
    let mut server = Server::start().await;
    let address = server.database().await;
    let table = table(&address).await;
    let tools: Vec<ToolName> = (0..MAX_TYPES + 5).map(|number| tool(&format!("t{number:05}"))).collect();
    table.merge(&tools, one_more).await.expect("merged");
    let all = table.changed_since(0).await.expect("read");
    assert_eq!(all.rows.len(), MAX_TYPES);
    // Those that are there still change.
    table.merge(&tools[..1], one_more).await.expect("merged");
    assert_eq!(shown(&table.changed_since(all.edition).await.expect("read")), BTreeMap::from([("t00000", "2")]));
    // Rows that others wrote above the bound are not read.
    let sql = server.sql(&address).await;
    let more = "INSERT INTO toolgate_learned_types
        SELECT 1, 'c', convert_to(n::text, 'UTF8'), '1', 1000 FROM generate_series(1, 100) AS n;
        UPDATE toolgate_learned_editions SET edition = 1000";
    sql.batch_execute(more).await.expect("rows");
    assert_eq!(table.changed_since(0).await.expect("read").rows.len(), MAX_TYPES);
    // As many of the largest shapes as fit; then there is no room for another one.
    sql.batch_execute("DELETE FROM toolgate_learned_types").await.expect("deleted");
    let most = MAX_ALL_BYTES / MAX_TYPE_BYTES;
    sql.batch_execute(&format!(
        "INSERT INTO toolgate_learned_types
            SELECT 1, 'd', convert_to(n::text, 'UTF8'), convert_to(repeat('x', {MAX_TYPE_BYTES}), 'UTF8'), 1001
            FROM generate_series(1, {most} + 3) AS n;
         UPDATE toolgate_learned_editions SET edition = 1001"
    ))
    .await
    .expect("rows");
    let all = table.changed_since(0).await.expect("read");
    assert_eq!(all.rows.len(), most);
    let mut room = None;
    let new = [tool("new")];
    let merged = table.merge(&new, |kept| {
        room = Some(kept.room);
        "1".to_owned()
    });
    merged.await.expect("merged");
    assert_eq!(room, Some(0));
    assert_eq!(table.changed_since(all.edition).await.expect("read").rows, []);
}
