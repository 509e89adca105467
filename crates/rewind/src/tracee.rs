//! A process that this thread traces and that is stopped.

use libc::pid_t;

use crate::Refusal;
use crate::kernel::{self, Stop};
use crate::registers::General;

/// A stopped process. It is killed if it is dropped before [`Tracee::release`].
///
/// The kernel ties it to the thread that stopped it, so it stays on that thread.
pub(crate) struct Tracee {
    pid: pid_t,
    released: bool,
    _stays_on_its_thread: std::marker::PhantomData<*const ()>,
}

/// System calls that a process makes at most before it waits for its first message.
const MAX_CALLS_BEFORE_WAIT: u32 = 10_000;

impl Tracee {
    /// Stops a child at its next return from the kernel.
    pub(crate) fn stop(pid: pid_t) -> Result<Self, Refusal> {
        kernel::seize(pid).map_err(|error| Refusal::Kernel("tracing", error))?;
        let tracee = Tracee { pid, released: false, _stays_on_its_thread: std::marker::PhantomData };
        tracee.interrupt()?;
        tracee.expect(Stop::Told)?;
        Ok(tracee)
    }

    fn interrupt(&self) -> Result<(), Refusal> {
        kernel::interrupt(self.pid).map_err(|error| Refusal::Kernel("stopping", error))
    }

    fn expect(&self, expected: Stop) -> Result<(), Refusal> {
        match kernel::wait(self.pid).map_err(|error| Refusal::Kernel("waiting", error))? {
            stop if stop == expected => Ok(()),
            Stop::Ended => Err(Refusal::Ended),
            _ => Err(Refusal::Stop),
        }
    }

    /// Has the process run until it waits for a message; returns the registers with which it begins to wait.
    pub(crate) fn run_to_wait(&self) -> Result<General, Refusal> {
        for _ in 0..MAX_CALLS_BEFORE_WAIT {
            let registers = General::of(self.pid)?;
            if let Some(before) = registers.before_wait() {
                return Ok(before);
            }
            if registers.is_at_wait() {
                // It has not begun to wait: has it stop as soon as it does.
                self.interrupt()?;
                kernel::resume(self.pid).map_err(|error| Refusal::Kernel("resuming", error))?;
                self.expect(Stop::Told)?;
            } else {
                kernel::resume_to_call(self.pid).map_err(|error| Refusal::Kernel("resuming", error))?;
                self.expect(Stop::Call)?;
            }
        }
        Err(Refusal::NotWaiting)
    }

    /// Has the process make a system call. `waiting` are the registers with which it begins to wait: the call is made by the
    /// same instruction.
    pub(crate) fn call(&self, waiting: &General, number: i64, first: u64, second: u64) -> Result<u64, Refusal> {
        let before = waiting.calling(number as u64, first, second);
        before.set(self.pid)?;
        kernel::step(self.pid).map_err(|error| Refusal::Kernel("resuming", error))?;
        self.expect(Stop::Signal(libc::SIGTRAP))?;
        General::of(self.pid)?.returned(&before).ok_or(Refusal::Stop)
    }

    pub(crate) fn pid(&self) -> pid_t {
        self.pid
    }

    /// Has the process run on, no longer traced.
    pub(crate) fn release(mut self) -> Result<(), Refusal> {
        self.released = true;
        kernel::detach(self.pid).map_err(|error| Refusal::Kernel("detaching", error))
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if !self.released {
            kernel::kill(self.pid);
        }
    }
}
