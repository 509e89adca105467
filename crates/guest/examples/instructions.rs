//! Runs one program over generated records on this thread, so that `valgrind --tool=callgrind` counts the instructions of the
//! guest alone: they are the same on a machine with other work, where times by the clock say nothing.
//!
//! ```sh
//! cargo build --release --config profile.release.lto=false --package toolgate-guest --example instructions
//! valgrind --tool=callgrind --toggle-collect='toolgate_guest::sandbox::Sandbox::run' \
//!   target/release/examples/instructions people 2000 '(data) => data.length'
//! ```
//!
//! The first argument is the kind of records: `people` of 315 bytes or `customers` of 150, as the rows of `toolgate bench` have
//! them, or `reply` for `customers` that arrive as the answer to the call `api.records()`. The last is a function.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::cell::RefCell;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use toolgate_guest::{Socket, run_on_this_thread};
use toolgate_wire::codec::{self, HEADER, MAX_FROM_WORKER};
use toolgate_wire::frame::Seed;
use toolgate_wire::{FromWorker, Limits, Profile, Start, ToWorker};

const USAGE: &str = "instructions people|customers|reply COUNT CODE";
/// A run under callgrind takes about fifty times as long as without.
const WALL: Duration = Duration::from_secs(600);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, count, code] = arguments.as_slice() else { return Err(USAGE.into()) };
    let count: u32 = count.parse().map_err(|_| USAGE)?;
    let host = match kind.as_str() {
        "people" => Host::with_data(code, list(count, person)),
        "customers" => Host::with_data(code, list(count, customer)),
        "reply" => Host::with_reply(code, list(count, customer)),
        _ => return Err(USAGE.into()),
    };
    run_on_this_thread(Box::new(host), Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

fn list(count: u32, record: fn(u32) -> String) -> String {
    let records: Vec<String> = (0..count).map(record).collect();
    format!("[{}]", records.join(","))
}

/// A record of the rows `natural`.
fn person(id: u32) -> String {
    const PLACES: [(&str, &str); 5] =
        [("Berlin", "DE"), ("Paris", "FR"), ("Roma", "IT"), ("Madrid", "ES"), ("Wien", "AT")];
    const WORDS: [&str; 8] = ["late", "order", "paid", "refund", "call", "again", "open", "invoice"];
    let number = id.wrapping_mul(2_654_435_761) >> 7;
    let (city, country) = PLACES[(number % 5) as usize];
    let word = |shift: u32| WORDS[(number >> shift) as usize % WORDS.len()];
    format!(
        r#"{{"id":{id},"name":"Customer {id:06}","email":"user{id}@example.com","city":"{city}","country":"{country}","amount":{},"risk":{},"active":{},"created":"2025-{:02}-{:02}T10:00:00Z","tags":["a{}","b{}","c"],"address":{{"street":"Street {}","zip":"{:05}"}},"note":"{} {} {} {}","source":"imported from the old system"}}"#,
        f64::from(number % 40_000) / 4.0,
        number % 100,
        number.is_multiple_of(3),
        number % 12 + 1,
        number % 28 + 1,
        number % 7,
        number % 11,
        number % 200,
        number % 90_000,
        word(0),
        word(3),
        word(6),
        word(9),
    )
}

/// A record of the rows `data` and `reply-1mb`.
fn customer(n: u32) -> String {
    format!(
        r#"{{"id":{n},"name":"Customer {n:06}","email":"customer.{n:06}@example.com","risk":{},"country":"NO","balance":{}.25,"active":{},"tags":["a","b"]}}"#,
        n.wrapping_mul(2_654_435_761) / 7 % 100,
        n % 10_000,
        n.is_multiple_of(3),
    )
}

/// The host of one program. It answers every call with the same text and prints how the program ends.
struct Host {
    reply: Vec<u8>,
    streams: RefCell<Streams>,
}

/// Bytes that the guest has not read, and those of a frame that it has not written completely.
struct Streams {
    to_guest: Vec<u8>,
    read: usize,
    from_guest: Vec<u8>,
}

impl Host {
    fn with_data(code: &str, data: String) -> Self {
        let mut to_guest = started(Profile::Compute, code, Some(data.len() as u64));
        to_guest.extend_from_slice(data.as_bytes());
        Self::new(to_guest, Vec::new())
    }

    fn with_reply(code: &str, reply: String) -> Self {
        Self::new(started(Profile::Chain, code, None), reply.into_bytes())
    }

    fn new(to_guest: Vec<u8>, reply: Vec<u8>) -> Self {
        let streams = Streams { to_guest, read: 0, from_guest: Vec::new() };
        Host { reply, streams: RefCell::new(streams) }
    }

    fn handle(&self, frame: FromWorker, to_guest: &mut Vec<u8>) {
        match frame {
            FromWorker::Call { id, .. } => {
                let reply = ToWorker::Reply { id, now: 0.0, body: Ok(self.reply.clone()) };
                codec::encode_to_worker(&reply, to_guest);
            }
            FromWorker::Done { end, memory, .. } => println!("{end:?}, {memory} bytes"),
            _ => {}
        }
    }
}

/// The first frame that a guest gets.
fn started(profile: Profile, code: &str, data: Option<u64>) -> Vec<u8> {
    let start = Start {
        profile,
        limits: Limits { wall: WALL, ..Limits::of(profile) },
        seed: Seed::from(1),
        now: 0.0,
        code: format!("({code})"),
        data,
        functions: vec!["records".to_owned()],
        tools: false,
        named: Vec::new(),
    };
    let mut bytes = Vec::new();
    codec::encode_to_worker(&ToWorker::Start(Box::new(start)), &mut bytes);
    bytes
}

impl Socket for Host {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut streams = self.streams.borrow_mut();
        let rest = &streams.to_guest[streams.read..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        streams.read += count;
        Ok(count)
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut streams = self.streams.borrow_mut();
        let Streams { to_guest, from_guest, .. } = &mut *streams;
        from_guest.extend_from_slice(bytes);
        while let Some(header) = from_guest.first_chunk::<HEADER>() {
            let length = codec::frame_length(*header, MAX_FROM_WORKER).map_err(io::Error::other)?;
            let Some(payload) = from_guest.get(HEADER..HEADER + length) else { break };
            self.handle(codec::decode_from_worker(payload).map_err(io::Error::other)?, to_guest);
            from_guest.drain(..HEADER + length);
        }
        Ok(())
    }
}
