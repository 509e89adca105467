//! The untrusted side: an interpreter, its prelude and its lockdown.
//!
//! A process that runs this code is assumed to be controlled by the program in it. The crate knows no configuration, secret,
//! network or MCP: what it links is what a hostile program can reach.
//!
//! # Layout
//! - `zygote`: builds the interpreter once and forks a worker for each run
//! - `hugepages`: moves this program's code to huge pages, which forks share
//! - [`lockdown`]: seccomp, landlock, namespaces, capabilities and limits, for workers and for a jailed `deno`
//! - `sandbox`: one interpreter and one run of it; [`prelude`] is its JavaScript side
//! - `state`, `natives`, `calls`: a run's state, the functions that the prelude calls, and host calls without an answer yet
//! - [`data`]: JSON to values and back
//! - `globals`: global names that are looked up on first use
//! - `memory`: the metered allocator
//! - `random`: the generators of `Math.random` and `crypto`
//! - `rejections`: unhandled promise rejections
//! - `web`: URLs and query strings
//! - `channel`: frames over the worker's socket

#![deny(unsafe_code)]
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only a zygote uses what prepares an interpreter, and zygotes exist on Linux alone")
)]

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use toolgate_wire::{FromWorker, ToWorker};

pub use channel::{Broken, Socket};
pub use memory::give_back_freed_memory;

mod calls;
mod channel;
pub mod data;
#[allow(unsafe_code, reason = "decision 5")]
mod globals;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "decision 5")]
mod hugepages;
#[allow(unsafe_code, reason = "decision 5")]
pub mod lockdown;
#[allow(unsafe_code, reason = "decision 5")]
mod memory;
mod natives;
pub mod prelude;
mod random;
mod rejections;
mod sandbox;
mod state;
mod web;
#[cfg(target_os = "linux")]
mod zygote;
#[cfg(target_os = "linux")]
pub use zygote::Pace;

/// The name that a zygote is started under, as its first argument; then the layers to leave off, and whether workers may be
/// used again.
pub const ZYGOTE: &str = "toolgate-zygote";

/// The name that a jail is started under, as its first argument; then the layers to leave off, the bytes
/// of private memory, the program to become, and what that is given.
pub const JAIL: &str = "toolgate-jail";

/// The same for a program that reads files of its own folder, as a TypeScript compiler does. It is not told the layers.
pub const FOLDER_JAIL: &str = "toolgate-folder-jail";

static PREPARED: AtomicBool = AtomicBool::new(false);
static CALLED_LATE: AtomicBool = AtomicBool::new(false);

/// Becomes the zygote or a jail, if this process was started as one; otherwise returns at once.
///
/// The first line of `main` in every program that runs code in processes of its own: the engine
/// starts that same program again to get its zygote. No other thread may exist yet, so in the body of a
/// `#[tokio::main]` function with its usual threads it is too late, and the engine says so. Workers of a program that is linked with
/// `-z max-page-size=2097152` start faster: all of its code can lie on huge pages, which they share.
pub fn take_over_if_asked() {
    PREPARED.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os();
    let is_ours = |name: &std::ffi::OsString| [ZYGOTE, JAIL, FOLDER_JAIL].iter().any(|ours| name == ours);
    let Some(name) = arguments.next().filter(is_ours) else {
        return CALLED_LATE.store(has_threads(), Ordering::Relaxed);
    };
    let without = arguments.next().map(|names| names.to_string_lossy().into_owned()).unwrap_or_default();
    let without = lockdown::Without::parse(&without);
    if name == ZYGOTE {
        become_zygote(without, reuse_of(arguments.next()))
    } else {
        become_jail(without, name == FOLDER_JAIL, arguments)
    }
}

/// As [`take_over_if_asked`], but workers pass the program's text to `act` instead of running it. They are locked down like
/// every worker, with the socket as descriptor 0: native code that tests the lockdown from inside.
#[cfg(all(target_os = "linux", feature = "test-worker"))]
pub fn take_over_as_test_worker(act: fn(&str)) {
    static ACT: std::sync::OnceLock<fn(&str)> = std::sync::OnceLock::new();
    PREPARED.store(true, Ordering::Relaxed);
    let _ = ACT.set(act);
    if std::env::args_os().next().is_some_and(|name| name == ZYGOTE) {
        let reuse = reuse_of(std::env::args_os().nth(2));
        zygote::serve(lockdown::Without::default(), reuse, |_sandbox, start, _channel| {
            if let Some(act) = ACT.get() {
                act(&start.code);
            }
            lockdown::exit_now()
        });
    }
}

fn reuse_of(argument: Option<std::ffi::OsString>) -> lockdown::Reuse {
    lockdown::Reuse::parse(&argument.unwrap_or_default().to_string_lossy())
}

/// Whether this process called [`take_over_if_asked`], and so can be started again as a zygote.
pub fn can_take_over() -> bool {
    PREPARED.load(Ordering::Relaxed)
}

/// Whether [`take_over_if_asked`] was called when this process had other threads: a zygote with threads cannot be confined.
pub fn was_called_late() -> bool {
    CALLED_LATE.load(Ordering::Relaxed)
}

fn has_threads() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1)
}

#[cfg(target_os = "linux")]
fn become_zygote(without: lockdown::Without, reuse: lockdown::Reuse) {
    zygote::serve(without, reuse, zygote::run)
}

#[cfg(target_os = "linux")]
fn become_jail(without: lockdown::Without, with_folder: bool, mut arguments: std::env::ArgsOs) {
    use lockdown::jail::Reads;
    let memory = arguments.next().and_then(|bytes| bytes.to_string_lossy().parse().ok());
    if let (Some(memory), Some(program)) = (memory, arguments.next()) {
        let reads = if with_folder { Reads::ItsFolder } else { Reads::Itself };
        let jailed = lockdown::jail::JailedProgram { program, arguments: arguments.collect(), memory, reads };
        eprintln!("{}", lockdown::jail::execute(jailed, without));
    }
    std::process::exit(1)
}

#[cfg(not(target_os = "linux"))]
fn become_zygote(_: lockdown::Without, _: lockdown::Reuse) {
    std::process::exit(1)
}

#[cfg(not(target_os = "linux"))]
fn become_jail(_: lockdown::Without, _: bool, _: std::env::ArgsOs) {
    std::process::exit(1)
}

/// Runs one program on this thread: the same interpreter, without lockdown.
///
/// The interpreter checks `cancelled` every few thousand steps, but not inside one long native operation.
pub fn run_on_this_thread(socket: Box<dyn Socket>, cancelled: Arc<AtomicBool>) -> Result<(), Broken> {
    let channel = Rc::new(channel::Channel::new(socket, channel::ReceiveBuffer::default()));
    let sandbox = sandbox::Sandbox::new().map_err(|_| Broken::Closed)?;
    channel.send(&FromWorker::Ready { pid: 0, layers: Default::default() })?;
    if let ToWorker::Start(start) = channel.receive(|_| true)? {
        let done = sandbox.run(*start, channel.clone(), Some(cancelled));
        channel.send(&done)?;
        channel.flush()?;
    }
    Ok(())
}
