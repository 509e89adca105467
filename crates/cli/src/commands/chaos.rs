//! `toolgate chaos`: kills parts of a gateway under load, or soaks one.

use std::io::IsTerminal;
use std::path::Path;

use indicatif::ProgressBar;
use toolgate_chaos::{DurableOptions, DurableSummary, Options, SoakLine, Summary};

use super::Exit;
use crate::args::bench::{ChaosArgs, ChaosStore};
use crate::print::{Style, error, escape, out};

pub(crate) fn chaos(args: &ChaosArgs) -> anyhow::Result<Exit> {
    if let Some(file) = &args.counter {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(toolgate_chaos::serve_counter(file))?;
        // A read of standard input may still block a thread.
        runtime.shutdown_background();
        return Ok(Exit::Done);
    }
    let program = std::env::current_exe()?;
    if let Some(runs) = args.soak {
        return soak(&program, runs, args);
    }
    let seed = args.seed.map_or_else(toolgate_chaos::random_seed, Ok)?;
    if let Some(runs) = args.durable {
        return durable(&program, runs, seed, args);
    }
    let options = Options { program, duration: args.duration, connections: usize::from(args.connections), seed };
    let progress = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    progress.set_message(format!("killing for {:?}, seed {seed}", args.duration));
    progress.enable_steady_tick(std::time::Duration::from_millis(200));
    let summary = toolgate_chaos::chaos(&options);
    progress.finish_and_clear();
    let summary = summary?;
    if args.json {
        out(serde_json::to_string(&summary)?)?;
    } else {
        out(text(&summary))?;
    }
    for mistake in &summary.mistakes {
        error(&escape::line(mistake));
    }
    Ok(if summary.holds() { Exit::Done } else { Exit::Failed })
}

fn text(summary: &Summary) -> String {
    let list = |items: Vec<(&str, u64)>| {
        let items: Vec<_> = items.iter().map(|(name, count)| format!("{count} {}", escape::line(name))).collect();
        if items.is_empty() { "none".to_owned() } else { items.join(", ") }
    };
    let killed = list(summary.killed.iter().map(|(name, count)| (*name, *count)).collect());
    let disturbed = list(summary.disturbed.iter().map(|(code, count)| (code.as_str(), *count)).collect());
    format!(
        "killed        {killed}\n\
         programs      {} answered, {} of them as without kills, {} cut off with the gateway\n\
         sessions      {} opened and used\n\
         disturbed     {disturbed}\n\
         effects       {}\n\
         wrong         {}\n\
         left behind   {} processes\n\
         memory        {:.1} MB at the end\n\
         seed          {}",
        summary.runs,
        summary.right,
        summary.cut_off,
        summary.sessions,
        summary.effects,
        summary.wrong,
        summary.left_behind,
        megabytes(summary.memory_bytes),
        summary.seed,
    )
}

/// Runs the programs once for each store.
fn durable(program: &Path, runs: u64, seed: u64, args: &ChaosArgs) -> anyhow::Result<Exit> {
    let stores = if args.store.is_empty() { vec![ChaosStore::default()] } else { args.store.clone() };
    let mut holds = true;
    for store in stores {
        let options = DurableOptions {
            program: program.to_owned(),
            runs,
            replicas: usize::from(args.replicas),
            store: match store {
                ChaosStore::Sqlite => None,
                ChaosStore::Postgres(url) => Some(url),
            },
            connections: usize::from(args.connections),
            seed,
        };
        let summary = toolgate_chaos::durable(&options)?;
        if args.json {
            out(serde_json::to_string(&summary)?)?;
        } else {
            out(durable_text(&summary))?;
        }
        for mistake in &summary.mistakes {
            error(&escape::line(mistake));
        }
        holds &= summary.holds();
    }
    Ok(if holds { Exit::Done } else { Exit::Failed })
}

fn durable_text(summary: &DurableSummary) -> String {
    let killed: Vec<String> = summary.killed.iter().map(|(name, count)| format!("{count} {name}")).collect();
    format!(
        "store         {} (gateways: {})\n\
         killed        {}\n\
         runs          {} ended in {:.0} s, {} of them right, {} with a call that is labelled unknown\n\
         decisions     {}\n\
         effects       {}\n\
         lost          {}\n\
         doubled       {}\n\
         wrong         {}\n\
         seed          {}",
        summary.store,
        summary.gateways,
        if killed.is_empty() { "none".to_owned() } else { killed.join(", ") },
        summary.runs,
        summary.seconds,
        summary.right,
        summary.unknown,
        summary.decisions,
        summary.effects,
        summary.lost,
        summary.doubled,
        summary.wrong,
        summary.seed,
    )
}

fn soak(program: &Path, runs: u64, args: &ChaosArgs) -> anyhow::Result<Exit> {
    if !args.json {
        let heading = format!("{:>10} {:>10} {:>6} {:>9} {:>9}", "runs", "memory MB", "files", "p50 ms", "p99 ms");
        out(Style::stdout().strong(heading))?;
    }
    let tell = |line: SoakLine| {
        if args.json {
            return out(serde_json::to_string(&line)?);
        }
        let SoakLine { runs, memory_bytes, open_files, p50_ms, p99_ms } = line;
        let memory = megabytes(memory_bytes);
        out(format_args!("{runs:>10} {memory:>10.1} {open_files:>6} {p50_ms:>9.2} {p99_ms:>9.2}"))
    };
    toolgate_chaos::soak(program, runs, usize::from(args.connections), tell)?;
    Ok(Exit::Done)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
