//! Parses server-sent events incrementally.
//!
//! Implements the part of the WHATWG grammar that MCP needs: `data`, `id` and `retry`; lines may end in any of the three
//! ways. An event larger than the limit is an error. No I/O.

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) data: String,
    /// The id to resume after.
    pub(super) id: Option<String>,
    /// The delay before resuming, in milliseconds.
    pub(super) retry: Option<u64>,
}

/// The event is larger than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Oversize;

/// An incremental parser.
#[derive(Debug)]
pub(super) struct Events {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    after_return: bool,
    limit: usize,
}

impl Events {
    pub(super) fn new(limit: usize) -> Self {
        Self { line: Vec::new(), event: Event::default(), has_data: false, after_return: false, limit }
    }

    /// Parses more bytes and appends the events they complete.
    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<Event>) -> Result<(), Oversize> {
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
            if self.line.len() + self.event.data.len() + text.len() > self.limit {
                return Err(Oversize);
            }
            self.line.extend_from_slice(text);
            if end.is_some() {
                out.extend(self.take_line());
            }
        }
        Ok(())
    }

    fn take_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let has_data = std::mem::take(&mut self.has_data);
            let event = std::mem::take(&mut self.event);
            return (has_data || event.id.is_some() || event.retry.is_some()).then_some(event);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        self.take_field(field, value.strip_prefix(' ').unwrap_or(value));
        None
    }

    fn take_field(&mut self, field: &str, value: &str) {
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry = value.parse().ok(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&str]) -> Vec<Event> {
        let mut events = Events::new(64);
        let mut out = Vec::new();
        for piece in pieces {
            events.feed(piece.as_bytes(), &mut out).unwrap();
        }
        out
    }

    fn check(pieces: &[&str], expected: &[&str]) {
        let data: Vec<String> = events(pieces).into_iter().map(|event| event.data).collect();
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
        let expected = Event { data: String::new(), id: Some("7".to_owned()), retry: Some(50) };
        assert_eq!(events(&["id: 7\nretry: 50\ndata:\n\n"]), [expected]);
    }

    #[test]
    fn an_unfinished_event_is_not_returned() {
        check(&["data: a\n"], &[]);
    }

    #[test]
    fn an_event_over_the_limit_is_an_error() {
        let mut events = Events::new(10);
        assert_eq!(events.feed(b"data: 12345678901\n", &mut Vec::new()), Err(Oversize));
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
