//! Parses server-sent events incrementally.
//!
//! Implements the part of the WHATWG grammar that MCP needs: `data`, `id` and `retry`; lines may end in any of the three
//! ways. An event that is larger than the limit, or does not fit into the byte budget, is an error. The data of an event is
//! the buffer into which its line was read, so that it is held once. No I/O.

use toolgate_wire::{ByteBudget, BytePermit};

use crate::buffer::{Buffer, Overflow};

/// The longest event id that is kept, in bytes.
const MAX_ID_BYTES: usize = 8 << 10;

/// One event.
#[derive(Debug, Default)]
pub(crate) struct Event {
    /// The data, and the permit that counts it.
    pub(crate) data: Option<(Vec<u8>, BytePermit)>,
    /// The id to resume after.
    pub(crate) id: Option<String>,
    /// The delay before resuming, in milliseconds.
    pub(crate) retry: Option<u64>,
}

/// An incremental parser.
#[derive(Debug)]
pub(crate) struct Events {
    line: Buffer,
    data: Option<Buffer>,
    id: Option<String>,
    retry: Option<u64>,
    after_return: bool,
    budget: ByteBudget,
    limit: usize,
}

impl Events {
    pub(crate) fn new(budget: ByteBudget, limit: usize) -> Self {
        let line = Buffer::new(&budget, limit);
        Self { line, data: None, id: None, retry: None, after_return: false, budget, limit }
    }

    /// Parses more bytes and appends the events they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<Event>) -> Result<(), Overflow> {
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, end) = match part.split_last() {
                Some((end @ (b'\n' | b'\r'), text)) => (text, Some(*end)),
                _ => (part, None),
            };
            let completes_return = self.after_return && text.is_empty() && end == Some(b'\n');
            self.after_return = end == Some(b'\r');
            if completes_return {
                continue;
            }
            self.line.push(text)?;
            if end.is_some() {
                out.extend(self.take_line()?);
            }
        }
        Ok(())
    }

    fn take_line(&mut self) -> Result<Option<Event>, Overflow> {
        let mut line = std::mem::replace(&mut self.line, Buffer::new(&self.budget, self.limit));
        if line.is_empty() {
            let event =
                Event { data: self.data.take().map(Buffer::finish), id: self.id.take(), retry: self.retry.take() };
            return Ok((event.data.is_some() || event.id.is_some() || event.retry.is_some()).then_some(event));
        }
        if line.as_slice().starts_with("\u{feff}".as_bytes()) {
            line.cut_front("\u{feff}".len());
        }
        let colon = memchr::memchr(b':', line.as_slice()).unwrap_or(line.len());
        let space = usize::from(line.as_slice().get(colon + 1) == Some(&b' '));
        let value = (colon + 1 + space).min(line.len());
        match line.as_slice().get(..colon) {
            Some(b"data") => {
                line.cut_front(value);
                self.add_data(line)?;
            }
            Some(b"id") => {
                let id = line.as_slice().get(value..).unwrap_or_default();
                if !id.contains(&0) && id.len() <= MAX_ID_BYTES {
                    self.id = Some(String::from_utf8_lossy(id).into_owned());
                }
            }
            Some(b"retry") => {
                let delay = std::str::from_utf8(line.as_slice().get(value..).unwrap_or_default());
                self.retry = delay.ok().and_then(|delay| delay.parse().ok());
            }
            _ => {}
        }
        Ok(None)
    }

    fn add_data(&mut self, line: Buffer) -> Result<(), Overflow> {
        match &mut self.data {
            None => self.data = Some(line),
            Some(data) => {
                data.push(b"\n")?;
                data.push(line.as_slice())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parsed = (Option<String>, Option<String>, Option<u64>);

    fn events(pieces: &[&str]) -> Vec<Parsed> {
        let mut events = Events::new(ByteBudget::unlimited(), 64);
        let mut out = Vec::new();
        for piece in pieces {
            events.feed(piece.as_bytes(), &mut out).unwrap();
        }
        let text = |(data, _)| String::from_utf8(data).unwrap();
        out.into_iter().map(|event| (event.data.map(text), event.id, event.retry)).collect()
    }

    fn check(pieces: &[&str], expected: &[&str]) {
        let data: Vec<String> = events(pieces).into_iter().map(|event| event.0.unwrap()).collect();
        assert_eq!(data, expected);
    }

    #[test]
    fn lines_end_in_any_of_three_ways() {
        check(&["data: a\n\ndata:b\r\n\r\ndata:  c\r\r"], &["a", "b", " c"]);
    }

    #[test]
    fn a_line_end_may_be_cut_in_two() {
        check(&["data: a\r", "\n\r", "\ndata: b\n", "\n"], &["a", "b"]);
    }

    #[test]
    fn several_data_lines_are_one_text() {
        check(&["data: a\ndata: b\n\n"], &["a\nb"]);
    }

    #[test]
    fn comments_and_unknown_fields_are_skipped() {
        check(&[": keep-alive\n\nevent: message\nfoo: 1\ndata: x\n\n"], &["x"]);
    }

    #[test]
    fn an_event_may_have_only_an_id_and_a_delay() {
        let expected = |data: Option<&str>| (data.map(str::to_owned), Some("7".to_owned()), Some(50));
        assert_eq!(events(&["id: 7\nretry: 50\ndata:\n\n"]), [expected(Some(""))]);
        assert_eq!(events(&["id: 7\nretry: 50\n\n"]), [expected(None)]);
    }

    #[test]
    fn an_unfinished_event_is_not_returned() {
        check(&["data: a\n"], &[]);
    }

    #[test]
    fn an_event_over_the_limit_is_an_error() {
        let mut events = Events::new(ByteBudget::unlimited(), 10);
        assert_eq!(events.feed(b"data: 12345678901\n", &mut Vec::new()), Err(Overflow::TooLong));
        let mut events = Events::new(ByteBudget::unlimited(), 10);
        assert_eq!(events.feed(b"data: 1234\ndata: 1234\ndata: 1234\n", &mut Vec::new()), Err(Overflow::TooLong));
    }

    proptest::proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[a-z:\r\n ]{0,60}", cut in 0usize..60) {
            let cut = cut.min(text.len());
            let (head, rest) = text.split_at(cut);
            proptest::prop_assert_eq!(events(&[head, rest]), events(&[&text]));
        }
    }
}
