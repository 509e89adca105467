//! The rows of the benchmark, in the order they are measured.

use std::sync::LazyLock;

use super::meter::{Cores, Meter, RowUnit, Samples};
use super::natural::{self, Familiarity};
use super::{
    chain, cliffs, data, durable, gateway, http, kill, latency, learning, memory, openapi, policy, resume, search,
    telemetry, throughput, types, v8,
};
use toolgate_engine::EngineChoice;

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Its name on the command line and in the output.
    pub name: &'static str,
    /// A name that stands for several rows.
    pub group: Option<&'static str>,
    /// What is measured.
    pub what: &'static str,
    /// What its numbers count.
    pub unit: RowUnit,
    /// Samples that are taken.
    pub runs: u32,
    /// Where it runs.
    pub cores: Cores,
    /// How it is measured.
    pub measure: fn(&Meter) -> anyhow::Result<Samples>,
}

impl Workload {
    /// Whether this row is meant by a name.
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.group == Some(name)
    }
}

/// What most rows have in common.
const ROW: Workload = Workload {
    name: "",
    group: None,
    what: "",
    unit: RowUnit::Microseconds,
    runs: 1_000,
    cores: Cores::One,
    measure: latency::warm,
};

/// The rows of one natural program, on each interpreter.
macro_rules! natural {
    ($name:literal, $program:ident, $what:literal) => {
        [
            Workload {
                runs: 20,
                cores: Cores::One,
                ..natural!($name, "quickjs", "quickjs", $what, |meter| natural::measure(
                    meter,
                    &natural::$program,
                    EngineChoice::QuickJs
                ))
            },
            natural!($name, "v8", "v8", $what, |meter| natural::measure(meter, &natural::$program, EngineChoice::V8)),
            natural!($name, "auto", "auto, run before", $what, |meter| natural::measure(
                meter,
                &natural::$program,
                EngineChoice::Auto
            )),
            natural!($name, "auto-first", "auto, not run before", $what, |meter| natural::measure_first(
                meter,
                &natural::$program
            )),
        ]
    };
    ($name:literal, $engine:literal, $on:literal, $what:literal, $measure:expr) => {
        Workload {
            name: concat!("natural-", $name, "-", $engine),
            group: Some("natural"),
            what: concat!("10,000 records of 315 bytes on ", $on, ", `", $name, "`: ", $what),
            runs: 5,
            cores: Cores::All,
            measure: $measure,
            ..ROW
        }
    };
}

/// Programs as people write them.
const NATURAL: [[Workload; 4]; 21] = [
    natural!("filter", FILTER, "records by one field, and the name of each"),
    natural!("count", COUNT, "records by one field"),
    natural!("group", GROUP, "lists of records by city, and their sums"),
    natural!("sort", SORT, "with a comparator of two numbers"),
    natural!("sort-names", SORT_NAMES, "with `localeCompare`"),
    natural!("destructure", DESTRUCTURE, "three fields of each record"),
    natural!("spread", SPREAD, "a copy of each record with one more field"),
    natural!("entries", ENTRIES, "`Object.entries` of each record"),
    natural!("nested", NESTED, "fields of an object in each record"),
    natural!("flat-map", FLAT_MAP, "the tags of all records"),
    natural!("regex", REGEX, "a pattern over one field"),
    natural!("words", WORDS_OF_NOTES, "the most frequent words"),
    natural!("stringify", STRINGIFY, "`JSON.stringify` of all records"),
    natural!("round-trip", ROUND_TRIP, "`JSON.parse` of that"),
    natural!("clone", CLONE, "`structuredClone` of all records"),
    natural!("mutate", MUTATE, "a new field for each record"),
    natural!("join", JOIN, "a Map by id, and one look-up for each record"),
    natural!("percentiles", PERCENTILES, "of one field"),
    natural!("csv", CSV, "one line for each record"),
    natural!("by-month", BY_MONTH, "sums by a part of a date"),
    natural!("third", THIRD, "every third record as the result"),
];

/// Every row.
pub(crate) static WORKLOADS: LazyLock<Vec<Workload>> =
    LazyLock::new(|| ROWS.iter().chain(NATURAL.as_flattened()).copied().collect());

const ROWS: &[Workload] = &[
    Workload {
        name: "cold",
        what: "nothing forked ahead: from fork to the result of `return 1+1`",
        runs: 500,
        measure: latency::cold,
        ..ROW
    },
    Workload { name: "warm", what: "the same with a worker forked ahead", runs: 2_000, measure: latency::warm, ..ROW },
    Workload {
        name: "calls",
        what: "20 host calls one after another, each answered with 1 KB of JSON",
        measure: latency::calls,
        ..ROW
    },
    Workload {
        name: "rewound-warm",
        group: Some("rewound"),
        what: "`warm` in a row for one caller, in a worker that is put back after each run (`reuse: same_caller`)",
        runs: 2_000,
        measure: latency::rewound_warm,
        ..ROW
    },
    Workload {
        name: "rewound-calls",
        group: Some("rewound"),
        what: "`calls` in the same way",
        measure: latency::rewound_calls,
        ..ROW
    },
    Workload {
        name: "durable-calls",
        what: "`calls` with calls that only read, recorded into a store on disk; the begin and the end of the run are not counted",
        runs: 500,
        measure: durable::calls,
        ..ROW
    },
    Workload {
        name: "durable-write",
        what: "one call with an effect, recorded: intent and reply are on disk before the call and its answer",
        runs: 200,
        measure: durable::write,
        ..ROW
    },
    Workload {
        name: "durable-cost",
        what: "`durable-calls` in percent of the same runs without a recorder, run by run",
        unit: RowUnit::Percent,
        runs: 500,
        measure: durable::cost,
        ..ROW
    },
    Workload {
        name: "resume-parked",
        group: Some("resume"),
        what: "from a decision to the call that waited for it, in a run with 200 calls whose worker waits; runs in SQLite",
        runs: 100,
        measure: resume::parked,
        ..ROW
    },
    Workload {
        name: "resume-replay",
        group: Some("resume"),
        what: "the same where the record of the run is repeated in a new worker",
        runs: 100,
        measure: resume::replayed,
        ..ROW
    },
    Workload { name: "parallel", what: "100 such calls at once", runs: 500, measure: latency::parallel, ..ROW },
    Workload {
        name: "names",
        what: "`warm` with 50 backends of 20 tools, one of them touched",
        measure: latency::names,
        ..ROW
    },
    Workload {
        name: "names-to-warm",
        what: "the same in percent of `warm`, run by run",
        unit: RowUnit::Percent,
        measure: latency::names_to_warm,
        ..ROW
    },
    Workload {
        name: "plan-script",
        group: Some("chain"),
        what: "planning a script of 20 lines, at 1,000 registered tools",
        measure: chain::plan_script,
        ..ROW
    },
    Workload {
        name: "direct-json",
        group: Some("chain"),
        what: "from a text that is JSON to the dispatched call, at 1,000 registered tools",
        measure: chain::direct_json,
        ..ROW
    },
    Workload {
        name: "one-call",
        group: Some("chain"),
        what: "the same for a program that is one call",
        measure: chain::one_call,
        ..ROW
    },
    Workload {
        name: "pipeline-1mb",
        group: Some("chain"),
        what: "a megabyte of JSON through the output pipeline",
        runs: 100,
        measure: chain::pipeline,
        ..ROW
    },
    Workload {
        name: "policy",
        what: "what 100 rules add to a call through the bridge",
        measure: policy::measure_call,
        ..ROW
    },
    Workload {
        name: "policy-decision",
        what: "a decision of the policy about a call, at 100 rules",
        measure: policy::measure_decision,
        ..ROW
    },
    Workload {
        name: "search-1000",
        group: Some("search"),
        what: "ten hits for a task among 1,000 tools",
        measure: |meter| search::measure(meter, 1_000),
        ..ROW
    },
    Workload {
        name: "search-10000",
        group: Some("search"),
        what: "the same among 10,000 tools",
        measure: |meter| search::measure(meter, 10_000),
        ..ROW
    },
    Workload {
        name: "type-check",
        group: Some("types"),
        what: "the types of a program of ten lines against 1,000 tools, by a process that is warm",
        runs: 200,
        cores: Cores::All,
        measure: types::warm,
        ..ROW
    },
    Workload {
        name: "type-check-cold",
        group: Some("types"),
        what: "the same by a process that is started for it",
        runs: 10,
        cores: Cores::All,
        measure: types::cold,
        ..ROW
    },
    Workload {
        name: "learn-result",
        group: Some("types"),
        what: "the shape of a result read and merged into a learned type, for each kilobyte",
        measure: learning::measure,
        ..ROW
    },
    Workload {
        name: "data-1000",
        group: Some("data"),
        what: "filter and map over 1,000 records of about 150 bytes, crossing included",
        runs: 500,
        measure: |meter| data::measure(meter, 1_000),
        ..ROW
    },
    Workload {
        name: "data-10000",
        group: Some("data"),
        what: "the same over 10,000 records",
        runs: 200,
        measure: |meter| data::measure(meter, 10_000),
        ..ROW
    },
    Workload {
        name: "data-100000",
        group: Some("data"),
        what: "the same over 100,000 records",
        runs: 40,
        measure: |meter| data::measure(meter, 100_000),
        ..ROW
    },
    Workload {
        name: "context-10000",
        group: Some("cliffs"),
        what: "a `context` of 10,000 records of about 150 bytes that the program does not look at",
        runs: 200,
        measure: cliffs::context,
        ..ROW
    },
    Workload {
        name: "keys-1000",
        group: Some("cliffs"),
        what: "`Object.keys` of a backend with 1,000 tools",
        runs: 200,
        measure: |meter| cliffs::keys(meter, 1_000),
        ..ROW
    },
    Workload {
        name: "keys-10000",
        group: Some("cliffs"),
        what: "the same with 10,000 tools",
        runs: 40,
        measure: |meter| cliffs::keys(meter, 10_000),
        ..ROW
    },
    Workload {
        name: "reply-1mb",
        group: Some("cliffs"),
        what: "one host call that is answered with a megabyte of records",
        runs: 200,
        measure: cliffs::reply,
        ..ROW
    },
    Workload {
        name: "v8-warm",
        group: Some("v8"),
        what: "`return 1+1` on V8, with a worker started ahead",
        runs: 50,
        cores: Cores::All,
        measure: v8::warm,
        ..ROW
    },
    Workload {
        name: "nbody-quickjs",
        group: Some("v8"),
        what: "a computation that takes V8 about 200 ms, on QuickJS",
        runs: 2,
        cores: Cores::All,
        measure: |meter| v8::nbody(meter, EngineChoice::QuickJs),
        ..ROW
    },
    Workload {
        name: "nbody-v8",
        group: Some("v8"),
        what: "the same on V8",
        runs: 8,
        cores: Cores::All,
        measure: |meter| v8::nbody(meter, EngineChoice::V8),
        ..ROW
    },
    Workload {
        name: "nbody-auto",
        group: Some("v8"),
        what: "the same on auto, begun on QuickJS and moved to V8 early: the engine knows the program from before",
        runs: 8,
        cores: Cores::All,
        measure: |meter| v8::nbody(meter, EngineChoice::Auto),
        ..ROW
    },
    Workload {
        name: "nbody-auto-first",
        group: Some("v8"),
        what: "the same, of a program that was not run before",
        runs: 8,
        cores: Cores::All,
        measure: v8::nbody_first,
        ..ROW
    },
    Workload {
        name: "auto-to-better",
        group: Some("v8"),
        what: "natural programs on auto in percent of the better of quickjs and v8, run before",
        unit: RowUnit::Percent,
        runs: 42,
        cores: Cores::All,
        measure: |meter| natural::auto_to_better(meter, Familiarity::Known),
    },
    Workload {
        name: "auto-to-better-first",
        group: Some("v8"),
        what: "the same, not run before",
        unit: RowUnit::Percent,
        runs: 42,
        cores: Cores::All,
        measure: |meter| natural::auto_to_better(meter, Familiarity::New),
    },
    Workload {
        name: "data-100000-v8",
        group: Some("v8"),
        what: "`data-100000` on V8, with a worker started ahead",
        runs: 10,
        cores: Cores::All,
        measure: v8::filter,
        ..ROW
    },
    Workload {
        name: "v8-replacement",
        group: Some("v8"),
        what: "processor time of a run of `return 1+1` on V8 and of the worker that replaces its own; each sample is the mean of 5",
        runs: 4,
        cores: Cores::All,
        measure: v8::replacement,
        ..ROW
    },
    Workload {
        name: "auto-warm",
        group: Some("v8"),
        what: "`warm` where a run may move to V8, in percent of QuickJS alone",
        unit: RowUnit::Percent,
        measure: v8::short_runs,
        ..ROW
    },
    Workload {
        name: "auto-data",
        group: Some("v8"),
        what: "`data-100000` where a run may move to V8, in percent of QuickJS alone",
        unit: RowUnit::Percent,
        runs: 20,
        measure: data::auto_to_quickjs,
        ..ROW
    },
    Workload {
        name: "kill",
        what: "time past a deadline of 100 ms until `while(true){}` is gone",
        runs: 30,
        measure: kill::polite,
        ..ROW
    },
    Workload {
        name: "kill-native",
        what: "the same for a loop that the interpreter never looks up from",
        runs: 30,
        measure: kill::native,
        ..ROW
    },
    Workload {
        name: "memory",
        what: "private memory of each of 50 sandboxes held alive",
        unit: RowUnit::Bytes,
        runs: 50,
        measure: memory::measure,
        ..ROW
    },
    Workload {
        name: "throughput",
        what: "runs of `calls` a second, 8 at a time, on all cores",
        unit: RowUnit::PerSecond,
        runs: 8_000,
        cores: Cores::All,
        measure: throughput::measure,
        ..ROW
    },
    Workload {
        name: "rewound-throughput",
        group: Some("rewound"),
        what: "`throughput` of one caller, whose workers are put back after each run",
        unit: RowUnit::PerSecond,
        runs: 8_000,
        cores: Cores::All,
        measure: throughput::rewound,
    },
    Workload {
        name: "http",
        group: Some("http"),
        what: "POST /v1/run of `return 1+1` a second, over 16 connections, clients on the same cores",
        unit: RowUnit::PerSecond,
        runs: 20_000,
        cores: Cores::All,
        measure: http::rate,
    },
    Workload {
        name: "rewound-http",
        group: Some("rewound"),
        what: "`http` of one caller, whose workers are put back after each run",
        unit: RowUnit::PerSecond,
        runs: 20_000,
        cores: Cores::All,
        measure: http::rewound_rate,
    },
    Workload {
        name: "http-latency",
        group: Some("http"),
        what: "how long each of these requests takes",
        runs: 20_000,
        cores: Cores::All,
        measure: http::latency,
        ..ROW
    },
    Workload {
        name: "gateway-call",
        group: Some("gateway"),
        what: "one tool through the gateway over stdio, less the same call to the server itself",
        cores: Cores::All,
        measure: gateway::overhead,
        ..ROW
    },
    Workload {
        name: "telemetry-off",
        group: Some("telemetry"),
        what: "20 calls of a tool one after another through the gateway, without log lines, audit, traces and metrics",
        runs: 300,
        cores: Cores::All,
        measure: telemetry::off,
        ..ROW
    },
    Workload {
        name: "telemetry-on",
        group: Some("telemetry"),
        what: "the same with all of them: lines of calls, audit with arguments, spans and metrics to a collector",
        runs: 300,
        cores: Cores::All,
        measure: telemetry::on,
        ..ROW
    },
    Workload {
        name: "telemetry-cost",
        group: Some("telemetry"),
        what: "the time of the second in percent of the first, asked in turn",
        unit: RowUnit::Percent,
        runs: 300,
        cores: Cores::All,
        measure: telemetry::cost,
    },
    Workload {
        name: "gateway-start",
        group: Some("gateway"),
        what: "from the start of the process until 1,000 tools are listed from the cache",
        runs: 50,
        cores: Cores::All,
        measure: |meter| gateway::from_cache(meter, 1_000),
        ..ROW
    },
    Workload {
        name: "gateway-start-10000",
        group: Some("gateway"),
        what: "the same with 10,000 tools",
        runs: 10,
        cores: Cores::All,
        measure: |meter| gateway::from_cache(meter, 10_000),
        ..ROW
    },
    Workload {
        name: "gateway-memory",
        group: Some("gateway"),
        what: "resident memory of an idle gateway with 1,000 tools",
        unit: RowUnit::Bytes,
        runs: 10,
        cores: Cores::All,
        measure: |meter| gateway::idle_memory(meter, 1_000),
    },
    Workload {
        name: "gateway-memory-10000",
        group: Some("gateway"),
        what: "the same with 10,000 tools",
        unit: RowUnit::Bytes,
        runs: 5,
        cores: Cores::All,
        measure: |meter| gateway::idle_memory(meter, 10_000),
    },
    Workload {
        name: "openapi-load",
        group: Some("openapi"),
        what: "from the start of a backend with a document of 600 operations until its tools are known",
        runs: 20,
        cores: Cores::All,
        measure: openapi::load,
        ..ROW
    },
    Workload {
        name: "openapi-memory",
        group: Some("openapi"),
        what: "memory that such a backend keeps",
        unit: RowUnit::Bytes,
        runs: 5,
        cores: Cores::All,
        measure: openapi::kept_memory,
    },
    Workload {
        name: "openapi-call",
        group: Some("openapi"),
        what: "one operation of an HTTP API, less the same request by a plain client over a kept connection",
        cores: Cores::All,
        measure: openapi::overhead,
        ..ROW
    },
];
