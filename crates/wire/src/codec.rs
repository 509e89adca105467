//! Frames as bytes: a length, a kind, the fields.
//!
//! Guest bytes are decoded here and nowhere else. A decoder allocates only what has arrived,
//! refuses trailing bytes, and every fault is final: a peer that breaks the form is killed.
//!
//! ```text
//! u32 length of the rest | u8 kind | fields (little endian; texts and blobs as u32 length + bytes)
//! ```

use std::time::Duration;

use crate::frame::{CallId, End, FromWorker, Layers, Question, Seed, Start, Stream, Target, ToWorker};
use crate::{Code, Limits, Profile};

/// Bytes before the payload: the length.
pub const HEADER: usize = 4;

/// The largest frame that a host accepts from a worker: the largest result, with room for the rest.
pub const MAX_FROM_WORKER: usize = 65 * 1024 * 1024;

/// The largest frame that a worker accepts from its host.
pub const MAX_TO_WORKER: usize = 1100 * 1024 * 1024;

/// A peer sent something that is not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The length is beyond what this side accepts.
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    /// The bytes end inside a field.
    #[error("a frame ends inside a field")]
    Truncated,
    /// There are bytes after the last field.
    #[error("a frame has {0} bytes too many")]
    Trailing(usize),
    /// A kind, flag or code has no meaning.
    #[error("a frame has a field that means nothing: {0}")]
    Meaningless(&'static str),
    /// A text is not UTF-8.
    #[error("a frame has a text that is not UTF-8")]
    NotText,
}

/// The length of the frame whose header this is.
pub fn frame_length(header: [u8; HEADER], max: usize) -> Result<usize, Malformed> {
    let length = u32::from_le_bytes(header) as usize;
    if length > max { Err(Malformed::TooLong(length)) } else { Ok(length) }
}

/// Appends the frame, header included.
pub fn encode_to_worker(frame: &ToWorker, out: &mut Vec<u8>) {
    let mark = begin(out);
    match frame {
        ToWorker::Start(start) => {
            out.push(0);
            put_start(start, out);
        }
        ToWorker::Reply { id, now, body } => {
            out.push(1);
            put_u32(out, id.0);
            put_f64(out, *now);
            out.push(u8::from(body.is_ok()));
            put_bytes(out, body.as_ref().unwrap_or_else(|error| error));
        }
        ToWorker::Fire { id, now } => {
            out.push(2);
            put_u32(out, id.0);
            put_f64(out, *now);
        }
        ToWorker::Answer(body) => {
            out.push(3);
            put_option(out, body.as_deref());
        }
    }
    finish(out, mark);
}

/// Reads a frame's payload (what follows the header).
pub fn decode_to_worker(payload: &[u8]) -> Result<ToWorker, Malformed> {
    let mut fields = Fields(payload);
    let frame = match fields.u8()? {
        0 => ToWorker::Start(Box::new(take_start(&mut fields)?)),
        1 => {
            let (id, now, ok) = (CallId(fields.u32()?), fields.f64()?, fields.flag()?);
            let bytes = fields.bytes()?.to_vec();
            ToWorker::Reply { id, now, body: if ok { Ok(bytes) } else { Err(bytes) } }
        }
        2 => ToWorker::Fire { id: CallId(fields.u32()?), now: fields.f64()? },
        3 => ToWorker::Answer(fields.option()?.map(<[u8]>::to_vec)),
        _ => return Err(Malformed::Meaningless("kind")),
    };
    fields.end(frame)
}

/// Appends the frame, header included.
pub fn encode_from_worker(frame: &FromWorker, out: &mut Vec<u8>) {
    let mark = begin(out);
    match frame {
        FromWorker::Ready { pid, layers } => {
            out.push(0);
            put_u32(out, *pid);
            put_layers(layers, out);
        }
        FromWorker::Call { id, target, args } => {
            out.push(1);
            put_u32(out, id.0);
            put_target(target, out);
            put_bytes(out, args);
        }
        FromWorker::Timer { id, delay } => {
            out.push(2);
            put_u32(out, id.0);
            put_f64(out, *delay);
        }
        FromWorker::Cancel { id } => {
            out.push(3);
            put_u32(out, id.0);
        }
        FromWorker::Ask { question, name } => {
            out.push(4);
            out.push(*question as u8);
            put_bytes(out, name.as_bytes());
        }
        FromWorker::Log { stream, text } => {
            out.push(5);
            out.push(*stream as u8);
            put_bytes(out, text.as_bytes());
        }
        FromWorker::Done { end, memory, cpu, dropped } => {
            out.push(6);
            put_u64(out, *memory);
            put_u64(out, *cpu);
            put_u64(out, *dropped);
            put_end(end, out);
        }
    }
    finish(out, mark);
}

/// Reads a frame's payload (what follows the header).
pub fn decode_from_worker(payload: &[u8]) -> Result<FromWorker, Malformed> {
    let mut fields = Fields(payload);
    let frame = match fields.u8()? {
        0 => FromWorker::Ready { pid: fields.u32()?, layers: take_layers(&mut fields)? },
        1 => FromWorker::Call {
            id: CallId(fields.u32()?),
            target: take_target(&mut fields)?,
            args: fields.bytes()?.to_vec(),
        },
        2 => FromWorker::Timer { id: CallId(fields.u32()?), delay: fields.f64()? },
        3 => FromWorker::Cancel { id: CallId(fields.u32()?) },
        4 => FromWorker::Ask { question: take_question(&mut fields)?, name: fields.text()? },
        5 => FromWorker::Log { stream: take_stream(&mut fields)?, text: fields.text()? },
        6 => FromWorker::Done {
            memory: fields.u64()?,
            cpu: fields.u64()?,
            dropped: fields.u64()?,
            end: take_end(&mut fields)?,
        },
        _ => return Err(Malformed::Meaningless("kind")),
    };
    fields.end(frame)
}

fn put_start(start: &Start, out: &mut Vec<u8>) {
    out.push(match start.profile {
        Profile::Compute => 0,
        Profile::Chain => 1,
        Profile::Snippet => 2,
    });
    put_limits(&start.limits, out);
    put_u64(out, start.seed.math);
    out.extend_from_slice(&start.seed.crypto);
    put_f64(out, start.now);
    put_bytes(out, start.code.as_bytes());
    out.push(u8::from(start.data.is_some()));
    put_u64(out, start.data.unwrap_or(0));
    put_u32(out, start.functions.len() as u32);
    for name in &start.functions {
        put_bytes(out, name.as_bytes());
    }
    out.push(u8::from(start.tools));
    put_u32(out, start.named.len() as u32);
    for (name, answer) in &start.named {
        put_bytes(out, name.as_bytes());
        put_bytes(out, answer);
    }
}

fn take_start(fields: &mut Fields<'_>) -> Result<Start, Malformed> {
    let profile = match fields.u8()? {
        0 => Profile::Compute,
        1 => Profile::Chain,
        2 => Profile::Snippet,
        _ => return Err(Malformed::Meaningless("profile")),
    };
    Ok(Start {
        profile,
        limits: take_limits(fields)?,
        seed: Seed { math: fields.u64()?, crypto: fields.array()? },
        now: fields.f64()?,
        code: fields.text()?,
        data: take_length(fields)?,
        functions: (0..fields.u32()?).map(|_| fields.text()).collect::<Result<_, _>>()?,
        tools: fields.flag()?,
        named: (0..fields.u32()?).map(|_| Ok((fields.text()?, fields.bytes()?.to_vec()))).collect::<Result<_, _>>()?,
    })
}

fn take_length(fields: &mut Fields<'_>) -> Result<Option<u64>, Malformed> {
    let present = fields.flag()?;
    let length = fields.u64()?;
    Ok(present.then_some(length))
}

fn put_limits(limits: &Limits, out: &mut Vec<u8>) {
    put_u64(out, limits.wall.as_micros() as u64);
    put_u64(out, limits.memory);
    put_u64(out, limits.stack);
    put_u64(out, limits.code);
    put_u64(out, limits.result);
    put_u32(out, limits.result_depth.unwrap_or(0));
    put_u64(out, limits.log_lines);
    put_u64(out, limits.calls);
    put_u64(out, limits.calls_in_flight);
}

fn take_limits(fields: &mut Fields<'_>) -> Result<Limits, Malformed> {
    Ok(Limits {
        wall: Duration::from_micros(fields.u64()?),
        memory: fields.u64()?,
        stack: fields.u64()?,
        code: fields.u64()?,
        result: fields.u64()?,
        result_depth: Some(fields.u32()?).filter(|depth| *depth > 0),
        log_lines: fields.u64()?,
        calls: fields.u64()?,
        calls_in_flight: fields.u64()?,
    })
}

fn put_layers(layers: &Layers, out: &mut Vec<u8>) {
    put_u32(out, layers.landlock);
    for flag in [layers.seccomp, layers.no_new_privs, layers.no_exec_memory, layers.namespaces, layers.private_user] {
        out.push(u8::from(flag));
    }
}

fn take_layers(fields: &mut Fields<'_>) -> Result<Layers, Malformed> {
    Ok(Layers {
        landlock: fields.u32()?,
        seccomp: fields.flag()?,
        no_new_privs: fields.flag()?,
        no_exec_memory: fields.flag()?,
        namespaces: fields.flag()?,
        private_user: fields.flag()?,
    })
}

fn put_target(target: &Target, out: &mut Vec<u8>) {
    match target {
        Target::Tool { backend, tool } => {
            out.push(0);
            put_bytes(out, backend.as_bytes());
            put_bytes(out, tool.as_bytes());
        }
        Target::Function(name) => {
            out.push(1);
            put_bytes(out, name.as_bytes());
        }
    }
}

fn take_target(fields: &mut Fields<'_>) -> Result<Target, Malformed> {
    match fields.u8()? {
        0 => Ok(Target::Tool { backend: fields.text()?, tool: fields.text()? }),
        1 => Ok(Target::Function(fields.text()?)),
        _ => Err(Malformed::Meaningless("target")),
    }
}

fn take_question(fields: &mut Fields<'_>) -> Result<Question, Malformed> {
    match fields.u8()? {
        0 => Ok(Question::Backend),
        1 => Ok(Question::Interface),
        2 => Ok(Question::Backends),
        3 => Ok(Question::Global),
        _ => Err(Malformed::Meaningless("question")),
    }
}

fn take_stream(fields: &mut Fields<'_>) -> Result<Stream, Malformed> {
    match fields.u8()? {
        0 => Ok(Stream::Stdout),
        1 => Ok(Stream::Stderr),
        _ => Err(Malformed::Meaningless("stream")),
    }
}

/// Codes in the order of their number on the wire.
const CODES: [Code; 9] = [
    Code::Timeout,
    Code::Memory,
    Code::Syntax,
    Code::Runtime,
    Code::OutputTooLarge,
    Code::InvalidCode,
    Code::InvalidData,
    Code::Unavailable,
    Code::Aborted,
];

fn put_end(end: &End, out: &mut Vec<u8>) {
    match end {
        End::Returned(json) => {
            out.push(u8::MAX);
            put_bytes(out, json);
        }
        End::Failed { code, message, line, column } => {
            out.push(*code as u8);
            put_bytes(out, message.as_bytes());
            put_u32(out, *line);
            put_u32(out, *column);
        }
    }
}

fn take_end(fields: &mut Fields<'_>) -> Result<End, Malformed> {
    let tag = fields.u8()?;
    if tag == u8::MAX {
        return Ok(End::Returned(fields.bytes()?.to_vec()));
    }
    let code = *CODES.get(usize::from(tag)).ok_or(Malformed::Meaningless("code"))?;
    Ok(End::Failed { code, message: fields.text()?, line: fields.u32()?, column: fields.u32()? })
}

fn begin(out: &mut Vec<u8>) -> usize {
    let mark = out.len();
    put_u32(out, 0);
    mark
}

fn finish(out: &mut [u8], mark: usize) {
    let length = (out.len() - mark - HEADER) as u32;
    out[mark..mark + HEADER].copy_from_slice(&length.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_f64(out: &mut Vec<u8>, n: f64) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

fn put_option(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.push(u8::from(bytes.is_some()));
    put_bytes(out, bytes.unwrap_or_default());
}

/// What is left to read of a frame.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.0.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn f64(&mut self) -> Result<f64, Malformed> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Meaningless("flag")),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        std::str::from_utf8(self.bytes()?).map(str::to_owned).map_err(|_| Malformed::NotText)
    }

    fn option(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let present = self.flag()?;
        let bytes = self.bytes()?;
        Ok(present.then_some(bytes))
    }

    fn end<T>(self, frame: T) -> Result<T, Malformed> {
        if self.0.is_empty() { Ok(frame) } else { Err(Malformed::Trailing(self.0.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames_from_worker() -> Vec<FromWorker> {
        let target = Target::Tool { backend: "b".into(), tool: "t".into() };
        let failed = |code| End::Failed { code, message: "m".into(), line: 3, column: 7 };
        let mut frames = vec![
            FromWorker::Ready { pid: 7, layers: Layers { landlock: 5, seccomp: true, ..Layers::default() } },
            FromWorker::Call { id: CallId(1), target, args: b"[1]".to_vec() },
            FromWorker::Call { id: CallId(2), target: Target::Function("f".into()), args: vec![] },
            FromWorker::Timer { id: CallId(3), delay: 1.5 },
            FromWorker::Cancel { id: CallId(3) },
            FromWorker::Ask { question: Question::Interface, name: "exa".into() },
            FromWorker::Log { stream: Stream::Stderr, text: "line".into() },
            FromWorker::Done { end: End::Returned(b"{}".to_vec()), memory: 9, cpu: 3, dropped: 1 },
        ];
        frames.extend(CODES.map(|code| FromWorker::Done { end: failed(code), memory: 0, cpu: 0, dropped: 0 }));
        frames
    }

    fn frames_to_worker() -> Vec<ToWorker> {
        let start = Start {
            profile: Profile::Snippet,
            limits: Limits::of(Profile::Snippet),
            seed: Seed { math: 42, crypto: [7; 32] },
            now: 1e12,
            code: "(async () => 1)".into(),
            data: Some(2),
            functions: vec!["api.fetch".into()],
            tools: true,
            named: vec![("exa".into(), b"{}".to_vec())],
        };
        vec![
            ToWorker::Start(Box::new(start)),
            ToWorker::Reply { id: CallId(1), now: 1.0, body: Ok(b"1".to_vec()) },
            ToWorker::Reply { id: CallId(1), now: 1.0, body: Err(b"{}".to_vec()) },
            ToWorker::Fire { id: CallId(2), now: 2.0 },
            ToWorker::Answer(None),
            ToWorker::Answer(Some(b"[]".to_vec())),
        ]
    }

    fn payload(bytes: &[u8]) -> &[u8] {
        let length = frame_length(*bytes.first_chunk().expect("header"), usize::MAX).expect("no bound");
        assert_eq!(length + HEADER, bytes.len());
        &bytes[HEADER..]
    }

    #[test]
    fn every_frame_survives_the_trip() {
        for frame in frames_from_worker() {
            let mut bytes = Vec::new();
            encode_from_worker(&frame, &mut bytes);
            assert_eq!(decode_from_worker(payload(&bytes)), Ok(frame));
        }
        for frame in frames_to_worker() {
            let mut bytes = Vec::new();
            encode_to_worker(&frame, &mut bytes);
            assert_eq!(decode_to_worker(payload(&bytes)), Ok(frame));
        }
    }

    #[test]
    fn a_frame_cut_anywhere_is_refused() {
        for frame in frames_from_worker() {
            let mut bytes = Vec::new();
            encode_from_worker(&frame, &mut bytes);
            for cut in 0..payload(&bytes).len() {
                assert!(decode_from_worker(&payload(&bytes)[..cut]).is_err(), "{frame:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn bytes_after_the_last_field_are_refused() {
        assert_eq!(decode_from_worker(&[3, 1, 0, 0, 0, 9]), Err(Malformed::Trailing(1)));
    }

    #[test]
    fn a_length_that_lies_allocates_nothing() {
        let log = [5, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(decode_from_worker(&log), Err(Malformed::Truncated));
        assert_eq!(frame_length([0xff; 4], MAX_FROM_WORKER), Err(Malformed::TooLong(u32::MAX as usize)));
    }

    #[test]
    fn a_count_that_lies_ends_at_the_first_missing_field() {
        let mut bytes = Vec::new();
        encode_to_worker(&frames_to_worker()[0], &mut bytes);
        let count = bytes.len() - "{}".len() - 4 - "exa".len() - 4 - 4;
        bytes[count..count + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode_to_worker(payload(&bytes)), Err(Malformed::Truncated));
    }
}
