//! Runs the guest code on a thread of this process.
//!
//! For platforms without process mode, and for embedders that choose it. Only the interpreter isolates the program: a
//! bug in the interpreter is a bug in the host, and an operation that never checks the clock keeps its thread until it
//! ends.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::clock::CpuClock;
use crate::pump::{Driven, Job, drive};
use crate::socket::WorkerSocket;

/// Stack of the thread: the largest stack limit of a run, and native recursion on top.
const STACK_SIZE: usize = 16 * 1024 * 1024;

/// A function that ends the run from outside.
pub(crate) type Stop = Box<dyn Fn() + Send + Sync>;

/// Runs the program on a new thread.
///
/// `on_cancel` registers the function that ends the run, for as long as its result lives. That function sets a flag
/// which the interpreter checks.
pub(crate) fn run<R>(job: Job, on_cancel: impl FnOnce(Stop) -> R) -> std::io::Result<Driven> {
    let (ours, theirs) = UnixStream::pair()?;
    let abandoned = Arc::new(AtomicBool::new(false));
    let flag = abandoned.clone();
    let socket = std::fs::File::from(OwnedFd::from(theirs));
    let clock: Arc<OnceLock<Option<CpuClock>>> = Arc::default();
    let own = clock.clone();
    std::thread::Builder::new().name("toolgate-guest".into()).stack_size(STACK_SIZE).spawn(move || {
        own.get_or_init(CpuClock::of_this_thread);
        // The socket is broken when the pump has given up the run; then no one needs the error.
        let _ = toolgate_guest::run_on_this_thread(Box::new(socket), flag);
    })?;
    let (flag, stream) = (abandoned.clone(), ours.try_clone()?);
    let _registered = on_cancel(Box::new(move || {
        flag.store(true, Ordering::Relaxed);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }));
    let mut socket = WorkerSocket::new(ours)?;
    let driven = match socket.hello(job.deadline) {
        // It has a clock before it says hello.
        Ok(_) => drive(&mut socket, job, clock.get().cloned().flatten(), None),
        Err(lost) => Driven::lost(lost),
    };
    abandoned.store(true, Ordering::Relaxed);
    Ok(driven)
}
