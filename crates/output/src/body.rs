//! The text between stages.
//!
//! A body computes the size, the number of lines, the first and the last bytes of its printed form without printing all of
//! it. Only the returned part is indented.

use std::borrow::Cow;

use memchr::memchr_iter;

use toolgate_json::{Measure, Value, Window, pretty};
use toolgate_wire::foreign_text::head_bytes;

/// How the text of a body is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// Plain text, printed unchanged.
    Text,
    /// JSON that a tool returned inside a string, printed with its own layout.
    Written,
    /// A returned value without white space, printed unchanged.
    Compact,
    /// A returned value, printed with two spaces per level.
    Pretty,
}

/// The size of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) bytes: usize,
    pub(crate) lines: usize,
}

impl Extent {
    pub(crate) fn of(text: &str) -> Self {
        let breaks = memchr_iter(b'\n', text.as_bytes()).count();
        let open = !text.is_empty() && !text.ends_with('\n');
        Self { bytes: text.len(), lines: breaks + usize::from(open) }
    }
}

/// A text with its printed form.
#[derive(Clone, Debug)]
pub struct Body<'a> {
    text: Cow<'a, str>,
    form: BodyForm,
    extent: Extent,
}

impl<'a> Body<'a> {
    /// A body; `text` must be JSON for the two JSON forms.
    pub fn new(text: Cow<'a, str>, form: BodyForm) -> Self {
        let extent = match form {
            BodyForm::Text | BodyForm::Written | BodyForm::Compact => Extent::of(&text),
            BodyForm::Pretty => {
                let mut measure = Measure::default();
                pretty(Value::of(&text), &mut measure);
                Extent { bytes: measure.bytes, lines: measure.breaks + 1 }
            }
        };
        Self { text, form, extent }
    }

    pub(crate) fn form(&self) -> BodyForm {
        self.form
    }

    /// The size of the printed form.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// The value, if this is JSON.
    pub(crate) fn json(&self) -> Option<Value<'_>> {
        (self.form != BodyForm::Text).then(|| Value::of(&self.text))
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Appends the first bytes of the printed form, at most `room`.
    pub(crate) fn print_head(&self, room: usize, out: &mut String) {
        match self.form {
            BodyForm::Text | BodyForm::Written | BodyForm::Compact => {
                out.push_str(head_bytes(&self.text, room));
            }
            BodyForm::Pretty => pretty(Value::of(&self.text), &mut Window::new(0, room, out)),
        }
    }

    /// The last bytes of the printed form, at most `room`.
    pub(crate) fn tail(&self, room: usize) -> Cow<'_, str> {
        let from = self.extent.bytes.saturating_sub(room);
        if self.form == BodyForm::Pretty {
            let mut tail = String::with_capacity(self.extent.bytes - from);
            pretty(Value::of(&self.text), &mut Window::new(from, self.extent.bytes, &mut tail));
            return Cow::Owned(tail);
        }
        Cow::Borrowed(self.text.get(self.text.ceil_char_boundary(from)..).unwrap_or_default())
    }

    #[cfg(test)]
    pub(crate) fn whole(&self) -> Cow<'_, str> {
        self.tail(self.extent.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_line_counts_with_or_without_its_line_break() {
        let lines: Vec<_> = ["", "a", "a\n", "a\nb", "\n\n"].map(|text| Extent::of(text).lines).into();
        assert_eq!(lines, [0, 1, 1, 2, 2]);
    }
}
