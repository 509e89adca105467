//! The process that workers are forked from.
//!
//! It builds the interpreter once, gives up everything that no worker may have, and from then on only forks: a message on
//! its control socket carries the socket of one worker. It never reads guest code and never communicates with a worker.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use toolgate_wire::frame::Layers;
use toolgate_wire::{FromWorker, Start, ToWorker};

use crate::channel::{Channel, ReceiveBuffer};
use crate::hugepages;
use crate::lockdown::{self, Filter, Reuse, Side, Without};
use crate::sandbox::Sandbox;

/// How soon a worker is needed: the one byte of the message that asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// A run waits for it, or soon will.
    Now = 1,
    /// It is forked ahead of its run, and has time to warm up.
    Ahead = 2,
}

impl Pace {
    fn of(byte: u8) -> Self {
        if byte == Pace::Ahead as u8 { Pace::Ahead } else { Pace::Now }
    }
}

/// What a worker does with its program: [`run`], but in tests of the lockdown.
pub(crate) type Work = fn(Sandbox, Start, Rc<Channel>);

/// What every fork starts with.
struct Worker {
    sandbox: Sandbox,
    buffer: ReceiveBuffer,
    filter: Option<Filter>,
    layers: Layers,
    work: Work,
}

/// Serves the control socket until the host closes it.
pub(crate) fn serve(without: Without, reuse: Reuse, work: Work) -> ! {
    lockdown::reset_inherited_state();
    let control = lockdown::control_socket();
    if let Ok(sandbox) = Sandbox::new() {
        hugepages::move_code(|| sandbox.warm_up());
        let (layers, filter) = lockdown::lock_down_zygote(without, reuse);
        let worker = Worker { sandbox, buffer: ReceiveBuffer::default(), filter, layers, work };
        consolidate_heap();
        fork_on_demand(&control, worker);
    }
    lockdown::exit_now()
}

/// Allocates and frees a large block, which makes malloc consolidate its free lists and raise its mmap threshold. Done once
/// here, so that no fork writes to pages all over the heap for it.
fn consolidate_heap() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(1024 * 1024)));
}

/// Writes to memory that a program is likely to use, so that its page faults are paid while nothing waits. Freed, it stays
/// with the allocator.
fn prefault_heap() {
    const BYTES: usize = 384 * 1024;
    drop(std::hint::black_box(vec![1_u8; BYTES]));
}

fn fork_on_demand(control: &OwnedFd, worker: Worker) {
    while let Ok(Some((socket, pace))) = next_order(control) {
        // When the fork fails the socket closes, which the host notices.
        if let Ok(Side::Worker) = lockdown::fork_sibling() {
            worker.serve_one_run(socket, pace);
            lockdown::exit_now();
        }
    }
}

/// The next worker's socket, and how soon it is needed; `None` when the host has closed the control socket.
fn next_order(control: &OwnedFd) -> io::Result<Option<(OwnedFd, Pace)>> {
    let mut byte = [0u8; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    loop {
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(control, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        match received {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(_) => {}
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut sockets) = message
                && let Some(socket) = sockets.next()
            {
                return Ok(Some((socket, Pace::of(byte[0]))));
            }
        }
    }
}

impl Worker {
    /// Locks down, reports the layers, waits for a program, sets its limits and runs it.
    fn serve_one_run(mut self, socket: OwnedFd, pace: Pace) {
        let pid = lockdown::process_id();
        if lockdown::lock_down_worker(socket, self.filter.as_ref(), &mut self.layers).is_err() {
            return;
        }
        let socket = std::fs::File::from(lockdown::control_socket());
        let channel = Rc::new(Channel::new(Box::new(socket), self.buffer));
        if channel.send(&FromWorker::Ready { pid, layers: self.layers }).and_then(|()| channel.flush()).is_err() {
            return;
        }
        if pace == Pace::Ahead {
            // Page faults and lazy initialisation that happen now cost no caller anything.
            self.sandbox.warm_up();
            prefault_heap();
        }
        if let Ok(ToWorker::Start(start)) = channel.receive(|_| true) {
            // Before the code is looked at. Without a filter the host sends none.
            lockdown::limit_run(&start.limits);
            (self.work)(self.sandbox, *start, channel);
        }
    }
}

/// Runs the program and sends its end.
pub(crate) fn run(sandbox: Sandbox, start: Start, channel: Rc<Channel>) {
    let done = sandbox.run(start, channel.clone(), None);
    let _ = channel.send(&done).and_then(|()| channel.flush());
    // Waits to be killed: tearing the process down now would take the core from the host, which has the answer.
    let _ = channel.receive(|_| false);
    lockdown::exit_now()
}
