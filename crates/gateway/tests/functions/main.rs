//! Host functions and sessions over real sockets: nothing here is mocked but the names a resolver answers.

mod exchange;
mod limits;
mod redirects;
#[path = "../support/redis.rs"]
mod redis_server;
mod sessions;
mod sessions_redis;
mod ssrf;
mod support;
mod tls;
mod trusted;
