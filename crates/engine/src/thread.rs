//! The same guest code on a thread of this process.
//!
//! For platforms without process mode and for embedders who ask for it by name. Nothing confines
//! the program but the interpreter: a bug in it is a bug in the host, and an operation that never
//! looks at the clock holds its thread to its end.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::pump::{Driven, Job, drive};
use crate::socket::Wire;

/// Room for the interpreter's own stack limit and for native recursion on top.
const STACK: usize = 16 * 1024 * 1024;

/// What ends the run from outside.
pub(crate) type Stop = Box<dyn Fn() + Send + Sync>;

/// Runs the program on a fresh thread. Cancelling raises a flag that the interpreter looks at.
///
/// `on_cancel` registers what is to be done then, for as long as its result lives.
pub(crate) fn run<R>(job: Job, on_cancel: impl FnOnce(Stop) -> R) -> std::io::Result<Driven> {
    let (ours, theirs) = UnixStream::pair()?;
    let abandoned = Arc::new(AtomicBool::new(false));
    let flag = abandoned.clone();
    let socket = std::fs::File::from(OwnedFd::from(theirs));
    std::thread::Builder::new().name("toolgate-guest".into()).stack_size(STACK).spawn(move || {
        // A broken socket means that the pump gave up; there is nobody to tell.
        let _ = toolgate_guest::run_on_this_thread(Box::new(socket), flag);
    })?;
    let (flag, stream) = (abandoned.clone(), ours.try_clone()?);
    let _registered = on_cancel(Box::new(move || {
        flag.store(true, Ordering::Relaxed);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }));
    let mut wire = Wire::new(ours)?;
    let driven = match wire.hello(job.deadline) {
        Ok(_) => drive(&mut wire, job, None),
        Err(lost) => Driven::lost(lost),
    };
    abandoned.store(true, Ordering::Relaxed);
    Ok(driven)
}
