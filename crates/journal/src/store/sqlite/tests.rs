//! What only this store does: how it finds a run, and when it is synchronous.

use super::*;

#[test]
fn one_run_is_found_by_its_key() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(&folder.path().join("runs.db")).expect("a store");
    let find = Find { run: Some("run".into()), most: 1, ..Find::default() };
    let filter = find_filter(&find);
    let text = format!("EXPLAIN QUERY PLAN SELECT {RUN_COLUMNS} FROM toolgate_runs WHERE {filter}");
    let connection = store.0.lock();
    let values = params![None::<&str>, None::<&str>, "run", None::<i64>, None::<&str>, 1];
    let plan: String = connection.query_row(&text, values, |row| row.get(3)).expect("a plan");
    assert!(plan.starts_with("SEARCH toolgate_runs USING INDEX") && plan.contains("(run=?)"), "{plan}");
}

#[tokio::test]
async fn what_follows_a_lease_is_synchronous_again() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(&folder.path().join("runs.db")).expect("a store");
    let synchronous =
        || -> i64 { store.0.lock().pragma_query_value(None, "synchronous", |row| row.get(0)).expect("a setting") };
    const FULL: i64 = 2;
    assert_eq!(synchronous(), FULL);
    let new = NewRun {
        run: "run".into(),
        caller: String::new(),
        idempotency: None,
        owner: "one".into(),
        ttl: Duration::from_secs(60),
        max_open: 1,
        max_open_bytes: u64::MAX,
        rows: Rows::default(),
    };
    let Ok(Begun::New(lease)) = store.begin(new).await else { panic!("it is new") };
    store.leave(lease, Leave::Paused { calls: Vec::new(), wake: None }).await.expect("paused");
    let claim = Claim {
        run: Some("run".into()),
        owner: "one".into(),
        ttl: Duration::from_secs(60),
        not_of: Vec::new(),
        held: Vec::new(),
    };
    assert!(store.claim(claim).await.expect("a claim").is_some());
    assert_eq!(synchronous(), FULL);
    assert_eq!(store.heartbeat("one", vec!["run".into()], Duration::from_secs(60)).await.expect("a beat").len(), 1);
    assert_eq!(synchronous(), FULL);
    let failed = store.transact_unsynced(|_| Err::<(), _>(StoreError::Unavailable("for once".into()))).await;
    assert!(failed.is_err());
    assert_eq!(synchronous(), FULL);
}

/// SQLite follows the link, and so must what is synced.
#[test]
fn the_log_of_a_store_behind_a_link_is_beside_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, link) = (folder.path().join("file.db"), folder.path().join("link.db"));
    drop(SqliteStore::open(&file).expect("a store"));
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let store = SqliteStore::open(&link).expect("a store");
    assert!(store.1.ends_with("file.db-wal") && store.1.exists(), "{}", store.1.display());
}
