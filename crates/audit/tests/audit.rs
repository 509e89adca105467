//! A log on disk: what breaks its chain, what does not, and what several writers come to.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Map, Value, json};
use toolgate_audit::{AuditLog, AuditSettings, Verified, verify};

fn settings(folder: &Path) -> AuditSettings {
    AuditSettings { file: folder.join("state/audit.jsonl"), max_bytes: 1 << 20, keep: 3 }
}

fn record(number: usize) -> Map<String, Value> {
    json!({"event": "call", "who": "ada", "call": number}).as_object().cloned().expect("an object")
}

/// Waits until everything is written, however slow the disk is.
fn flush(log: &AuditLog) {
    while !log.flush() {}
}

/// Writes this many records.
fn written(settings: &AuditSettings, records: usize) {
    let log = AuditLog::open(settings.clone()).expect("opened");
    for number in 0..records {
        log.record(record(number));
        if number % 1_000 == 999 {
            flush(&log);
        }
    }
    flush(&log);
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).expect("readable").lines().map(str::to_owned).collect()
}

fn check(file: &Path, change: impl FnOnce(&mut Vec<String>), expected: &str) {
    let before = lines(file);
    let mut changed = before.clone();
    change(&mut changed);
    fs::write(file, changed.iter().map(|line| format!("{line}\n")).collect::<String>()).expect("written");
    let found =
        verify(file, None).map_or_else(|broken| broken.to_string(), |verified| format!("{} hold", verified.lines));
    assert!(found.contains(expected), "{found}");
    fs::write(file, before.iter().map(|line| format!("{line}\n")).collect::<String>()).expect("written");
}

#[test]
fn a_line_that_is_changed_added_moved_or_removed_breaks_the_chain() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path());
    written(&settings, 5);
    let file = &settings.file;
    check(file, |_| {}, "5 hold");
    check(file, |lines| lines[1] = lines[1].replace("ada", "bob"), ":3: the line before this one was changed");
    check(file, |lines| drop(lines.remove(2)), ":3: the line before this one was changed");
    check(file, |lines| lines.swap(1, 2), ":2: the line before");
    check(file, |lines| lines.insert(2, lines[1].clone()), ":3: the line before");
    check(file, |lines| lines.insert(2, "{}".to_owned()), ":3: the line has no number");
    check(file, |lines| lines[2] = "nonsense".to_owned(), ":4: the line before");
    check(file, |lines| lines[0] = lines[0].replace("\"prev\":\"0", "\"prev\":\"1"), ":1: the first line names");
    check(file, |lines| drop(lines.remove(0)), ":1: lines before this one were cut off");
    // What is cut off at the end is noticed by the hash that an earlier check gave.
    let head = verify(file, None).expect("whole").head;
    assert!(verify(file, Some(&head)).is_ok_and(|verified| verified.has_expected));
    written(&settings, 1);
    assert!(verify(file, Some(&head)).is_ok_and(|verified| verified.has_expected), "an older head is still in it");
    let cut: Vec<String> = lines(file).into_iter().take(4).collect();
    fs::write(file, cut.join("\n") + "\n").expect("written");
    assert!(verify(file, Some(&head)).is_ok_and(|verified| !verified.has_expected));
}

#[test]
fn the_file_is_for_its_user_and_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path());
    written(&settings, 2);
    written(&settings, 2);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&settings.file), mode(settings.file.parent().expect("a folder"))), (0o600, 0o700));
    let verified = verify(&settings.file, None).expect("whole");
    assert_eq!((verified.lines, verified.first, verified.lost, verified.torn), (4, 1, 0, 0));
    let line: Value = serde_json::from_str(&lines(&settings.file)[3]).expect("JSON");
    assert_eq!((&line["seq"], &line["who"]), (&json!(4), &json!("ada")));
}

#[test]
fn a_line_that_a_killed_writer_left_is_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path());
    written(&settings, 2);
    let mut file = OpenOptions::new().append(true).open(&settings.file).expect("opened");
    file.write_all(b"{\"seq\":3,\"ti").expect("written");
    assert!(verify(&settings.file, None).is_ok_and(|verified| verified.torn == 1), "before the next writer");
    written(&settings, 2);
    let verified = verify(&settings.file, None).expect("whole");
    assert_eq!((verified.lines, verified.torn), (5, 1));
    // A torn line that no writer told of is a forgery.
    check(&settings.file, |lines| lines[3] = lines[3].replace("\"after_torn\":true,", ""), "is no record");
}

#[test]
fn a_large_file_becomes_an_archive_and_old_ones_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = AuditSettings { max_bytes: 2_000, ..settings(folder.path()) };
    for _ in 0..40 {
        written(&settings, 3);
    }
    let beside: Vec<PathBuf> = fs::read_dir(settings.file.parent().expect("a folder"))
        .expect("listed")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| !path.ends_with("audit.jsonl") && path.extension().is_some_and(|it| it != "lock"))
        .collect();
    assert_eq!(beside.len(), 3, "{beside:?}");
    let verified = verify(&settings.file, None).expect("whole");
    assert!(verified.first > 1 && verified.first + verified.lines == 121, "{verified:?}");
    // The oldest archive says that it begins a file; what is left of one whose first lines are gone does not.
    let oldest = beside.iter().min_by_key(|path| path.extension().and_then(|it| it.to_str()?.parse::<u64>().ok()));
    let oldest = oldest.expect("an archive").clone();
    let whole = lines(&oldest);
    fs::write(&oldest, whole[1..].join("\n") + "\n").expect("written");
    let broken = verify(&settings.file, None).expect_err("cut");
    assert!(broken.to_string().ends_with(":1: lines before this one were cut off"), "{broken}");
    fs::write(&oldest, whole.join("\n") + "\n").expect("written");
    assert!(verify(&settings.file, None).is_ok());
    // An archive in the middle that is gone is noticed.
    let mut archives = beside;
    archives.sort();
    fs::remove_file(&archives[1]).expect("removed");
    assert!(verify(&settings.file, None).is_err());
}

#[test]
fn no_archive_is_kept_where_none_is_asked_for_and_the_chain_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = AuditSettings { max_bytes: 500, keep: 0, ..settings(folder.path()) };
    for _ in 0..10 {
        // Each time the file becomes large; the next line goes on from what is then an archive.
        written(&settings, 3);
    }
    let settings = AuditSettings { max_bytes: 1 << 20, ..settings };
    written(&settings, 1);
    let names = fs::read_dir(settings.file.parent().expect("a folder")).expect("listed");
    let names: Vec<_> = names.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names.len(), 2, "the log and its lock: {names:?}");
    let verified = verify(&settings.file, None).expect("whole");
    assert_eq!((verified.first, verified.lines), (31, 1));
}

#[test]
fn several_writers_make_one_chain() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = AuditSettings { max_bytes: 20_000, keep: 100, ..settings(folder.path()) };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| written(&settings, 200));
        }
    });
    let Verified { lines, lost, .. } = verify(&settings.file, None).expect("whole");
    assert_eq!((lines, lost), (800, 0));
}

#[test]
fn what_cannot_be_written_is_lost_and_counted_and_holds_up_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path());
    let log = AuditLog::open(settings.clone()).expect("opened");
    log.record(record(0));
    flush(&log);
    // A folder in place of the file cannot be written to, by root neither.
    let aside = folder.path().join("aside");
    fs::rename(&settings.file, &aside).expect("moved");
    fs::create_dir(&settings.file).expect("a folder");
    log.record(record(1));
    log.record(record(2));
    flush(&log);
    fs::remove_dir(&settings.file).expect("removed");
    fs::rename(&aside, &settings.file).expect("moved back");
    log.record(record(3));
    flush(&log);
    let verified = verify(&settings.file, None).expect("whole");
    assert_eq!((verified.lines, verified.lost), (2, 2));
    assert!(AuditLog::open(AuditSettings { file: "/proc/nowhere/audit.jsonl".into(), ..settings }).is_err());
}

/// A program cannot push out its own records by making many calls.
#[test]
fn the_records_of_many_calls_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = AuditSettings { max_bytes: 1 << 30, ..settings(folder.path()) };
    let log = AuditLog::open(settings.clone()).expect("opened");
    log.records(SystemTime::now(), (0..20_000).map(record).collect());
    flush(&log);
    let verified = verify(&settings.file, None).expect("whole");
    assert_eq!((verified.lines, verified.lost), (20_000, 0));
}

#[test]
fn records_that_are_lost_at_the_end_are_told_of_in_a_line_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path());
    let log = AuditLog::open(settings.clone()).expect("opened");
    log.record(record(0));
    flush(&log);
    // More than may wait.
    let long = json!({"event": "call", "arguments": "x".repeat(65 << 20)}).as_object().cloned().expect("an object");
    log.record(long);
    flush(&log);
    let verified = verify(&settings.file, None).expect("whole");
    assert_eq!((verified.lines, verified.lost), (2, 1));
    let last = lines(&settings.file).pop().expect("a line");
    assert!(last.contains(r#""event":"lost""#) && last.contains(r#""lost":1"#), "{last}");
}

#[test]
fn a_part_of_a_run_that_finds_no_room_costs_no_other_part() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path());
    let log = AuditLog::open(settings.clone()).expect("opened");
    let long = json!({"event": "call", "arguments": "x".repeat(65 << 20)}).as_object().cloned().expect("an object");
    log.records(SystemTime::now(), (0..300).map(record).chain([long]).chain((0..300).map(record)).collect());
    flush(&log);
    let verified = verify(&settings.file, None).expect("whole");
    assert!(verified.lines >= 256 + 89 && verified.lost == 256, "{verified:?}");
}
