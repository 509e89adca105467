//! A cassette is the whole record of a run: written, read and repeated it gives the same report.

mod support;

use std::sync::Arc;

use support::{Run, engine, record, run_again, stable};
use toolgate_engine::Request;
use toolgate_engine::wire::{Code, LimitRequest, Profile};
use toolgate_journal::cassette::{self, NoCassette};
use toolgate_journal::edited::RecordedHost;
use toolgate_journal::entry::{Entry, Event};
use toolgate_journal::recording::Record;
use toolgate_journal::redact::Redaction;
use toolgate_journal::replay::{self, NoReplay};

fn written(record: &Record) -> String {
    let mut file = Vec::new();
    cassette::write(record, &mut file).expect("memory");
    String::from_utf8(file).expect("UTF-8")
}

fn read(text: &str) -> Result<Record, NoCassette> {
    cassette::read(&mut text.as_bytes())
}

const PROGRAM: &str = "
    console.log('begin', context.length);
    const all = await Promise.all([db.find({ id: 1 }), db.save({ id: 2, big: 'x'.repeat(100000) })]);
    try { await db.broken({}); } catch (e) { console.error(e.code, e.message); }
    const first = await Promise.race([db.slow({}), sleep(1).then(() => 'timer')]);
    await sleep(2); setTimeout(() => {}, 60000);
    return [all.length, first, Math.random(), Date.now(), crypto.randomUUID(), tools.db.find ? 1 : 0];";

async fn recorded(code: &str) -> Run {
    let data = Some(format!("\"{}\"", "d".repeat(100_000)));
    record(&engine(), Request { data, ..Request::new(Profile::Chain, code) }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cassette_repeats_its_run_without_a_host() {
    let run = recorded(PROGRAM).await;
    assert!(run.report.value().is_ok(), "{:?}", run.report.failure());
    let text = written(&run.record);
    let again = read(&text).expect("a cassette");
    assert_eq!(again, run.record);
    let report = run_again(&engine(), replay::offline(&again).expect("replayable")).await;
    assert_eq!(stable(&report), stable(&run.report));
    assert_eq!(text.lines().filter(|line| line.starts_with("{\"blob\"")).count(), 3, "data, arguments, reply");
    assert!(text.lines().all(|line| line.len() < 110_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_failed_or_was_stopped_ends_the_same() {
    for code in ["await db.find({}); throw new Error('no')", "await db.save({}); null.x", "await db.never({})"] {
        let limits = LimitRequest { wall: Some(std::time::Duration::from_millis(400)), ..LimitRequest::default() };
        let run = record(&engine(), Request { limits, ..Request::new(Profile::Chain, code) }).await;
        let report = run_again(&engine(), replay::offline(&run.record).expect("replayable")).await;
        assert_eq!(stable(&report), stable(&run.report), "{code}");
        assert!(report.failure().is_some(), "{code}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redacted_cassette_still_runs() {
    const SECRET: &str = "Str0ng-Passw0rd!";
    let code = format!(
        "const r = await db.login({{ user: 'ann', password: '{SECRET}' }}); console.log(r.token); \
         await db.save({{ token: r.token }}); return {{ r, length: r.token.length }}"
    );
    let run = recorded(&code).await;
    let mut redacted = run.record.clone();
    assert!(Redaction::new(Vec::new()).apply(&mut redacted).expect("complete") >= 2);
    let text = written(&redacted);
    assert!(!text.contains(SECRET) && !text.contains(support::TOKEN), "a secret is left");
    let report = run_again(&engine(), replay::offline(&redacted).expect("replayable")).await;
    assert!(report.value().is_ok(), "{:?}", report.failure());
    let recorded: serde_json::Value = serde_json::from_str(redacted.report().expect("report")).expect("JSON");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(report.value().expect("value").get()).ok(),
        Some(recorded["value"].clone())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_program_gets_recorded_answers_and_no_others() {
    let run = recorded("return [await db.find({ id: 1, of: 'a' }), await db.find({ id: 1, of: 'a' })]").await;
    let edited = |code: &'static str| {
        let host = Arc::new(RecordedHost::new(&run.record).expect("replayable"));
        async move { engine().run(Request { host, ..Request::new(Profile::Chain, code) }).await }
    };
    let report = edited("const a = await db.find({ of: 'a', id: 1 }); return [a.found, 'changed']").await;
    assert_eq!(report.value().expect("a value").get(), r#"[{"id":1,"of":"a"},"changed"]"#);
    for (code, message) in [
        ("await db.find({ id: 1, of: 'b' })", r#"the nearest are {"id":1,"of":"a"}"#),
        ("await db.save({})", "db.save was not called in the record"),
        ("for (;;) await db.find({ id: 1, of: 'a' })", "fewer times in the record"),
    ] {
        let report = edited(code).await;
        let failure = report.failure().expect("a failure");
        assert!(failure.message.contains(message), "{}", failure.message);
        assert!(report.safe_to_retry() || report.calls.len() > 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_cassette_is_refused_and_says_where() {
    let run = recorded("return await db.find({ id: 1 })").await;
    let text = written(&run.record);
    let damaged = |from: &str, to: &str| read(&text.replacen(from, to, 1)).expect_err("damage").to_string();
    assert!(damaged("\"ddd", "\"xdd").starts_with("line 2: the text does not have the hash"), "{text}");
    assert!(damaged("\"step\":1", "\"step\":7").contains("has step 7, where step 1 was expected"));
    assert!(damaged("{", "[").starts_with("line 1 is not an entry of a cassette"));
    for (from, to, expected) in [
        (
            "\"version\":1",
            "\"version\":\"1\"",
            "line 1 is not an entry of a cassette: `header.version`: invalid type: string",
        ),
        (
            "\"code\":\"",
            "\"code\":5,\"x\":\"",
            "line 1 is not an entry of a cassette: `header.code`: invalid type: integer `5`, expected a text",
        ),
        ("\"step\":1", "\"step\":-1", "line 3 is not an entry of a cassette: `step`: invalid value: integer `-1`"),
        ("\"at\":", "\"at\":[],\"y\":", "line 1 is not an entry of a cassette: `at`: invalid type"),
        ("\"start\":", "\"begin\":", "line 3 is not an entry of a cassette: `begin`: unknown variant `begin`"),
        ("\"step\":1,", "", "line 3 is not an entry of a cassette: missing field `step`"),
        ("{\"blob\":\"", "{\"blob\":1,\"x\":\"", "line 2 is not an entry of a cassette: invalid type: integer `1`"),
    ] {
        assert!(damaged(from, to).starts_with(expected), "{}", damaged(from, to));
    }
    assert_eq!(read("").expect_err("empty").to_string(), "the file is empty: a cassette begins with a header");
    let mut cut = run.record.clone();
    cut.entries.pop();
    assert_eq!(replay::offline(&cut).expect_err("no report"), NoReplay::NoReport);
    cut.entries.truncate(1);
    cut.entries.push(run.record.entries.last().expect("report").clone());
    assert_eq!(replay::offline(&cut).expect_err("no program"), NoReplay::NotStarted);
    let mut headless = run.record.clone();
    headless.entries.remove(0);
    assert_eq!(replay::offline(&headless).expect_err("no header"), NoReplay::NoHeader);
    let changed = read(&text.replacen("{ id: 1 }", "{ id: 2 }", 1)).expect("entries");
    assert!(matches!(replay::offline(&changed), Err(NoReplay::Program { .. })));
    for report in ["nothing", "[]", r#"{"calls":1}"#] {
        let mut other = run.record.clone();
        other.entries.pop();
        let (report, _) = other.blobs.keep(report);
        let at = other.entries.last().map_or(0.0, |entry| entry.at);
        other.entries.push(Entry { at, event: Event::Report { report } });
        assert!(matches!(replay::offline(&other), Err(NoReplay::Report(_))), "{other:?}");
    }
    let other = text.replacen("\"version\":1", "\"version\":2", 1);
    assert_eq!(replay::offline(&read(&other).expect("entries")).expect_err("version"), NoReplay::Version(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_a_file_are_checked() {
    let run = recorded("return 1").await;
    let start = written(&run.record);
    let text = start.replacen("\"memory\":", "\"memory\":99999", 1);
    let record = read(&text).expect("entries");
    assert!(matches!(replay::offline(&record), Err(NoReplay::Start(_))), "{:?}", replay::offline(&record));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_answer_shows_as_a_difference() {
    let run = recorded("const r = await db.find({ id: 1 }); await db.save({ id: r.found.id }); return 1").await;
    let changed = written(&run.record).replacen(r#"{\"found\":{\"id\":1}}"#, r#"{\"found\":{\"id\":5}}"#, 1);
    let report = run_again(&engine(), replay::offline(&read(&changed).expect("entries")).expect("whole")).await;
    let failure = report.failure().expect("a difference");
    assert_eq!(failure.code, Code::Diverged);
    assert!(failure.message.contains(r#"now it called db.save with {"id":5}"#), "{}", failure.message);
}
