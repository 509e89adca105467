//! Every store keeps the same rules: one suite, run against each of them.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use support::postgres::Server;
use toolgate_journal::store::memory::MemoryStore;
use toolgate_journal::store::postgres::PostgresStore;
use toolgate_journal::store::sqlite::SqliteStore;
use toolgate_journal::store::{
    Begun, Claim, Decided, Find, Held, Lease, Leave, NewRun, Prune, Rows, RunStatus, Store, StoreError,
};

const HOUR: Duration = Duration::from_secs(3600);
const EXPIRED: Duration = Duration::ZERO;
const RACERS: usize = 100;

type Shared = Arc<dyn Store>;

fn new_run(run: &str, ttl: Duration) -> NewRun {
    let (run, caller, owner) = (run.into(), "ann".into(), "one".into());
    NewRun {
        run,
        caller,
        idempotency: None,
        owner,
        ttl,
        max_open: 1000,
        max_open_bytes: u64::MAX,
        rows: Rows::default(),
    }
}

async fn begin(store: &Shared, run: &str, ttl: Duration) -> Lease {
    match store.begin(new_run(run, ttl)).await.expect("begun") {
        Begun::New(lease) => lease,
        Begun::Existing { run } => panic!("{run} was there"),
    }
}

fn rows(entries: &[&str]) -> Rows {
    Rows { entries: entries.iter().map(|entry| entry.as_bytes().to_vec()).collect(), blobs: Vec::new() }
}

fn claim(run: Option<&str>, ttl: Duration) -> Claim {
    Claim { run: run.map(str::to_owned), owner: "two".into(), ttl, not_of: vec![], held: vec![] }
}

/// What many tasks get that ask for the same thing at the same time.
async fn race<T: Send + 'static, F>(store: &Shared, ask: impl Fn(Shared, usize) -> F) -> Vec<T>
where
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
{
    let tasks: Vec<_> = (0..RACERS).map(|racer| tokio::spawn(ask(store.clone(), racer))).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("a task").expect("an answer"));
    }
    answers
}

async fn entries_are_kept_in_order_and_blobs_once(store: Shared) {
    let lease = begin(&store, "a", HOUR).await;
    store.append(lease.clone(), 0, rows(&["0", "1"])).await.expect("appended");
    let blobs = vec![("long".to_owned(), b"text".to_vec())];
    store.append(lease.clone(), 2, Rows { blobs: blobs.clone(), ..rows(&["2"]) }).await.expect("appended");
    store.append(lease.clone(), 3, Rows { blobs: blobs.clone(), ..rows(&["3"]) }).await.expect("appended");
    let expected = Rows { blobs, ..rows(&["0", "1", "2", "3"]) };
    assert_eq!(store.read("a").await, Ok(expected));
    assert_eq!(store.append(lease, 3, rows(&["x"])).await, Err(StoreError::Fenced("a".into())), "not at the end");
    assert_eq!(store.read("b").await, Err(StoreError::NoSuchRun("b".into())));
    let found = store.find(Find { most: 9, ..Find::default() }).await.expect("found");
    assert_eq!((found[0].entries, found[0].epoch, found[0].status), (4, 1, RunStatus::Running));
}

async fn an_idempotency_key_gives_one_run(store: Shared) {
    let begun = race(&store, |store, racer| async move {
        let run = format!("run_{racer}");
        let new = NewRun { idempotency: Some(b"key".to_vec()), ..new_run(&run, HOUR) };
        Ok(match store.begin(new).await? {
            Begun::New(lease) => (true, lease.run),
            Begun::Existing { run } => (false, run),
        })
    });
    let begun = begun.await;
    assert_eq!(begun.iter().filter(|(is_new, _)| *is_new).count(), 1);
    assert!(begun.iter().all(|(_, run)| *run == begun[0].1), "{begun:?}");
    let first = Rows { blobs: vec![("long".into(), b"text".to_vec())], ..rows(&["header"]) };
    let other = NewRun { idempotency: Some(b"other".to_vec()), rows: first.clone(), ..new_run("other", HOUR) };
    let Ok(Begun::New(lease)) = store.begin(other).await else { panic!("another key") };
    assert_eq!(store.read("other").await, Ok(first), "a run is there with its first rows");
    store.append(lease, 1, rows(&["next"])).await.expect("behind them");
    // Without a key every request is a run.
    begin(&store, "one", HOUR).await;
    begin(&store, "two", HOUR).await;
}

async fn a_process_that_lost_its_run_cannot_write(store: Shared) {
    let zombie = begin(&store, "a", EXPIRED).await;
    store.append(zombie.clone(), 0, rows(&["first"])).await.expect("still the owner");
    let owner = store.claim(claim(None, HOUR)).await.expect("claimed").expect("an expired run");
    assert_eq!(owner, Lease { run: "a".into(), epoch: 2 });
    let fenced = || Err(StoreError::Fenced("a".to_owned()));
    assert_eq!(store.append(zombie.clone(), 1, rows(&["zombie"])).await, fenced());
    assert_eq!(store.heartbeat("one", vec!["a".into()], HOUR).await, Ok(vec![]), "it has no run");
    assert_eq!(store.leave(zombie, Leave::Done).await, fenced());
    store.append(owner.clone(), 1, rows(&["second"])).await.expect("the owner");
    assert_eq!(store.read("a").await.expect("rows").entries, rows(&["first", "second"]).entries);
    store.leave(owner.clone(), Leave::Done).await.expect("done");
    assert_eq!(store.append(owner, 2, rows(&["late"])).await, fenced(), "a run that has ended");
    assert_eq!(store.claim(claim(Some("a"), HOUR)).await, Ok(None));
}

async fn rows_are_added_and_the_lease_is_given_back_together(store: Shared) {
    let first = begin(&store, "a", HOUR).await;
    let fenced = || Err(StoreError::Fenced("a".to_owned()));
    assert_eq!(store.append_and_leave(first.clone(), 1, rows(&["x"]), Leave::Done).await, fenced(), "not at the end");
    let state = async || {
        let (row, pending) = store.look_at("a").await.expect("an answer").expect("the run");
        (row.status, row.entries, pending.into_iter().map(|it| it.call).collect::<Vec<_>>())
    };
    assert_eq!(state().await, (RunStatus::Running, 0, vec![]), "neither");
    let paused = Leave::Paused { calls: vec![(7, b"question".to_vec())], wake: None };
    store.append_and_leave(first.clone(), 0, rows(&["0"]), paused).await.expect("paused");
    assert_eq!(state().await, (RunStatus::Paused, 1, vec![7]), "both");
    assert_eq!(store.claim(claim(None, HOUR)).await, Ok(None), "nothing is due");
    let next = store.claim(claim(Some("a"), HOUR)).await.expect("an answer").expect("by its name");
    assert_eq!(store.claim(claim(Some("a"), HOUR)).await, Ok(None), "one owner");
    assert_eq!(store.append_and_leave(first, 1, rows(&["zombie"]), Leave::Done).await, fenced());
    store.append_and_leave(next.clone(), 1, rows(&["1"]), Leave::Done).await.expect("done");
    assert_eq!(state().await, (RunStatus::Done, 2, vec![7]));
    assert_eq!(store.append_and_leave(next, 2, rows(&["2"]), Leave::Done).await, fenced(), "it has ended");
    assert_eq!(store.look_at("b").await, Ok(None));
}

async fn a_heartbeat_keeps_a_lease(store: Shared) {
    let lease = begin(&store, "a", EXPIRED).await;
    let other = begin(&store, "b", EXPIRED).await;
    let held = vec![Held { lease, abort: false }];
    assert_eq!(store.heartbeat("one", vec!["a".into(), "gone".into()], HOUR).await, Ok(held));
    assert_eq!(store.claim(claim(Some("a"), HOUR)).await, Ok(None));
    let own = Claim { owner: "one".into(), ..claim(None, HOUR) };
    assert_eq!(store.claim(own).await, Ok(None), "a process does not take over from itself as soon as a lease ends");
    assert_eq!(store.claim(claim(None, HOUR)).await.expect("claimed").expect("expired").run, other.run);
    assert_eq!(store.claim(claim(None, HOUR)).await, Ok(None));
}

/// A process takes a run back that it has given up, and not one that it still has: its clock may have been set, or it was suspended.
async fn an_owner_takes_back_a_run_that_it_does_not_hold(store: Shared) {
    begin(&store, "a", EXPIRED).await;
    let own = |held: &[&str]| {
        let held = held.iter().map(ToString::to_string).collect();
        Claim { owner: "one".into(), held, ..claim(None, EXPIRED) }
    };
    assert_eq!(store.claim(own(&["a"])).await, Ok(None), "it has the run");
    let long = Claim { ttl: HOUR, ..own(&[]) };
    assert_eq!(store.claim(long).await, Ok(None), "it may be about to have it");
    assert_eq!(store.claim(own(&["b"])).await, Ok(Some(Lease { run: "a".into(), epoch: 2 })));
}

async fn a_released_run_is_taken_over_at_once(store: Shared) {
    let lease = begin(&store, "a", HOUR).await;
    store.leave(lease, Leave::Released).await.expect("released");
    let own = Claim { owner: "one".into(), ..claim(None, HOUR) };
    assert_eq!(store.claim(own).await, Ok(Some(Lease { run: "a".into(), epoch: 2 })));
}

async fn a_run_is_aborted_by_its_owner_or_by_whoever_claims_it(store: Shared) {
    let lease = begin(&store, "a", HOUR).await;
    store.abort("a").await.expect("asked for");
    let held = vec![Held { lease: lease.clone(), abort: true }];
    assert_eq!(store.heartbeat("one", vec!["a".into()], HOUR).await, Ok(held));
    store.leave(lease, paused(&[1])).await.expect("paused");
    let due = store.claim(claim(None, HOUR)).await.expect("claimed").expect("it is to be aborted");
    store.leave(due, Leave::Done).await.expect("done");
    let waiting = begin(&store, "b", HOUR).await;
    store.leave(waiting, paused(&[1])).await.expect("paused");
    assert_eq!(store.claim(claim(None, HOUR)).await, Ok(None));
    store.abort("b").await.expect("asked for");
    let due = store.claim(claim(None, HOUR)).await.expect("claimed").expect("it is to be aborted");
    assert!(store.find(Find { run: Some(due.run), most: 1, ..Find::default() }).await.expect("found")[0].abort);
    store.abort("a").await.expect("nothing happens");
    assert_eq!(store.abort("none").await, Err(StoreError::NoSuchRun("none".into())));
}

async fn a_paused_run_is_due_when_it_is_decided_or_its_time_has_come(store: Shared) {
    let lease = begin(&store, "a", HOUR).await;
    store.leave(lease, paused(&[1, 2])).await.expect("paused");
    assert_eq!(store.decide("a", 1, b"yes".to_vec()).await, Ok(Decided::Now));
    assert_eq!(store.sync().await, Ok(()));
    let lease = store.claim(claim(None, HOUR)).await.expect("claimed").expect("decided");
    // The second call is decided while the first goes on.
    assert_eq!(store.decide("a", 2, b"no".to_vec()).await, Ok(Decided::Now));
    store.leave(lease, paused(&[2])).await.expect("paused");
    let lease = store.claim(claim(None, HOUR)).await.expect("claimed").expect("decided before the pause");
    store.leave(lease, paused(&[3])).await.expect("paused");
    assert_eq!(store.claim(claim(None, HOUR)).await, Ok(None), "decisions on other calls do not count");
    for call in [2, 3] {
        store.amend("a", call, b"yes".to_vec()).await.expect("amended");
    }
    let decisions: Vec<_> = store.pending("a").await.expect("calls").into_iter().map(|row| row.decision).collect();
    assert_eq!(decisions, [Some(b"yes".to_vec()), Some(b"yes".to_vec()), None], "only what is decided is amended");
    assert_eq!(store.claim(claim(None, HOUR)).await, Ok(None), "and that decides nothing");
    assert_eq!(store.amend("none", 1, Vec::new()).await, Err(StoreError::NoSuchRun("none".into())));
    let timed = begin(&store, "b", HOUR).await;
    store.leave(timed, Leave::Paused { calls: vec![], wake: Some(1) }).await.expect("paused");
    assert_eq!(store.claim(claim(None, HOUR)).await.expect("claimed").expect("late").run, "b");
}

async fn entries_are_read_from_a_number_on(store: Shared) {
    let lease = begin(&store, "a", HOUR).await;
    let blobs = vec![("long".to_owned(), b"text".to_vec())];
    store.append(lease, 0, Rows { blobs, ..rows(&["0", "1", "2"]) }).await.expect("appended");
    assert_eq!(store.entries("a", 1, 1).await, Ok(rows(&["1"]).entries));
    assert_eq!(store.entries("a", 2, 9).await, Ok(rows(&["2"]).entries));
    assert_eq!(store.entries("a", 3, 9).await, Ok(vec![]));
    assert_eq!(store.blob("a", "long").await, Ok(Some(b"text".to_vec())));
    assert_eq!(store.blob("a", "short").await, Ok(None));
}

async fn a_caller_has_a_bounded_number_of_open_runs(store: Shared) {
    let bounded = |run: &str| NewRun { max_open: 2, ..new_run(run, HOUR) };
    let Ok(Begun::New(first)) = store.begin(bounded("a")).await else { panic!("there is room") };
    assert!(store.begin(bounded("b")).await.is_ok());
    assert_eq!(store.begin(bounded("c")).await, Err(StoreError::TooManyRuns(2)));
    assert!(store.begin(NewRun { caller: "bob".into(), ..bounded("d") }).await.is_ok(), "another caller");
    store.leave(first, Leave::Done).await.expect("done");
    assert!(store.begin(bounded("c")).await.is_ok(), "ended runs do not count");
}

async fn the_open_runs_of_a_caller_take_a_bounded_number_of_bytes(store: Shared) {
    let bounded = |run: &str, bytes: usize| {
        let rows = Rows { entries: vec![vec![7; bytes]], ..Rows::default() };
        NewRun { max_open_bytes: 1000, rows, ..new_run(run, HOUR) }
    };
    let Ok(Begun::New(first)) = store.begin(bounded("a", 400)).await else { panic!("there is room") };
    store.append(first.clone(), 1, Rows { entries: vec![vec![7; 300]], ..Rows::default() }).await.expect("appended");
    assert!(store.begin(NewRun { caller: "bob".into(), ..bounded("b", 900) }).await.is_ok(), "another caller");
    assert_eq!(store.begin(bounded("c", 301)).await, Err(StoreError::TooManyBytes { used: 1001, most: 1000 }));
    assert!(store.find(Find { run: Some("c".into()), most: 1, ..Find::default() }).await.expect("found").is_empty());
    assert!(store.begin(bounded("c", 300)).await.is_ok());
    assert_eq!((store.open_bytes("a").await, store.open_bytes("b").await), (Ok(1000), Ok(900)));
    store.leave(first, Leave::Done).await.expect("done");
    assert_eq!(store.open_bytes("c").await, Ok(300), "ended runs do not count");
}

async fn runs_of_some_callers_can_be_left_out(store: Shared) {
    begin(&store, "a", EXPIRED).await;
    let without = |caller: &str| Claim { not_of: vec![caller.into()], ..claim(None, HOUR) };
    assert_eq!(store.claim(without("ann")).await, Ok(None));
    assert!(store.claim(without("bob")).await.expect("claimed").is_some());
}

fn paused(calls: &[u32]) -> Leave {
    Leave::Paused { calls: calls.iter().map(|call| (*call, b"may it?".to_vec())).collect(), wake: None }
}

async fn many_claims_have_one_winner(store: Shared) {
    begin(&store, "a", EXPIRED).await;
    begin(&store, "living", HOUR).await;
    let claims = race(&store, |store, racer| async move {
        let run = (racer % 2 == 0).then_some("a");
        store.claim(claim(run, HOUR)).await
    });
    let won: Vec<Lease> = claims.await.into_iter().flatten().collect();
    assert_eq!(won, [Lease { run: "a".into(), epoch: 2 }]);
}

async fn a_decision_is_made_once(store: Shared) {
    let lease = begin(&store, "a", HOUR).await;
    store
        .leave(lease, Leave::Paused { calls: vec![(3, b"send?".to_vec()), (5, b"pay?".to_vec())], wake: None })
        .await
        .expect("paused");
    assert_eq!(store.claim(claim(None, HOUR)).await, Ok(None), "a paused run waits");
    let decided = race(&store, |store, racer| async move {
        let own = format!("decision {racer}").into_bytes();
        Ok(match store.decide("a", 3, own.clone()).await? {
            Decided::Now => (true, own),
            Decided::Before(before) => (false, before),
            Decided::NotAsked => panic!("it was asked"),
        })
    });
    let decided = decided.await;
    assert_eq!(decided.iter().filter(|(is_first, _)| *is_first).count(), 1);
    assert!(decided.iter().all(|(_, holds)| *holds == decided[0].1), "{RACERS} equal answers");
    assert_eq!(store.decide("a", 4, Vec::new()).await, Ok(Decided::NotAsked));
    assert_eq!(store.decide("b", 3, Vec::new()).await, Err(StoreError::NoSuchRun("b".into())));
    let pending = store.pending("a").await.expect("pending");
    assert_eq!(pending[0].decision.as_ref(), Some(&decided[0].1));
    assert_eq!((pending[1].call, pending[1].question.as_slice(), &pending[1].decision), (5, &b"pay?"[..], &None));
    let resumed = race(&store, |store, _| async move { store.claim(claim(Some("a"), HOUR)).await }).await;
    assert_eq!(resumed.into_iter().flatten().count(), 1, "one execution");
}

async fn runs_are_found(store: Shared) {
    for (run, caller) in [("a", "ann"), ("b", "bob"), ("c", "ann")] {
        let new = NewRun { caller: caller.into(), ..new_run(run, HOUR) };
        let Begun::New(lease) = store.begin(new).await.expect("begun") else { panic!("it is new") };
        if run == "c" {
            store.leave(lease, Leave::Done).await.expect("done");
        }
    }
    let names = async |find: Find| {
        let mut found: Vec<String> = store.find(find).await.expect("found").into_iter().map(|row| row.run).collect();
        found.sort();
        found
    };
    let all = || Find { most: 10, ..Find::default() };
    assert_eq!(names(all()).await, ["a", "b", "c"]);
    assert_eq!(names(Find { caller: Some("ann".into()), ..all() }).await, ["a", "c"]);
    assert_eq!(names(Find { status: Some(RunStatus::Done), ..all() }).await, ["c"]);
    assert_eq!(names(Find { run: Some("b".into()), ..all() }).await, ["b"]);
    assert_eq!(names(Find { most: 2, ..Find::default() }).await.len(), 2);
    let (mut before, mut pages) = (None, Vec::new());
    while let Some(row) = store.find(Find { before, most: 1, ..Find::default() }).await.expect("found").pop() {
        before = Some((row.began, row.run.clone()));
        pages.push(row.run);
    }
    pages.sort();
    assert_eq!(pages, ["a", "b", "c"], "page by page");
}

async fn only_ended_runs_are_forgotten(store: Shared) {
    for run in ["a", "b", "c", "living"] {
        let lease = begin(&store, run, HOUR).await;
        store.append(lease.clone(), 0, rows(&["0123456789"])).await.expect("appended");
        if run != "living" {
            store.leave(lease, Leave::Done).await.expect("done");
        }
    }
    assert_eq!(store.prune(Prune { older_than: Some(HOUR), ..Prune::default() }).await, Ok(0), "too young");
    assert_eq!(store.prune(Prune { max_bytes: Some(25), ..Prune::default() }).await, Ok(1), "the oldest");
    assert_eq!(store.prune(Prune { max_bytes: Some(25), ..Prune::default() }).await, Ok(0));
    assert_eq!(store.prune(Prune { older_than: Some(Duration::ZERO), ..Prune::default() }).await, Ok(2));
    let left = store.find(Find { most: 10, ..Find::default() }).await.expect("found");
    assert_eq!(left.iter().map(|row| row.run.as_str()).collect::<Vec<_>>(), ["living"]);
    assert_eq!(store.read("living").await.expect("rows").entries.len(), 1);
}

async fn calls_of_a_day_are_counted_once_each(store: Shared) {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    assert_eq!(store.counts(7, names(&["tool", "rule"])).await, Ok(vec![0, 0]));
    let mut before = race(&store, |store, racer| async move {
        // Both orders, which must not lock each other out.
        let (one, other) = if racer % 2 == 0 { ("tool", "rule") } else { ("rule", "tool") };
        store.count(7, vec![one.to_owned(), other.to_owned()]).await
    })
    .await;
    before.sort();
    let expected: Vec<Vec<u64>> = (0..RACERS as u64).map(|count| vec![count, count]).collect();
    assert_eq!(before, expected, "each sees another number");
    store.uncount(7, vec![("rule".to_owned(), 60), ("unknown".to_owned(), 1)]).await.expect("taken back");
    assert_eq!(store.counts(7, names(&["rule", "tool", "unknown"])).await, Ok(vec![40, 100, 0]));
    store.uncount(7, vec![("rule".to_owned(), 60)]).await.expect("taken back");
    assert_eq!(store.count(7, names(&["rule"])).await, Ok(vec![0]), "never below nothing");
    assert_eq!(store.count(8, names(&["tool"])).await, Ok(vec![0]), "another day begins anew");
    assert_eq!(store.counts(7, names(&["tool"])).await, Ok(vec![100]), "replicas do not pass midnight together");
    assert_eq!(store.count(9, names(&["tool"])).await, Ok(vec![0]));
    assert_eq!(store.counts(7, names(&["tool"])).await, Ok(vec![0]), "forgotten");
    assert_eq!(store.counts(8, names(&["tool"])).await, Ok(vec![1]));
}

/// Runs every rule against a new store each.
async fn suite(mut store: impl AsyncFnMut() -> Shared) {
    entries_are_kept_in_order_and_blobs_once(store().await).await;
    an_idempotency_key_gives_one_run(store().await).await;
    a_process_that_lost_its_run_cannot_write(store().await).await;
    rows_are_added_and_the_lease_is_given_back_together(store().await).await;
    a_heartbeat_keeps_a_lease(store().await).await;
    an_owner_takes_back_a_run_that_it_does_not_hold(store().await).await;
    a_released_run_is_taken_over_at_once(store().await).await;
    a_run_is_aborted_by_its_owner_or_by_whoever_claims_it(store().await).await;
    a_paused_run_is_due_when_it_is_decided_or_its_time_has_come(store().await).await;
    entries_are_read_from_a_number_on(store().await).await;
    a_caller_has_a_bounded_number_of_open_runs(store().await).await;
    the_open_runs_of_a_caller_take_a_bounded_number_of_bytes(store().await).await;
    runs_of_some_callers_can_be_left_out(store().await).await;
    many_claims_have_one_winner(store().await).await;
    a_decision_is_made_once(store().await).await;
    runs_are_found(store().await).await;
    only_ended_runs_are_forgotten(store().await).await;
    calls_of_a_day_are_counted_once_each(store().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_keeps_the_rules() {
    suite(async || Arc::new(MemoryStore::new()) as Shared).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_rules() {
    let folder = tempfile::tempdir().expect("folder");
    let mut files = 0;
    suite(async || {
        files += 1;
        Arc::new(SqliteStore::open(&folder.path().join(format!("{files}.db"))).expect("a store")) as Shared
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_keeps_the_rules_and_says_when_it_is_gone() {
    let mut server = Server::start().await;
    suite(async || Arc::new(server.store().await) as Shared).await;

    let address = server.database().await;
    let store: Shared = Arc::new(PostgresStore::connect(&address).await.expect("a store"));
    let lease = begin(&store, "a", HOUR).await;
    server.make_read_only(&address).await;
    let late = PostgresStore::connect(&address).await.err().expect("tables cannot be made").to_string();
    assert!(late.starts_with("the journal's store is read-only: "), "{late}");
    server.kill();
    // The process that serves a connection ends a moment after its parent.
    let gone = loop {
        match store.find(Find::default()).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(gone) => break gone.to_string(),
        }
    };
    assert!(gone.starts_with("the journal's store is not available: "), "{gone}");
    let gone = store.append(lease, 0, rows(&["x"])).await.expect_err("no server");
    assert!(matches!(gone, StoreError::Unavailable(_)), "{gone}");
}

#[tokio::test]
async fn a_file_is_for_its_user_alone_and_outlives_its_process() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("runs.db");
    let store: Shared = Arc::new(SqliteStore::open(&path).expect("a store"));
    let lease = begin(&store, "a", HOUR).await;
    store.append(lease, 0, rows(&["kept"])).await.expect("appended");
    assert_eq!(std::fs::metadata(&path).expect("file").permissions().mode() & 0o777, 0o600);
    drop(store);
    let again = SqliteStore::open(&path).expect("the same store");
    assert_eq!(again.read("a").await.expect("rows").entries, rows(&["kept"]).entries);
}

#[tokio::test]
async fn a_full_or_read_only_file_says_so() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("runs.db");
    let open = SqliteStore::open(&path).expect("a store");
    let store: Shared = Arc::new(open.clone());
    let lease = begin(&store, "a", HOUR).await;
    open.limit(200 * 1024).expect("a limit");
    let large = Rows { entries: vec![vec![7; 1024 * 1024]], blobs: Vec::new() };
    let full = store.append(lease.clone(), 0, large).await.expect_err("no room");
    assert!(matches!(full, StoreError::Full(_)), "{full}");
    assert_eq!(store.read("a").await, Ok(Rows::default()), "nothing of it was kept");
    store.append(lease.clone(), 0, rows(&["small"])).await.expect("there is room for less");

    let read_only: Shared = Arc::new(SqliteStore::open_read_only(&path).expect("a store to look at"));
    assert_eq!(read_only.read("a").await.expect("rows").entries, rows(&["small"]).entries);
    let refused = read_only.append(lease, 1, rows(&["x"])).await.expect_err("read-only");
    assert!(matches!(refused, StoreError::ReadOnly(_)), "{refused}");

    let nowhere = SqliteStore::open(&folder.path().join("no/such/folder/runs.db")).err().expect("no folder");
    assert!(matches!(nowhere, StoreError::Unavailable(_)), "{nowhere}");
    let path = folder.path().join("other.db");
    std::fs::write(&path, "this is not a database, however long it may become").expect("write");
    let damaged = SqliteStore::open(&path).err().expect("no database");
    assert!(matches!(damaged, StoreError::Damaged(_)), "{damaged}");
}
