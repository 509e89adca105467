//! Streams of events of a server: however a stream is cut into parts, the events are the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_mcp::fuzzing::events;

fuzz_target!(|input: (u16, &[u8])| events(input.1, usize::from(input.0)));
