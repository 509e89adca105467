//! Sessions of the RPC bridge: in memory, and in a real Redis.

mod memory;
mod redis;
#[path = "../support/redis.rs"]
mod redis_server;
