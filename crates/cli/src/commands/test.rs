//! `toolgate test`: every cassette of a folder is replayed, and must give its recorded report. No server is started and no
//! socket opened.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use toolgate_engine::Engine;
use toolgate_journal::entry::Event;
use toolgate_journal::recording::Record;
use toolgate_journal::replay::offline;
use toolgate_journal::{cassette, report};
use toolgate_run::{FixedEnvironment, RecordedRun, ReplayHost, RunRequest, Runner, replay_engine};
use toolgate_wire::Code;

use super::replay::cassette_file::CassetteFile;
use super::replay::{cannot_write, request};
use super::{Exit, Usage};
use crate::args::programs::TestArgs;
use crate::print::{Style, counted, escape, note, out};
use crate::tools;

/// Folders below the one that is named.
const MAX_DEPTH: usize = 16;

/// What became of one cassette.
struct Tested {
    name: String,
    took: Duration,
    result: Result<Passed, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    /// The report is the recorded one.
    Same,
    /// The report was replaced by the new one.
    Updated,
}

/// `toolgate test`.
pub(crate) fn test(args: &TestArgs) -> anyhow::Result<Exit> {
    let mut files = Vec::new();
    find(&args.folder, 0, &mut files)
        .map_err(|error| Usage(format!("cannot read {}: {error}", escape::text(&args.folder.to_string_lossy()))))?;
    files.sort();
    if files.is_empty() {
        return Err(Usage(format!("no cassettes (*.jsonl) in {}", escape::text(&args.folder.to_string_lossy()))).into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let tested = runtime.block_on(async {
        let engine = Engine::builder().isolation(args.isolation()).build()?;
        let runner = Runner::new(engine.clone(), tools::bridge(None)?, Arc::new(FixedEnvironment::default()));
        let tested = all(&runner, &files, args.update).await;
        engine.dispose();
        anyhow::Ok(tested)
    });
    runtime.shutdown_background();
    let tested = tested?;
    if let Some(path) = &args.junit {
        std::fs::write(path, junit(&tested)).with_context(|| cannot_write(path))?;
    }
    print(&tested, args.json)
}

/// Replays them, as many at a time as there are cores.
async fn all(runner: &Runner, files: &[PathBuf], update: bool) -> Vec<Tested> {
    let lanes = std::thread::available_parallelism().map_or(2, usize::from);
    let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let files: Arc<[PathBuf]> = files.into();
    let work = (0..lanes).map(|_| {
        let (runner, next, files) = (runner.clone(), next.clone(), files.clone());
        tokio::spawn(async move {
            let mut tested = Vec::new();
            while let Some(file) = files.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                let since = Instant::now();
                let result = one(&runner, file, update).await.map_err(|error| format!("{error:#}"));
                tested.push(Tested { name: file.to_string_lossy().into_owned(), took: since.elapsed(), result });
            }
            tested
        })
    });
    let mut tested = Vec::new();
    for lane in work.collect::<Vec<_>>() {
        tested.extend(lane.await.unwrap_or_default());
    }
    tested.sort_by(|one, other| one.name.cmp(&other.name));
    tested
}

async fn one(runner: &Runner, path: &Path, update: bool) -> anyhow::Result<Passed> {
    let mut record = cassette::read(&mut BufReader::new(File::open(path)?))?;
    let mut replayable = offline(&record)?;
    let recorded = record.report().unwrap_or_default().to_owned();
    let (engine, lines) = replay_engine(None, &recorded);
    replayable.replay.lines = lines;
    let replayed = RecordedRun { replay: Arc::new(replayable.replay), host: ReplayHost::Tools };
    let request = request(replayable.header.profile, replayable.limits, &replayable.code, replayed);
    let run = runner.run(RunRequest { engine: Some(engine), ..request }).await;
    let text = report::with_measurements(&run.report, &recorded)?;
    match report::difference(&recorded, &text) {
        None => Ok(Passed::Same),
        Some(difference) => match run.report.failure().filter(|failure| is_no_result(failure.code)) {
            Some(failure) => anyhow::bail!("{}: {}", failure.code, failure.message),
            None if update => {
                replace_report(&mut record, &text);
                let written = CassetteFile::at(path).and_then(|file| file.write(&|out| cassette::write(&record, out)));
                written.with_context(|| cannot_write(path))?;
                Ok(Passed::Updated)
            }
            None => anyhow::bail!("the replay differs from the record: {difference}"),
        },
    }
}

/// Whether a replay that ended so says nothing of what the program does: it went another way than the record, or was not executed.
fn is_no_result(code: Code) -> bool {
    matches!(code, Code::Diverged | Code::Unavailable | Code::Aborted)
}

fn replace_report(record: &mut Record, text: &str) {
    let (kept, _) = record.blobs.keep(text);
    for entry in &mut record.entries {
        if let Event::Report { report } = &mut entry.event {
            *report = kept.clone();
        }
    }
}

fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() && depth < MAX_DEPTH {
            find(&path, depth + 1, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    Ok(())
}

fn print(tested: &[Tested], json: bool) -> anyhow::Result<Exit> {
    let failed = tested.iter().filter(|tested| tested.result.is_err()).count();
    let style = Style::stdout();
    for tested in tested {
        let name = escape::line(&tested.name);
        match &tested.result {
            _ if json => {
                let ms = tested.took.as_secs_f64() * 1e3;
                let line = json!({ "file": tested.name, "ok": tested.result.is_ok(), "error": tested.result.as_ref().err(), "ms": ms });
                out(escape::json(&line.to_string()))?;
            }
            Ok(Passed::Same) => out(format_args!("{} {name}", style.good("ok")))?,
            Ok(Passed::Updated) => out(format_args!("{} {name}", style.warn("updated")))?,
            Err(error) => out(format_args!("{} {name}: {}", style.bad("FAILED"), escape::message(error)))?,
        }
    }
    if !json {
        note(format_args!("{}, {failed} failed", counted(tested.len(), "cassette")));
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

/// The results in the form that CI systems read.
fn junit(tested: &[Tested]) -> String {
    let failed = tested.iter().filter(|tested| tested.result.is_err()).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"toolgate test\" tests=\"{}\" failures=\"{failed}\">\n",
        tested.len()
    );
    for tested in tested {
        let (name, seconds) = (xml(&tested.name), tested.took.as_secs_f64());
        let _ = write!(text, "  <testcase name=\"{name}\" time=\"{seconds:.3}\"");
        match &tested.result {
            Ok(_) => text.push_str("/>\n"),
            Err(error) => {
                let _ = writeln!(text, "><failure message=\"{}\"/></testcase>", xml(error));
            }
        }
    }
    text.push_str("</testsuite>\n");
    text
}

/// Text for an attribute: markup and characters that XML does not have are replaced.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_written_as_xml_whatever_they_say() {
        let tested = [
            Tested { name: "a.jsonl".into(), took: Duration::from_millis(12), result: Ok(Passed::Same) },
            Tested { name: "b<&\".jsonl".into(), took: Duration::ZERO, result: Err("\u{1b}[2J<x>\nmore".into()) },
        ];
        insta::assert_snapshot!(junit(&tested), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuite name="toolgate test" tests="2" failures="1">
          <testcase name="a.jsonl" time="0.012"/>
          <testcase name="b&lt;&amp;&quot;.jsonl" time="0.000"><failure message="�[2J&lt;x&gt; more"/></testcase>
        </testsuite>
        "#);
    }
}
