//! Frames that an honest worker never sends.

use std::fs::File;
use std::io::{Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

use toolgate_wire::codec::encode_from_worker;
use toolgate_wire::frame::{End, Layers, Question, Stream, Target};
use toolgate_wire::{CallId, Code, FromWorker};

/// Ends the run with a text.
pub(crate) fn done(text: &str) {
    send(&ended(text));
}

/// The frame that ends the run with a text.
pub(crate) fn done_frame(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_from_worker(&ended(text), &mut bytes);
    bytes
}

/// Calls a function and reads the reply.
pub(crate) fn echo() {
    echo_without_reading();
    receive();
}

/// Calls a function and does not read the reply.
pub(crate) fn echo_without_reading() {
    send(&call(1, "echo", "[\"unread\"]"));
}

fn ended(text: &str) -> FromWorker {
    FromWorker::Done { end: End::Returned(format!("{text:?}").into_bytes()), memory: 0, cpu: 0, dropped: 0 }
}

fn failed(code: Code, message: String) -> FromWorker {
    FromWorker::Done {
        end: End::Failed { code, message, line: u32::MAX, column: u32::MAX, class: None },
        memory: u64::MAX,
        cpu: u64::MAX,
        dropped: u64::MAX,
    }
}

/// Sends something that an honest worker never sends.
pub(crate) fn send_dishonest(what: &str) {
    match what {
        "nothing" => {}
        "nonsense" => write(&[7; 64]),
        "a-kind-that-is-none" => write(&[1, 0, 0, 0, 99]),
        "an-empty-frame" => write(&[0; 4]),
        "too-long" => write(&u32::MAX.to_le_bytes()),
        "longer-than-it-is" => write(&[200, 0, 0, 0, 5, 0]),
        "cut-off" => write(&[6, 0, 0, 0, 3, 1]),
        "trailing-bytes" => write(&[6, 0, 0, 0, 3, 1, 0, 0, 0, 9]),
        "a-text-that-is-none" => write(&[8, 0, 0, 0, 5, 0, 2, 0, 0, 0, 0xff, 0xfe]),
        "slowly" => slowly(),
        "slowly-for-ever" => loop {
            write(&[1, 0, 0, 0][..1]);
        },
        "ready-again" => send(&FromWorker::Ready { pid: 1, layers: Layers::default() }),
        "done-twice" => {
            send(&ended("first"));
            send(&ended("second"));
        }
        "done-then-a-call" => {
            send(&ended("first"));
            send(&call(1, "echo", "[1]"));
        }
        "not-json" => send(&FromWorker::Done { end: End::Returned(b"{nope".to_vec()), memory: 0, cpu: 0, dropped: 0 }),
        "not-utf8" => {
            send(&FromWorker::Done { end: End::Returned(vec![b'"', 0xff, b'"']), memory: 0, cpu: 0, dropped: 0 })
        }
        "two-values" => send(&FromWorker::Done { end: End::Returned(b"1 2".to_vec()), memory: 0, cpu: 0, dropped: 0 }),
        "a-result-too-large" => {
            let text = format!("\"{}\"", "x".repeat(20 * 1024 * 1024));
            send(&FromWorker::Done { end: End::Returned(text.into_bytes()), memory: 0, cpu: 0, dropped: 0 });
        }
        "a-message-too-long" => send(&failed(Code::Runtime, "m".repeat(30 * 1024 * 1024))),
        "unavailable" => send(&failed(Code::Unavailable, "forged".into())),
        "aborted" => send(&failed(Code::Aborted, "forged".into())),
        "invalid-code" => send(&failed(Code::InvalidCode, "forged".into())),
        "arguments-that-are-not-json" => send(&call(1, "echo", "[1,")),
        "arguments-that-are-not-text" => {
            send(&FromWorker::Call { id: CallId(1), target: Target::Function("echo".into()), args: vec![0xff] });
        }
        "arguments-too-long" => send(&call(1, "echo", &format!("[\"{}\"]", "x".repeat(20 * 1024 * 1024)))),
        "a-name-too-long" => send(&call(1, &"n".repeat(1024 * 1024), "[]")),
        "a-number-twice" => {
            send(&call(1, "never", "[]"));
            send(&call(1, "never", "[]"));
        }
        "a-number-again-after-its-answer" => {
            send(&call(1, "echo", "[\"one\"]"));
            receive();
            send(&call(1, "echo", "[\"two\"]"));
            receive();
            done("both were answered");
        }
        "calls-beyond-the-limit" => for_ever(|id| send(&call(id, "echo", "[]"))),
        "calls-in-flight-beyond-the-limit" => (0..200).for_each(|id| send(&call(id, "never", "[]"))),
        "an-unknown-function" => {
            send(&call(1, "nothingOfThatName", "[]"));
            done(if receive().contains("UNKNOWN") { "refused" } else { "carried out" });
        }
        "an-unknown-tool" => {
            let target = Target::Tool { backend: "bank".into(), tool: "transfer".into() };
            send(&FromWorker::Call { id: CallId(1), target, args: b"{}".to_vec() });
            done(if receive().contains("UNKNOWN") { "refused" } else { "carried out" });
        }
        "replies-never-read" => for_ever(|id| send(&call(id, "big", "[1000000]"))),
        "answers-never-read" => loop {
            send(&FromWorker::Ask(Question::Backend("large".into())));
        },
        "a-question-too-long" => send(&FromWorker::Ask(Question::InterfaceOf("q".repeat(1024 * 1024)))),
        "timers-for-ever" => for_ever(|id| send(&FromWorker::Timer { id: CallId(id), delay: 1e9 })),
        "timers-never-heard" => for_ever(|id| send(&FromWorker::Timer { id: CallId(id), delay: 0.0 })),
        "a-timer-twice" => (0..2).for_each(|_| send(&FromWorker::Timer { id: CallId(1), delay: 1e9 })),
        "a-timer-of-no-time" => {
            [f64::NAN, f64::NEG_INFINITY, f64::INFINITY, -0.0, f64::MAX].iter().zip(1..).for_each(|(delay, id)| {
                send(&FromWorker::Timer { id: CallId(id), delay: *delay });
            });
            done("armed");
        }
        "cancels-for-ever" => for_ever(|id| send(&FromWorker::Cancel { id: CallId(id) })),
        "half-a-frame-for-ever" => {
            // Never a moment at which the host's buffer is empty.
            let mut frames = Vec::new();
            (0..4096).for_each(|id| encode_from_worker(&FromWorker::Cancel { id: CallId(id) }, &mut frames));
            write(&frames[..4]);
            frames.rotate_left(4);
            loop {
                write(&frames);
            }
        }
        "lines-for-ever" => loop {
            send(&FromWorker::Log { stream: Stream::Stdout, text: "again".into() });
        },
        "a-line-too-long" => send(&FromWorker::Log { stream: Stream::Stderr, text: "l".repeat(10 * 1024 * 1024) }),
        other => done(&format!("nothing named {other}")),
    }
}

fn call(id: u32, function: &str, args: &str) -> FromWorker {
    FromWorker::Call { id: CallId(id), target: Target::Function(function.into()), args: args.as_bytes().to_vec() }
}

/// Sends without end, until the host kills this worker.
fn for_ever(send_one: impl Fn(u32)) {
    let mut id = 0;
    loop {
        send_one(id);
        id += 1;
    }
}

/// An honest answer, a byte at a time.
fn slowly() {
    let mut bytes = Vec::new();
    encode_from_worker(&ended("in the end"), &mut bytes);
    bytes.iter().for_each(|byte| write(&[*byte]));
}

fn send(frame: &FromWorker) {
    let mut bytes = Vec::new();
    encode_from_worker(frame, &mut bytes);
    write(&bytes);
}

/// What the host sends next, as far as it can be read as text.
fn receive() -> String {
    let mut buffer = vec![0; 64 * 1024];
    let got = socket().read(&mut buffer).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..got]).into_owned()
}

/// When the host has closed the socket, the attack is over.
pub(crate) fn write(bytes: &[u8]) {
    if socket().write_all(bytes).is_err() {
        std::process::abort();
    }
}

fn socket() -> ManuallyDrop<File> {
    // SAFETY: a worker's socket is descriptor 0 for as long as it lives; it is never closed here.
    ManuallyDrop::new(unsafe { File::from_raw_fd(0) })
}
