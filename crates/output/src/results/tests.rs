//! The promises of the store, for both places.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// A clock that a test moves.
#[derive(Clone, Default)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    fn read(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + self.0.load(Ordering::SeqCst))
    }
}

/// Runs a rule against a store in memory and one in a directory.
fn each_place(max_bytes: usize, rule: impl Fn(ResultStore, Hands)) {
    let limits = ResultLimits { max_bytes, ..ResultLimits::default() };
    let dir = tempfile::tempdir().expect("a directory");
    let at = ResultStore::at(&dir.path().join("results"), limits).expect("a store");
    for store in [ResultStore::new(limits), at] {
        let hands = Hands::default();
        let clock = hands.clone();
        rule(store.with_clock(move || clock.read()), hands);
    }
}

fn json(text: &str) -> Kept<'_> {
    Kept { kind: Kind::Json, text: text.into() }
}

fn keep(store: &ResultStore, text: &str) -> String {
    store.keep(Kept { kind: Kind::Text, text: text.into() }).expect("it fits").to_string()
}

const MB: usize = 1024 * 1024;

#[test]
fn what_was_kept_comes_back_exactly() {
    each_place(MB, |store, _| {
        let text = r#"{"a":"\ud800","n":1e21} "#;
        let id = store.keep(json(text)).expect("it fits");
        assert_eq!(store.get(id.as_str()), Ok(Whole { kind: Kind::Json, text: Arc::new(text.into()) }));
    });
}

#[test]
fn a_result_lives_its_time_and_no_longer() {
    each_place(MB, |store, hands| {
        let id = keep(&store, "text");
        hands.advance(3_600);
        assert!(store.get(&id).is_ok());
        hands.advance(1);
        let error = store.get(&id).expect_err("expired").to_string();
        assert_eq!(
            error,
            format!(
                "no result {id}: it may have expired (results are kept for 60 minutes) or was removed to make room; \
                 run the code again"
            )
        );
    });
}

#[test]
fn the_oldest_makes_room() {
    each_place(20_000, |store, hands| {
        let ids: Vec<_> = (0..4)
            .map(|i| {
                hands.advance(1);
                keep(&store, &i.to_string().repeat(6_000))
            })
            .collect();
        let there: Vec<_> = ids.iter().map(|id| store.get(id).is_ok()).collect();
        assert_eq!(there, [false, true, true, true]);
    });
}

#[test]
fn room_is_made_at_the_owner_that_has_the_most() {
    let store = ResultStore::new(ResultLimits { max_bytes: 20_000, ..ResultLimits::default() });
    let (modest, greedy) = (store.of("modest"), store.of("greedy"));
    let first = keep(&modest, &"m".repeat(4_000));
    let ids: Vec<_> = (0..50).map(|_| keep(&greedy, &"g".repeat(3_000))).collect();
    assert!(modest.get(&first).is_ok(), "the older one of an owner with less stays");
    let kept = ids.iter().filter(|id| greedy.get(id).is_ok()).count();
    assert_eq!(kept, 4, "a greedy owner has what is left");
    assert!(ids.iter().rev().take(4).all(|id| greedy.get(id).is_ok()), "its newest");
    // One large result makes room at the owner with the most, and then at others.
    let large = keep(&modest, &"m".repeat(15_000));
    assert!(modest.get(&large).is_ok() && greedy.get(&ids[48]).is_err() && greedy.get(&ids[49]).is_ok());
    let other = keep(&greedy, &"g".repeat(18_000));
    assert!(greedy.get(&other).is_ok() && modest.get(&large).is_err());
}

#[test]
fn what_is_larger_than_the_store_is_not_kept_and_evicts_nothing() {
    each_place(20_000, |store, _| {
        let id = keep(&store, "small");
        assert_eq!(store.keep(json(&"1".repeat(20_001))), None);
        assert!(store.get(&id).is_ok());
    });
}

#[test]
fn clones_share_what_is_kept_between_threads() {
    each_place(64 * MB, |store, _| {
        let ids: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|i| {
                    let store = store.clone();
                    scope.spawn(move || {
                        (0..20).map(|j| (keep(&store, &format!("{i}/{j}")), format!("{i}/{j}"))).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(ids.len(), 80);
        ids.iter().for_each(|(id, text)| assert_eq!(&*store.get(id).expect("kept").text, text));
    });
}

#[test]
fn another_process_finds_what_the_directory_holds() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("deep/results");
    let id = keep(&ResultStore::at(&dir, ResultLimits::default()).expect("a store"), "text");
    let other = ResultStore::at(&dir, ResultLimits::default()).expect("a store");
    assert_eq!(&*other.get(&id).expect("kept").text, "text");
}

#[cfg(unix)]
mod private_directory {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn files_and_directory_are_the_users_alone() {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = parent.path().join("results");
        fs::create_dir(&dir).expect("a directory");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("its mode");
        keep(&ResultStore::at(&dir, ResultLimits::default()).expect("a store"), "text");
        assert_eq!(fs::metadata(&dir).expect("it").mode() & 0o777, 0o700);
        let modes: Vec<_> = fs::read_dir(&dir)
            .expect("it")
            .map(|file| file.expect("a file").metadata().expect("it").mode() & 0o777)
            .collect();
        assert_eq!(modes, [0o600]);
    }

    #[test]
    fn links_are_not_followed() {
        let parent = tempfile::tempdir().expect("a directory");
        let (dir, link) = (parent.path().join("results"), parent.path().join("link"));
        let store = ResultStore::at(&dir, ResultLimits::default()).expect("a store");
        symlink(&dir, &link).expect("a link");
        assert!(ResultStore::at(&link, ResultLimits::default()).is_err());
        let secret = parent.path().join("secret");
        fs::write(&secret, "secret").expect("a file");
        symlink(&secret, dir.join("res_00112233445566778899aabbccddeeff.txt")).expect("a link");
        assert!(store.get("res_00112233445566778899aabbccddeeff").is_err());
    }

    #[test]
    fn foreign_files_are_left_alone() {
        let parent = tempfile::tempdir().expect("a directory");
        let store = ResultStore::at(parent.path(), ResultLimits { max_bytes: 10_000, time_to_live: Duration::ZERO })
            .expect("a store");
        fs::write(parent.path().join("notes.txt"), "x".repeat(50_000)).expect("a file");
        (0..5).for_each(|_| drop(keep(&store, "text")));
        assert!(parent.path().join("notes.txt").exists());
        assert!(fs::read_dir(parent.path()).expect("it").count() <= 3);
    }
}

/// Reads a part of one JSON result.
fn check(path: Option<&str>, lines: Option<&str>, search: Option<&str>) -> String {
    let store = ResultStore::new(ResultLimits::default());
    let kept = r#"{"results":[{"name":"Ada","note":"line one\nERROR two"},{"name":"Bob","error_code":7}],"odd.key":["error"]}"#;
    let id = store.keep(json(kept)).expect("it fits");
    let reading = Reading {
        path: path.map(|path| path.parse().expect("a path")),
        lines: lines.map(|lines| lines.parse().expect("a range")),
        search: search.map(str::to_owned),
        ..Reading::default()
    };
    store.read(id.as_str(), &reading).unwrap_or_else(|error| error.to_string())
}

#[test]
fn a_result_is_read_by_path() {
    assert_eq!(check(Some("results[1]"), None, None), "{\n  \"name\": \"Bob\",\n  \"error_code\": 7\n}");
    assert_eq!(check(Some("results[0].note"), None, None), "line one\nERROR two");
    assert_eq!(check(Some("results[2]"), None, None), "no results[2]: results has the items [0] to [1]");
}

#[test]
fn a_result_is_read_by_lines() {
    assert_eq!(check(None, Some("2-4"), None), "  \"results\": [\n    {\n      \"name\": \"Ada\",");
    assert_eq!(check(Some("results[0].note"), Some("2"), None), "ERROR two");
    assert_eq!(check(None, Some("99-"), None), "no line 99: there are 15 lines");
}

#[test]
fn a_search_tells_where() {
    insta::assert_snapshot!(check(None, None, Some("error")), @r#"
    3 matches for "error" in 0.2KB
    results[0].note: line one ERROR two
    results[1].error_code: (key)
    ["odd.key"][0]: error
    "#);
    assert_eq!(check(Some("results"), None, Some("bob")), "1 match for \"bob\" in 0.1KB\n[1].name: Bob");
    assert_eq!(check(Some("results[0].note"), None, Some("TWO")), "1 match for \"TWO\" in 0.0KB\n2: ERROR two");
    assert_eq!(check(None, Some("1-5"), Some("ada")), "1 match for \"ada\" in 0.1KB\n4:       \"name\": \"Ada\",");
    assert_eq!(check(None, None, Some("zebra")), "0 matches for \"zebra\" in 0.2KB");
}

#[test]
fn reading_is_bounded_whatever_is_asked() {
    let store = ResultStore::new(ResultLimits::default());
    let deep = "[".repeat(50_000) + &"]".repeat(50_000);
    let rows = format!("[{}]", vec![r#"{"a":"é x"}"#; 3_000].join(","));
    for text in [deep.as_str(), rows.as_str(), "\"a\"", &"é\n".repeat(20_000)] {
        let kind = if text.starts_with(['[', '"']) { Kind::Json } else { Kind::Text };
        let id = store.keep(Kept { kind, text: text.into() }).expect("it fits");
        for max_bytes in [0, 1, 50, 300, 5_000] {
            for (lines, search) in [
                (None, None),
                (LineRange::new(1, usize::MAX), None),
                (None, Some("é")),
                (LineRange::new(1, 50), Some("x")),
            ] {
                let reading = Reading { path: None, lines, search: search.map(str::to_owned), max_bytes };
                let read = store.read(id.as_str(), &reading).expect("it is there");
                assert!(read.len() <= max_bytes, "{} > {max_bytes}", read.len());
            }
        }
    }
}

/// The processor time of this thread, in nanoseconds: what other programs do meanwhile does not count.
#[cfg(target_os = "linux")]
fn processor_time(work: impl FnOnce()) -> u64 {
    let spent = || {
        let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("of this thread");
        told.split(' ').next().and_then(|time| time.parse::<u64>().ok()).expect("a number")
    };
    let before = spent();
    work();
    spent() - before
}

#[cfg(target_os = "linux")]
#[test]
fn a_part_of_a_deep_result_is_read_in_the_time_of_a_flat_one() {
    // White space takes time where a text is scanned, and nothing where it is printed or searched.
    let inner = format!("[1,{} \"here\"]", " ".repeat(4 * MB));
    let store = ResultStore::new(ResultLimits::default());
    let time = |depth: usize, search: bool| {
        let text = format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
        let id = store.keep(json(&text)).expect("it fits");
        let path = format!("{}[1]", "[0]".repeat(depth));
        let reading = match search {
            true => Reading { search: Some("HERE".to_owned()), ..Reading::default() },
            false => Reading { path: path.parse().ok(), ..Reading::default() },
        };
        processor_time(|| {
            let read = store.read(id.as_str(), &reading).expect("it is there");
            assert!(read.ends_with("here"), "{read}");
        })
    };
    for search in [false, true] {
        let (flat, deep) = (time(1, search), time(900, search));
        // A walk that scans each level takes hundreds of times as long.
        assert!(deep < 10 * flat + 50_000_000, "search {search}: {deep} ns, and {flat} ns in a flat one");
    }
}

#[test]
fn values_of_any_depth_are_searched_and_matches_in_them_have_their_paths() {
    let store = ResultStore::new(ResultLimits::default());
    let check = |depth: usize, expected: &str| {
        let text = format!(r#"{{"a b":[1,{}"Here"{}]}}"#, "[".repeat(depth), "]".repeat(depth));
        let id = store.keep(json(&text)).expect("it fits");
        let found = store.read(id.as_str(), &Reading { search: Some("here".to_owned()), ..Reading::default() });
        assert_eq!(found.expect("it is there").lines().nth(1), Some(expected), "{depth}");
    };
    check(0, r#"["a b"][1]: Here"#);
    check(2, r#"["a b"][1][0][0]: Here"#);
    let cut = |steps: &str| format!("{}…", steps.get(..400).expect("long"));
    check(900, &format!("{}: Here", cut(&format!(r#"["a b"][1]{}"#, "[0]".repeat(200)))));
    let text = format!("{}\"Here\"{}", "[".repeat(9_002), "]".repeat(9_002));
    let id = store.keep(json(&format!(r#"{{"a":{text}}}"#))).expect("it fits");
    let found = store.read(id.as_str(), &Reading { search: Some("here".to_owned()), ..Reading::default() });
    assert!(found.is_ok_and(|found| found.starts_with("1 match for \"here\"")), "the innermost is searched as text");
}

#[test]
fn an_error_says_what_of_the_request_is_wrong() {
    let store = ResultStore::new(ResultLimits::default());
    let id = store.keep(json("[1]")).expect("it fits").to_string();
    let subject = |id: &str, path: Option<&str>, lines: Option<&str>| {
        let reading = Reading {
            path: path.map(|path| path.parse().expect("a path")),
            lines: lines.map(|lines| lines.parse().expect("a range")),
            ..Reading::default()
        };
        store.read(id, &reading).expect_err("nothing is there").subject()
    };
    assert_eq!(subject("nope", None, None), ReadSubject::Id);
    assert_eq!(subject("res_00112233445566778899aabbccddeeff", Some("a"), None), ReadSubject::Id);
    assert_eq!(subject(&id, Some("nope"), None), ReadSubject::Path);
    assert_eq!(subject(&id, None, Some("99")), ReadSubject::Lines);
}

#[test]
fn plain_text_has_no_paths_and_ids_are_checked() {
    let store = ResultStore::new(ResultLimits::default());
    let id = keep(&store, "text");
    let reading = Reading { path: "a".parse().ok(), ..Reading::default() };
    assert_eq!(store.read(&id, &reading), Err(ReadError::NotJson));
    assert_eq!(store.read("../../etc/passwd", &reading), Err(ReadError::BadId(BadId)));
}

#[test]
fn line_ranges_are_written_as_numbers_from_one() {
    let parsed = |text: &str| text.parse::<LineRange>().ok();
    assert_eq!(parsed("10-40"), LineRange::new(10, 40));
    assert_eq!(parsed("7"), LineRange::new(7, 7));
    assert_eq!(parsed("7-"), LineRange::new(7, usize::MAX));
    assert_eq!(parsed("4-3"), LineRange::new(3, 4), "backwards is the same range");
    assert_eq!([parsed("0-3"), parsed("3-0"), parsed("a"), parsed("-")], [None; 4]);
}

#[test]
fn a_result_is_found_by_its_owner_alone() {
    let store = ResultStore::new(ResultLimits::default());
    let kept = || Kept { kind: Kind::Json, text: "1".into() };
    let id = store.of("alice").keep(kept()).unwrap().to_string();
    assert!(store.of("alice").get(&id).is_ok());
    assert!(store.of("bob").get(&id).is_err());
    assert!(store.get(&id).is_err());
}
