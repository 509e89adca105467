//! The process that workers are forks of.
//!
//! It builds the interpreter once, gives up everything that no worker shall have, and from then on
//! only forks: a message on its control socket carries the socket of one future worker. It never
//! reads guest code and never speaks to a worker.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use toolgate_wire::frame::Layers;
use toolgate_wire::{FromWorker, Start, ToWorker};

use crate::channel::{Channel, Room};
use crate::lockdown::{self, Filter, Side, Without};
use crate::own_code;
use crate::sandbox::Sandbox;

/// How soon a worker is needed: the one byte of the message that asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// A run waits for it, or will before long.
    Now = 1,
    /// It will wait for a run, and has the time to rehearse.
    Ahead = 2,
}

impl Pace {
    fn of(byte: u8) -> Self {
        if byte == Pace::Ahead as u8 { Pace::Ahead } else { Pace::Now }
    }
}

/// What a worker does with its program. `run` in every real one.
pub(crate) type Work = fn(Sandbox, Start, Rc<Channel>);

/// What every worker begins with.
struct Worker {
    sandbox: Sandbox,
    room: Room,
    filter: Option<Filter>,
    layers: Layers,
    work: Work,
}

/// Serves the control socket until the host closes it.
pub(crate) fn serve(without: Without, work: Work) -> ! {
    lockdown::shed_inheritance();
    let control = lockdown::control_socket();
    if let Ok(sandbox) = Sandbox::new() {
        own_code::to_huge_pages(|| sandbox.warm_up());
        let (layers, filter) = lockdown::settle(without);
        let worker = Worker { sandbox, room: Room::default(), filter, layers, work };
        tidy_up();
        fork_on_demand(&control, worker);
    }
    lockdown::exit_now()
}

/// A large allocation has the allocator put its small free pieces in order: done here, no fork does it by itself and
/// writes to pages all over the heap. And it learns that large pieces come and go, so that it keeps them at hand.
fn tidy_up() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(1024 * 1024)));
}

/// Touches memory that a program is likely to fill. It goes back to the allocator, which keeps it.
fn make_room() {
    const ROOM: usize = 384 * 1024;
    drop(std::hint::black_box(vec![1_u8; ROOM]));
}

fn fork_on_demand(control: &OwnedFd, worker: Worker) {
    while let Ok(Some((socket, pace))) = next_order(control) {
        // When the fork fails the socket closes, which is how the host learns of it.
        if let Ok(Side::Worker) = lockdown::fork_sibling() {
            worker.live(socket, pace);
            lockdown::exit_now();
        }
    }
}

/// The next worker's socket, and how soon it is needed; nothing when the host is gone.
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
    /// One worker's life: seal, say so, wait for a program, bound it, do it.
    fn live(mut self, socket: OwnedFd, pace: Pace) {
        let pid = lockdown::process_id();
        if lockdown::seal(socket, self.filter.as_ref(), &mut self.layers).is_err() {
            return;
        }
        let socket = std::fs::File::from(lockdown::control_socket());
        let channel = Rc::new(Channel::new(Box::new(socket), self.room));
        if channel.send(&FromWorker::Ready { pid, layers: self.layers }).and_then(|()| channel.flush()).is_err() {
            return;
        }
        if pace == Pace::Ahead {
            // While it waits, it touches what a program will touch: what is done now costs the caller nothing.
            self.sandbox.warm_up();
            make_room();
        }
        if let Ok(ToWorker::Start(start)) = channel.receive(|_| true) {
            // Without a filter the host sends no program; with one, no byte of it was looked at yet.
            lockdown::limit_run(&start.limits);
            (self.work)(self.sandbox, *start, channel);
        }
    }
}

/// Runs the program and tells how it ended.
pub(crate) fn run(sandbox: Sandbox, start: Start, channel: Rc<Channel>) {
    let done = sandbox.run(start, channel.clone(), None);
    let _ = channel.send(&done).and_then(|()| channel.flush());
    // It waits to be killed: an exit would keep this core from the host, which has its answer now.
    let _ = channel.receive(|_| false);
    lockdown::exit_now()
}
