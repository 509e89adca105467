//! Quoted keys by key number: records of one shape share them.

use rquickjs::Result;
use toolgate_json::write::{ByteSink, quote_within};

use super::super::exotic::{Key, Keys, with_wtf8};

/// Keys longer than this are quoted anew each time.
const MAX_KEPT: usize = 256;
const LINES: usize = 64;

/// The last keys that were written, each as it was.
#[derive(Default)]
pub(crate) struct KeyCache<'js> {
    lines: Vec<Option<(Key<'js>, Box<[u8]>)>>,
}

impl<'js> KeyCache<'js> {
    /// Appends a key and its colon; false, if the key is longer than `room`.
    pub(crate) fn write(&mut self, out: &mut impl ByteSink, keys: &Keys<'js>, at: usize, room: usize) -> Result<bool> {
        let Some(number) = keys.number(at) else { return Ok(true) };
        if self.lines.is_empty() {
            self.lines.resize_with(LINES, || None);
        }
        let line = &mut self.lines[number as usize % LINES];
        if let Some((key, quoted)) = line
            && key.number() == number
        {
            out.extend_from_slice(quoted);
            return Ok(true);
        }
        let Some(key) = keys.key(at) else { return Ok(true) };
        let mut kept = Vec::new();
        let fits = with_wtf8(&key.to_value()?, |text| {
            if text.len() > MAX_KEPT { quote_within(out, text, room) } else { quote_within(&mut kept, text, room) }
        })?;
        if !fits {
            return Ok(false);
        }
        if kept.is_empty() {
            out.push(b':');
        } else {
            kept.push(b':');
            out.extend_from_slice(&kept);
            *line = Some((key, kept.into_boxed_slice()));
        }
        Ok(true)
    }
}
