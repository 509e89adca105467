//! Programs as people and models write them, over records as tools return them, on each interpreter.
//!
//! Each takes all 10,000 records of 315 bytes and does one thing that programs do: filter, group, sort, copy, write. What must
//! come of it is computed here from the same numbers, without JavaScript.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use toolgate_engine::{Engine, EngineChoice, EngineWithRuntime, Request};
use toolgate_wire::{LimitRequest, Profile};

use super::meter::{Meter, Samples, timed};
use super::v8::{WARM_UP, new_callers, with_v8};

const RECORDS: u32 = 10_000;

/// One of the programs.
pub(super) struct Program {
    code: &'static str,
    /// What it gives, as JSON.
    expected: fn(&[Person]) -> String,
}

/// What one record says.
pub(super) struct Person {
    id: u32,
    name: String,
    email: String,
    city: &'static str,
    country: &'static str,
    /// In quarters, so that every sum is exact.
    amount: f64,
    risk: u32,
    active: bool,
    created: String,
    tags: [String; 3],
    street: String,
    zip: String,
    note: String,
}

const PLACES: [(&str, &str); 5] = [("Berlin", "DE"), ("Paris", "FR"), ("Roma", "IT"), ("Madrid", "ES"), ("Wien", "AT")];
const WORDS: [&str; 8] = ["late", "order", "paid", "refund", "call", "again", "open", "invoice"];

impl Person {
    fn new(id: u32) -> Self {
        // No order that a branch predictor could learn, and every remainder equally often.
        let number = id.wrapping_mul(2_654_435_761) >> 7;
        let (city, country) = PLACES[(number % 5) as usize];
        let word = |shift: u32| WORDS[(number >> shift) as usize % WORDS.len()];
        Person {
            id,
            name: format!("Customer {id:06}"),
            email: format!("user{id}@example.com"),
            city,
            country,
            amount: f64::from(number % 40_000) / 4.0,
            risk: number % 100,
            active: number.is_multiple_of(3),
            created: format!("2025-{:02}-{:02}T10:00:00Z", number % 12 + 1, number % 28 + 1),
            tags: [format!("a{}", number % 7), format!("b{}", number % 11), "c".into()],
            street: format!("Street {}", number % 200),
            zip: format!("{:05}", number % 90_000),
            note: format!("{} {} {} {}", word(0), word(3), word(6), word(9)),
        }
    }

    fn text(&self) -> String {
        let Person { id, name, email, city, country, amount, risk, active, created, tags, street, zip, note } = self;
        format!(
            r#"{{"id":{id},"name":"{name}","email":"{email}","city":"{city}","country":"{country}","amount":{amount},"risk":{risk},"active":{active},"created":"{created}","tags":["{}","{}","{}"],"address":{{"street":"{street}","zip":"{zip}"}},"note":"{note}","source":"imported from the old system"}}"#,
            tags[0], tags[1], tags[2],
        )
    }
}

fn people() -> Vec<Person> {
    (0..RECORDS).map(Person::new).collect()
}

fn text(people: &[Person]) -> String {
    let records: Vec<String> = people.iter().map(Person::text).collect();
    format!("[{}]", records.join(","))
}

/// On `auto` the engine knows the program: one sample at least comes before those that count.
pub(super) fn measure(meter: &Meter, program: &Program, choice: EngineChoice) -> anyhow::Result<Samples> {
    let people = people();
    let (data, expected) = (text(&people), (program.expected)(&people));
    let started =
        if choice == EngineChoice::QuickJs { EngineWithRuntime::start(Engine::builder())? } else { with_v8()? };
    meter.sample(|| run(&started, &request(program, &data, choice), &expected))
}

/// On `auto`, each time for a caller whose program the engine does not know.
pub(super) fn measure_first(meter: &Meter, program: &Program) -> anyhow::Result<Samples> {
    let people = people();
    let (data, expected) = (text(&people), (program.expected)(&people));
    let started = with_v8()?;
    let mut callers = new_callers();
    meter.sample(|| {
        let request = Request { caller: callers.next(), ..request(program, &data, EngineChoice::Auto) };
        run(&started, &request, &expected)
    })
}

/// Whether the engine knows a program before a sample of [`auto_to_better`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Familiarity {
    /// It was run by the same caller before.
    Known,
    /// It was not.
    New,
}

/// `auto` in percent of the better of both interpreters, one program after another.
pub(super) fn auto_to_better(meter: &Meter, familiarity: Familiarity) -> anyhow::Result<Samples> {
    let people = people();
    let data = text(&people);
    let started = with_v8()?;
    let (mut callers, mut programs) = (new_callers(), PROGRAMS.iter().cycle());
    meter.sample(|| {
        let program = programs.next().context("no program")?;
        let (caller, expected) = (callers.next(), (program.expected)(&people));
        let time = |choice| {
            let request = Request { caller: caller.clone(), ..request(program, &data, choice) };
            run(&started, &request, &expected)
        };
        let better = time(EngineChoice::QuickJs)?.min(time(EngineChoice::V8)?);
        if familiarity == Familiarity::Known {
            time(EngineChoice::Auto)?;
        }
        Ok(100.0 * time(EngineChoice::Auto)? / better)
    })
}

fn request(program: &Program, data: &str, choice: EngineChoice) -> Request {
    // A slow build is to be measured, not stopped.
    let limits = LimitRequest { wall: Some(Duration::from_secs(60)), result: Some(8 << 20), ..LimitRequest::default() };
    let request = Request::new(Profile::Compute, program.code);
    Request { limits, engine: Some(choice), data: Some(data.to_owned()), ..request }
}

fn run(started: &EngineWithRuntime, request: &Request, expected: &str) -> anyhow::Result<f64> {
    if request.engine != Some(EngineChoice::QuickJs) {
        std::thread::sleep(WARM_UP);
    }
    // The copy that the caller gives away is the caller's, not the engine's.
    let request = request.clone();
    timed(expected, || started.engine.run_blocking(request))
}

/// All of them.
const PROGRAMS: [Program; 21] = [
    FILTER,
    COUNT,
    GROUP,
    SORT,
    SORT_NAMES,
    DESTRUCTURE,
    SPREAD,
    ENTRIES,
    NESTED,
    FLAT_MAP,
    REGEX,
    WORDS_OF_NOTES,
    STRINGIFY,
    ROUND_TRIP,
    CLONE,
    MUTATE,
    JOIN,
    PERCENTILES,
    CSV,
    BY_MONTH,
    THIRD,
];

pub(super) const FILTER: Program = Program {
    code: "(data) => data.filter(d => d.risk > 90).map(d => d.name)",
    expected: |people| json!(people.iter().filter(|p| p.risk > 90).map(|p| &p.name).collect::<Vec<_>>()).to_string(),
};

pub(super) const COUNT: Program = Program {
    code: "(data) => { const n = {}; for (const d of data) n[d.country] = (n[d.country] ?? 0) + 1;
        return Object.entries(n).sort(([a], [b]) => (a < b ? -1 : 1)) }",
    expected: |people| {
        let mut counts = BTreeMap::<_, u32>::new();
        people.iter().for_each(|p| *counts.entry(p.country).or_default() += 1);
        json!(counts.into_iter().collect::<Vec<_>>()).to_string()
    },
};

pub(super) const GROUP: Program = Program {
    code: "(data) => { const groups = {}; for (const d of data) (groups[d.city] ??= []).push(d);
        return Object.keys(groups).sort().map(city => [city, groups[city].length, groups[city].reduce((s, d) => s + d.amount, 0)]) }",
    expected: |people| {
        let mut groups = BTreeMap::<_, (u32, f64)>::new();
        for p in people {
            let group = groups.entry(p.city).or_default();
            *group = (group.0 + 1, group.1 + p.amount);
        }
        let rows: Vec<String> =
            groups.into_iter().map(|(city, (count, sum))| format!(r#"["{city}",{count},{sum}]"#)).collect();
        format!("[{}]", rows.join(","))
    },
};

pub(super) const SORT: Program = Program {
    code: "(data) => [...data].sort((a, b) => b.amount - a.amount || a.id - b.id).slice(0, 5).map(d => d.id)",
    expected: |people| {
        let mut sorted: Vec<&Person> = people.iter().collect();
        sorted.sort_by(|a, b| b.amount.total_cmp(&a.amount).then(a.id.cmp(&b.id)));
        json!(sorted.iter().take(5).map(|p| p.id).collect::<Vec<_>>()).to_string()
    },
};

pub(super) const SORT_NAMES: Program = Program {
    code: "(data) => [...data].sort((a, b) => a.city.localeCompare(b.city) || b.name.localeCompare(a.name)).slice(0, 3).map(d => d.name)",
    expected: |people| {
        let mut sorted: Vec<&Person> = people.iter().collect();
        sorted.sort_by(|a, b| a.city.cmp(b.city).then(b.name.cmp(&a.name)));
        json!(sorted.iter().take(3).map(|p| &p.name).collect::<Vec<_>>()).to_string()
    },
};

pub(super) const DESTRUCTURE: Program = Program {
    code: "(data) => { let sum = 0; for (const { id, risk, active } of data) if (active) sum += (id % 10) + risk; return sum }",
    expected: |people| people.iter().filter(|p| p.active).map(|p| p.id % 10 + p.risk).sum::<u32>().to_string(),
};

pub(super) const SPREAD: Program = Program {
    code: "(data) => data.map(d => ({ ...d, double: d.risk * 2 })).reduce((s, d) => s + d.double + d.tags.length, 0)",
    expected: |people| people.iter().map(|p| p.risk * 2 + 3).sum::<u32>().to_string(),
};

pub(super) const ENTRIES: Program = Program {
    code: "(data) => { let length = 0;
        for (const d of data) for (const [key, value] of Object.entries(d)) if (typeof value === 'string') length += key.length + value.length;
        return length }",
    expected: |people| {
        const KEYS: usize = "name".len() + "email".len() + "city".len() + "country".len() + "created".len() + "note".len();
        const SOURCE: usize = "source".len() + "imported from the old system".len();
        let texts = |p: &Person| [&p.name, &p.email, &p.created, &p.note].iter().map(|text| text.len()).sum::<usize>();
        let length = |p: &Person| KEYS + SOURCE + texts(p) + p.city.len() + p.country.len();
        people.iter().map(length).sum::<usize>().to_string()
    },
};

pub(super) const NESTED: Program = Program {
    code: "(data) => new Set(data.filter(d => d.address.zip.startsWith('00')).map(d => d.address.street)).size",
    expected: |people| {
        let streets: BTreeSet<_> = people.iter().filter(|p| p.zip.starts_with("00")).map(|p| &p.street).collect();
        streets.len().to_string()
    },
};

pub(super) const FLAT_MAP: Program = Program {
    code: "(data) => { const all = data.flatMap(d => d.tags); return [all.length, new Set(all).size] }",
    expected: |people| {
        let all: BTreeSet<_> = people.iter().flat_map(|p| &p.tags).collect();
        json!([3 * people.len(), all.len()]).to_string()
    },
};

pub(super) const REGEX: Program = Program {
    code: r"(data) => data.filter(d => /^user\d*7@example\.com$/.test(d.email)).length",
    expected: |people| people.iter().filter(|p| p.id % 10 == 7).count().to_string(),
};

pub(super) const WORDS_OF_NOTES: Program = Program {
    code: "(data) => { const counts = new Map();
        for (const d of data) for (const word of d.note.split(' ')) counts.set(word, (counts.get(word) ?? 0) + 1);
        return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 3) }",
    expected: |people| {
        let mut counts = BTreeMap::<_, u32>::new();
        people.iter().flat_map(|p| p.note.split(' ')).for_each(|word| *counts.entry(word).or_default() += 1);
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        json!(counts.into_iter().take(3).collect::<Vec<_>>()).to_string()
    },
};

pub(super) const STRINGIFY: Program =
    Program { code: "(data) => JSON.stringify(data).length", expected: |people| text(people).len().to_string() };

pub(super) const ROUND_TRIP: Program = Program {
    code: "(data) => JSON.parse(JSON.stringify(data)).reduce((s, d) => s + d.risk, 0)",
    expected: |people| people.iter().map(|p| p.risk).sum::<u32>().to_string(),
};

pub(super) const CLONE: Program = Program {
    code: "(data) => { const copy = structuredClone(data); copy[7].name = 'changed'; copy[7].tags.push('new');
        return [copy.length, copy[7].name, data[7].name, data[7].tags.length] }",
    expected: |people| json!([people.len(), "changed", people[7].name, 3]).to_string(),
};

pub(super) const MUTATE: Program = Program {
    code: "(data) => { for (const d of data) d.level = d.risk > 50 ? 'high' : 'low'; return data.filter(d => d.level === 'high').length }",
    expected: |people| people.iter().filter(|p| p.risk > 50).count().to_string(),
};

pub(super) const JOIN: Program = Program {
    code: "(data) => { const by = new Map(data.map(d => [d.id, d]));
        return data.reduce((n, d) => n + (by.get((d.id * 7) % data.length).risk > d.risk ? 1 : 0), 0) }",
    expected: |people| {
        let by: HashMap<u32, u32> = people.iter().map(|p| (p.id, p.risk)).collect();
        people.iter().filter(|p| by.get(&(p.id * 7 % RECORDS)) > Some(&p.risk)).count().to_string()
    },
};

pub(super) const PERCENTILES: Program = Program {
    code: "(data) => { const sorted = data.map(d => d.amount).sort((a, b) => a - b);
        return [50, 90, 99].map(p => sorted[Math.floor(sorted.length * p / 100)]) }",
    expected: |people| {
        let mut sorted: Vec<f64> = people.iter().map(|p| p.amount).collect();
        sorted.sort_by(f64::total_cmp);
        let at = [50, 90, 99].map(|percent| sorted[sorted.len() * percent / 100].to_string());
        format!("[{}]", at.join(","))
    },
};

pub(super) const CSV: Program = Program {
    code: r#"(data) => data.map(d => [d.id, `"${d.name}"`, d.city, d.amount, d.active].join(',')).join('\n').length"#,
    expected: |people| {
        let line = |p: &Person| format!("{},\"{}\",{},{},{}", p.id, p.name, p.city, p.amount, p.active);
        people.iter().map(line).collect::<Vec<_>>().join("\n").len().to_string()
    },
};

pub(super) const BY_MONTH: Program = Program {
    code: "(data) => { const months = {};
        for (const d of data) { const month = (months[d.created.slice(0, 7)] ??= { n: 0, risk: 0 }); month.n++; month.risk += d.risk }
        return Object.entries(months).sort(([a], [b]) => (a < b ? -1 : 1)).map(([month, { n, risk }]) => [month, n, risk]) }",
    expected: |people| {
        let mut months = BTreeMap::<_, (u32, u32)>::new();
        for p in people {
            let month = months.entry(&p.created[..7]).or_default();
            *month = (month.0 + 1, month.1 + p.risk);
        }
        json!(months.into_iter().map(|(month, (n, risk))| (month, n, risk)).collect::<Vec<_>>()).to_string()
    },
};

pub(super) const THIRD: Program = Program {
    code: "(data) => data.filter((_, i) => i % 3 === 0)",
    expected: |people| {
        let records: Vec<String> = people.iter().step_by(3).map(Person::text).collect();
        format!("[{}]", records.join(","))
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_what_the_rows_say() {
        let text = text(&people());
        let record = text.len() / RECORDS as usize;
        assert!((310..=320).contains(&record), "{record} bytes");
        let parsed: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(parsed.as_array().map(Vec::len), Some(RECORDS as usize));
        assert_eq!(parsed[7]["name"], "Customer 000007");
    }
}
