//! Messages of MCP, as a server sends them to our client and as a client sends them to our server.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_mcp::fuzzing::{client_message, server_line};

fuzz_target!(|bytes: &[u8]| {
    server_line(bytes);
    client_message(bytes);
});
