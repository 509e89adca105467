//! Encodes and decodes frames.
//!
//! Bytes that a guest sent are decoded here and nowhere else. The decoder allocates no more than has arrived and
//! refuses trailing bytes. The host kills a worker that sends a malformed frame.
//!
//! ```text
//! u32 length of the rest | u8 tag | fields (little endian; texts and blobs as u32 length + bytes)
//! ```

mod fields;

use std::time::Duration;

use self::fields::{Fields, begin, finish, put_bytes, put_f64, put_option, put_u32, put_u64};
use crate::frame::{CallId, End, FromWorker, Layers, Question, Seed, Start, Stream, Target, ToWorker};
use crate::{Code, ErrorClass, Limits, Profile};

/// Length of the header, which holds the payload's length.
pub const HEADER: usize = 4;

/// Largest payload that the host accepts from a worker: the largest result, with room for the other fields.
pub const MAX_FROM_WORKER: usize = 65 * 1024 * 1024;

/// Largest payload that a worker accepts from the host.
pub const MAX_TO_WORKER: usize = 1100 * 1024 * 1024;

/// The bytes that stand for frames and variants. The JavaScript codec of the V8 worker gets the same numbers.
pub mod tag {
    /// [`ToWorker::Start`](crate::ToWorker::Start)
    pub const START: u8 = 0;
    /// [`ToWorker::Reply`](crate::ToWorker::Reply)
    pub const REPLY: u8 = 1;
    /// [`ToWorker::Fire`](crate::ToWorker::Fire)
    pub const FIRE: u8 = 2;
    /// [`ToWorker::Answer`](crate::ToWorker::Answer)
    pub const ANSWER: u8 = 3;
    /// [`ToWorker::Waited`](crate::ToWorker::Waited)
    pub const WAITED: u8 = 4;

    /// [`FromWorker::Ready`](crate::FromWorker::Ready)
    pub const READY: u8 = 0;
    /// [`FromWorker::Call`](crate::FromWorker::Call)
    pub const CALL: u8 = 1;
    /// [`FromWorker::Timer`](crate::FromWorker::Timer)
    pub const TIMER: u8 = 2;
    /// [`FromWorker::Cancel`](crate::FromWorker::Cancel)
    pub const CANCEL: u8 = 3;
    /// [`FromWorker::Ask`](crate::FromWorker::Ask)
    pub const ASK: u8 = 4;
    /// [`FromWorker::Log`](crate::FromWorker::Log)
    pub const LOG: u8 = 5;
    /// [`FromWorker::Done`](crate::FromWorker::Done)
    pub const DONE: u8 = 6;

    /// [`Target::Tool`](crate::frame::Target::Tool)
    pub const TARGET_TOOL: u8 = 0;
    /// [`Target::Function`](crate::frame::Target::Function)
    pub const TARGET_FUNCTION: u8 = 1;

    /// [`Question::Backend`](crate::frame::Question::Backend)
    pub const ASK_BACKEND: u8 = 0;
    /// [`Question::InterfaceOf`](crate::frame::Question::InterfaceOf)
    pub const ASK_INTERFACE_OF: u8 = 1;
    /// [`Question::Backends`](crate::frame::Question::Backends)
    pub const ASK_BACKENDS: u8 = 2;
    /// [`Question::Global`](crate::frame::Question::Global)
    pub const ASK_GLOBAL: u8 = 3;
    /// [`Question::Interface`](crate::frame::Question::Interface)
    pub const ASK_INTERFACE: u8 = 4;

    /// [`Stream::Stdout`](crate::frame::Stream::Stdout)
    pub const STDOUT: u8 = 0;
    /// [`Stream::Stderr`](crate::frame::Stream::Stderr)
    pub const STDERR: u8 = 1;

    /// [`End::Returned`](crate::frame::End::Returned); every other value is the number of a failure's code.
    pub const RETURNED: u8 = u8::MAX;
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The length is above the bound.
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    /// The bytes end inside a field.
    #[error("a frame ends inside a field")]
    Truncated,
    /// Bytes follow the last field.
    #[error("a frame has {0} bytes too many")]
    Trailing(usize),
    /// A tag, flag or code is not one of the defined values.
    #[error("a frame has an undefined value for: {0}")]
    Undefined(&'static str),
    /// A text is not UTF-8.
    #[error("a frame has a text that is not UTF-8")]
    NotText,
}

/// Decodes the header: the length of the payload that follows.
pub fn frame_length(header: [u8; HEADER], max: usize) -> Result<usize, Malformed> {
    let length = u32::from_le_bytes(header) as usize;
    if length > max { Err(Malformed::TooLong(length)) } else { Ok(length) }
}

/// Appends the frame with its header.
pub fn encode_to_worker(frame: &ToWorker, out: &mut Vec<u8>) {
    let mark = begin(out);
    match frame {
        ToWorker::Start(start) => {
            out.push(tag::START);
            put_start(start, out);
        }
        ToWorker::Reply { id, now, body } => {
            let text = body.as_ref().unwrap_or_else(|error| error);
            put_reply_head(&ReplyHead { id: *id, now: *now, ok: body.is_ok() }, text.len(), out);
            out.extend_from_slice(text);
        }
        ToWorker::Fire { id, now } => {
            out.push(tag::FIRE);
            put_u32(out, id.0);
            put_f64(out, *now);
        }
        ToWorker::Answer(body) => {
            out.push(tag::ANSWER);
            put_option(out, body.as_deref());
        }
        ToWorker::Waited { ms } => {
            out.push(tag::WAITED);
            put_u64(out, *ms);
        }
    }
    finish(out, mark);
}

/// Decodes a frame's payload, which is what follows the header.
pub fn decode_to_worker(payload: &[u8]) -> Result<ToWorker, Malformed> {
    let mut fields = Fields(payload);
    let frame = match fields.u8()? {
        tag::START => ToWorker::Start(Box::new(take_start(&mut fields)?)),
        tag::REPLY => {
            let (id, now, ok) = (CallId(fields.u32()?), fields.f64()?, fields.flag()?);
            let bytes = fields.bytes()?.to_vec();
            ToWorker::Reply { id, now, body: if ok { Ok(bytes) } else { Err(bytes) } }
        }
        tag::FIRE => ToWorker::Fire { id: CallId(fields.u32()?), now: fields.f64()? },
        tag::ANSWER => ToWorker::Answer(fields.option()?.map(<[u8]>::to_vec)),
        tag::WAITED => ToWorker::Waited { ms: fields.u64()? },
        _ => return Err(Malformed::Undefined("tag")),
    };
    fields.end(frame)
}

/// Bytes of a reply's payload before its text.
pub const REPLY_HEAD: usize = 1 + 4 + 8 + 1 + 4;

/// A [`ToWorker::Reply`] without its text.
#[derive(Debug, PartialEq)]
pub struct ReplyHead {
    /// The call.
    pub id: CallId,
    /// The clock at this moment.
    pub now: f64,
    /// Whether the text is a value; otherwise it is an error's fields.
    pub ok: bool,
}

/// Appends the header and the head of a reply whose text of `length` bytes is sent right after it, from where it is.
pub fn encode_reply_head(head: &ReplyHead, length: usize, out: &mut Vec<u8>) {
    put_u32(out, (REPLY_HEAD + length) as u32);
    put_reply_head(head, length, out);
}

fn put_reply_head(head: &ReplyHead, length: usize, out: &mut Vec<u8>) {
    out.push(tag::REPLY);
    put_u32(out, head.id.0);
    put_f64(out, head.now);
    out.push(u8::from(head.ok));
    put_u32(out, length as u32);
}

/// Decodes the first bytes of a payload of `length` bytes; `None` if it is no reply. For a worker that reads the text, which
/// is the rest of the payload, straight to where it needs it.
pub fn decode_reply_head(head: &[u8], length: usize) -> Result<Option<ReplyHead>, Malformed> {
    let mut fields = Fields(head);
    if fields.u8()? != tag::REPLY {
        return Ok(None);
    }
    let reply = ReplyHead { id: CallId(fields.u32()?), now: fields.f64()?, ok: fields.flag()? };
    let end = REPLY_HEAD + fields.u32()? as usize;
    if end > length {
        return Err(Malformed::Truncated);
    }
    if end < length { Err(Malformed::Trailing(length - end)) } else { Ok(Some(reply)) }
}

/// Appends the frame with its header.
pub fn encode_from_worker(frame: &FromWorker, out: &mut Vec<u8>) {
    let mark = begin(out);
    match frame {
        FromWorker::Ready { pid, layers } => {
            out.push(tag::READY);
            put_u32(out, *pid);
            put_layers(layers, out);
        }
        FromWorker::Call { id, target, args } => {
            out.push(tag::CALL);
            put_u32(out, id.0);
            put_target(target, out);
            put_bytes(out, args);
        }
        FromWorker::Timer { id, delay } => {
            out.push(tag::TIMER);
            put_u32(out, id.0);
            put_f64(out, *delay);
        }
        FromWorker::Cancel { id } => {
            out.push(tag::CANCEL);
            put_u32(out, id.0);
        }
        FromWorker::Ask(question) => {
            out.push(tag::ASK);
            put_question(question, out);
        }
        FromWorker::Log { stream, text } => {
            out.push(tag::LOG);
            out.push(stream_tag(*stream));
            put_bytes(out, text.as_bytes());
        }
        FromWorker::Done { end, memory, cpu, dropped } => {
            out.push(tag::DONE);
            put_u64(out, *memory);
            put_u64(out, *cpu);
            put_u64(out, *dropped);
            put_end(end, out);
        }
    }
    finish(out, mark);
}

/// Decodes a frame's payload, which is what follows the header.
pub fn decode_from_worker(payload: &[u8]) -> Result<FromWorker, Malformed> {
    let mut fields = Fields(payload);
    let frame = match fields.u8()? {
        tag::READY => FromWorker::Ready { pid: fields.u32()?, layers: take_layers(&mut fields)? },
        tag::CALL => FromWorker::Call {
            id: CallId(fields.u32()?),
            target: take_target(&mut fields)?,
            args: fields.bytes()?.to_vec(),
        },
        tag::TIMER => FromWorker::Timer { id: CallId(fields.u32()?), delay: fields.f64()? },
        tag::CANCEL => FromWorker::Cancel { id: CallId(fields.u32()?) },
        tag::ASK => FromWorker::Ask(take_question(&mut fields)?),
        tag::LOG => FromWorker::Log { stream: take_stream(&mut fields)?, text: fields.text()? },
        tag::DONE => FromWorker::Done {
            memory: fields.u64()?,
            cpu: fields.u64()?,
            dropped: fields.u64()?,
            end: take_end(&mut fields)?,
        },
        _ => return Err(Malformed::Undefined("tag")),
    };
    fields.end(frame)
}

/// The number of a profile in a frame: its index in [`Profile::ALL`].
fn profile_number(profile: Profile) -> u8 {
    profile as u8
}

fn put_start(start: &Start, out: &mut Vec<u8>) {
    out.push(profile_number(start.profile));
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
    let profile = *Profile::ALL.get(usize::from(fields.u8()?)).ok_or(Malformed::Undefined("profile"))?;
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
            out.push(tag::TARGET_TOOL);
            put_bytes(out, backend.as_bytes());
            put_bytes(out, tool.as_bytes());
        }
        Target::Function(name) => {
            out.push(tag::TARGET_FUNCTION);
            put_bytes(out, name.as_bytes());
        }
    }
}

fn take_target(fields: &mut Fields<'_>) -> Result<Target, Malformed> {
    match fields.u8()? {
        tag::TARGET_TOOL => Ok(Target::Tool { backend: fields.text()?, tool: fields.text()? }),
        tag::TARGET_FUNCTION => Ok(Target::Function(fields.text()?)),
        _ => Err(Malformed::Undefined("target")),
    }
}

fn put_question(question: &Question, out: &mut Vec<u8>) {
    let (tag, names): (u8, &[&String]) = match question {
        Question::Backend(name) => (tag::ASK_BACKEND, &[name]),
        Question::InterfaceOf(name) => (tag::ASK_INTERFACE_OF, &[name]),
        Question::Backends => (tag::ASK_BACKENDS, &[]),
        Question::Global(name) => (tag::ASK_GLOBAL, &[name]),
        Question::Interface { backend, tool } => (tag::ASK_INTERFACE, &[backend, tool]),
    };
    out.push(tag);
    names.iter().for_each(|name| put_bytes(out, name.as_bytes()));
}

fn take_question(fields: &mut Fields<'_>) -> Result<Question, Malformed> {
    match fields.u8()? {
        tag::ASK_BACKEND => Ok(Question::Backend(fields.text()?)),
        tag::ASK_INTERFACE_OF => Ok(Question::InterfaceOf(fields.text()?)),
        tag::ASK_BACKENDS => Ok(Question::Backends),
        tag::ASK_GLOBAL => Ok(Question::Global(fields.text()?)),
        tag::ASK_INTERFACE => Ok(Question::Interface { backend: fields.text()?, tool: fields.text()? }),
        _ => Err(Malformed::Undefined("question")),
    }
}

fn stream_tag(stream: Stream) -> u8 {
    match stream {
        Stream::Stdout => tag::STDOUT,
        Stream::Stderr => tag::STDERR,
    }
}

fn take_stream(fields: &mut Fields<'_>) -> Result<Stream, Malformed> {
    match fields.u8()? {
        tag::STDOUT => Ok(Stream::Stdout),
        tag::STDERR => Ok(Stream::Stderr),
        _ => Err(Malformed::Undefined("stream")),
    }
}

/// The number of a code in a frame: its index in [`Code::ALL`].
pub fn code_number(code: Code) -> u8 {
    code as u8
}

/// The number of a class of errors in frames. Zero stands for none.
pub fn class_number(class: ErrorClass) -> u8 {
    match class {
        ErrorClass::Reference => 1,
        ErrorClass::Type => 2,
        ErrorClass::Other => 3,
    }
}

fn put_end(end: &End, out: &mut Vec<u8>) {
    match end {
        End::Returned(json) => {
            out.push(tag::RETURNED);
            put_bytes(out, json);
        }
        End::Failed { code, message, line, column, class } => {
            out.push(code_number(*code));
            put_bytes(out, message.as_bytes());
            put_u32(out, *line);
            put_u32(out, *column);
            out.push(class.map_or(0, class_number));
        }
    }
}

fn take_end(fields: &mut Fields<'_>) -> Result<End, Malformed> {
    let number = fields.u8()?;
    if number == tag::RETURNED {
        return Ok(End::Returned(fields.bytes()?.to_vec()));
    }
    let code = *Code::ALL.get(usize::from(number)).ok_or(Malformed::Undefined("code"))?;
    let (message, line, column) = (fields.text()?, fields.u32()?, fields.u32()?);
    let class = match fields.u8()? {
        0 => None,
        number => Some(
            ErrorClass::ALL
                .into_iter()
                .find(|class| class_number(*class) == number)
                .ok_or(Malformed::Undefined("class of errors"))?,
        ),
    };
    Ok(End::Failed { code, message, line, column, class })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames_from_worker() -> Vec<FromWorker> {
        let target = Target::Tool { backend: "b".into(), tool: "t".into() };
        let failed = |code, class| End::Failed { code, message: "m".into(), line: 3, column: 7, class };
        let mut frames = vec![
            FromWorker::Ready { pid: 7, layers: Layers { landlock: 5, seccomp: true, ..Layers::default() } },
            FromWorker::Call { id: CallId(1), target, args: b"[1]".to_vec() },
            FromWorker::Call { id: CallId(2), target: Target::Function("f".into()), args: vec![] },
            FromWorker::Timer { id: CallId(3), delay: 1.5 },
            FromWorker::Cancel { id: CallId(3) },
            FromWorker::Ask(Question::Backend("b".into())),
            FromWorker::Ask(Question::Global("b".into())),
            FromWorker::Ask(Question::Backends),
            FromWorker::Ask(Question::InterfaceOf("b.t".into())),
            FromWorker::Ask(Question::Interface { backend: "b".into(), tool: "t".into() }),
            FromWorker::Log { stream: Stream::Stderr, text: "line".into() },
            FromWorker::Done { end: End::Returned(b"{}".to_vec()), memory: 9, cpu: 3, dropped: 1 },
        ];
        let done = |end| FromWorker::Done { end, memory: 0, cpu: 0, dropped: 0 };
        frames.extend(Code::ALL.map(|code| done(failed(code, None))));
        frames.extend(ErrorClass::ALL.map(|class| done(failed(Code::Runtime, Some(class)))));
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
            ToWorker::Waited { ms: 90_000 },
        ]
    }

    fn payload(bytes: &[u8]) -> &[u8] {
        let length = frame_length(*bytes.first_chunk().expect("header"), usize::MAX).expect("no bound");
        assert_eq!(length + HEADER, bytes.len());
        &bytes[HEADER..]
    }

    #[test]
    fn a_decoded_frame_equals_the_encoded_one() {
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
    fn a_number_is_an_index() {
        for (index, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(code_number(code)), index);
        }
        for (index, profile) in Profile::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(profile_number(profile)), index);
        }
    }

    #[test]
    fn bytes_after_the_last_field_are_refused() {
        assert_eq!(decode_from_worker(&[3, 1, 0, 0, 0, 9]), Err(Malformed::Trailing(1)));
    }

    #[test]
    fn the_head_of_a_reply_is_read_without_its_text() {
        let mut frame = Vec::new();
        encode_to_worker(&ToWorker::Reply { id: CallId(7), now: 1.5, body: Err(b"{}".to_vec()) }, &mut frame);
        let payload = &frame[HEADER..];
        let read = |length| decode_reply_head(&payload[..REPLY_HEAD], length);
        assert_eq!(read(payload.len()), Ok(Some(ReplyHead { id: CallId(7), now: 1.5, ok: false })));
        assert_eq!(read(payload.len() - 1), Err(Malformed::Truncated));
        assert_eq!(read(payload.len() + 3), Err(Malformed::Trailing(3)));
        assert_eq!(decode_reply_head(&payload[..REPLY_HEAD - 1], payload.len()), Err(Malformed::Truncated));
        assert_eq!(decode_reply_head(&[tag::FIRE; REPLY_HEAD], REPLY_HEAD), Ok(None));
    }

    #[test]
    fn a_false_length_allocates_nothing() {
        let log = [5, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(decode_from_worker(&log), Err(Malformed::Truncated));
        assert_eq!(frame_length([0xff; 4], MAX_FROM_WORKER), Err(Malformed::TooLong(u32::MAX as usize)));
    }

    #[test]
    fn a_false_count_ends_at_the_first_missing_field() {
        let mut bytes = Vec::new();
        encode_to_worker(&frames_to_worker()[0], &mut bytes);
        let count = bytes.len() - "{}".len() - 4 - "exa".len() - 4 - 4;
        bytes[count..count + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode_to_worker(payload(&bytes)), Err(Malformed::Truncated));
    }
}
