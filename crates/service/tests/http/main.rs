//! The HTTP service over real sockets, with a real engine behind it.
//!
//! The engine starts this program again as its zygote, which the usual test harness can't be. So it has a main
//! function of its own; and it is also, where a test needs one, a second server process, a crowd of clients that do nothing, and a process to be killed.

mod admission;
mod decisions;
mod durable;
mod harness;
mod orphans;
mod page;
mod processes;
#[path = "../support/redis.rs"]
mod redis_server;
mod replicas;
mod runs;
mod server;
mod sessions;
mod support;
mod webhooks;
mod websocket;

use harness::Case;

fn main() -> std::process::ExitCode {
    toolgate_guest::take_over_if_asked();
    if processes::is_one() {
        return processes::play();
    }
    let all: Vec<Case> = [
        runs::cases(),
        durable::cases(),
        decisions::cases(),
        webhooks::cases(),
        admission::cases(),
        sessions::cases(),
        replicas::cases(),
        websocket::cases(),
        server::cases(),
        page::cases(),
        orphans::cases(),
    ]
    .concat();
    harness::run(&all)
}
