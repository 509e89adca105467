//! `JSON.stringify` of plain data, straight from the text of records.
//!
//! Only data that no guest code can be asked about is written here: records, objects and arrays with the prototypes that they
//! were made with, without accessors, holes or `toJSON`. For anything else nothing has been run or changed, and the
//! interpreter's own function starts from the beginning.

use rquickjs::{Ctx, Result, Value};
use toolgate_json::write::{ByteSink, integer, number, quote};

use super::exotic::{Buffer, Keys, Own, length_of, own_index, own_key, prototype, with_wtf8};
use super::lazy::scan::skip_string;
use super::realm::{Kind, Realm};
use super::serialise::KeyCache;

/// Deeper data is left to the interpreter, so that this may recurse; so are cycles, which are deeper than anything.
const MAX_DEPTH: u32 = 32;
/// What a value has on average, for the account of the work.
const BYTES_PER_VALUE: usize = 16;
/// The longest indentation of one level.
const MAX_GAP: usize = 10;

/// Why nothing was written here.
enum Stop {
    /// The interpreter has to do it.
    Elsewhere,
    /// An exception is pending.
    Thrown,
}

impl From<rquickjs::Error> for Stop {
    fn from(_: rquickjs::Error) -> Self {
        Self::Thrown
    }
}

/// The text of `value`; None if the interpreter has to write it.
pub(super) fn quick<'js>(
    ctx: &Ctx<'js>,
    value: &Value<'js>,
    replacer: &Value<'js>,
    space: &Value<'js>,
) -> Result<Option<Value<'js>>> {
    if !value.is_object() || replacer.is_object() || space.is_object() {
        return Ok(None);
    }
    let Some(realm) = ctx.userdata::<Realm<'js>>() else { return Ok(None) };
    if !realm.is_without_to_json()? {
        return Ok(None);
    }
    let Some(gap) = Gap::of(space)? else { return Ok(None) };
    let mut writer = Writer { realm: &realm, out: Buffer::new(ctx), keys: KeyCache::default() };
    let written = writer.value(value, 0);
    realm.spend(writer.out.written() / BYTES_PER_VALUE)?;
    match written {
        Ok(_) if gap.bytes().is_empty() => writer.out.into_string().map(Some),
        Ok(_) => indented(ctx, &writer.out, gap.bytes()).into_string().map(Some),
        Err(Stop::Elsewhere) => Ok(None),
        Err(Stop::Thrown) => Err(rquickjs::Error::Exception),
    }
}

/// The indentation of one level.
struct Gap {
    bytes: [u8; MAX_GAP],
    len: usize,
}

impl Gap {
    /// None if it is not ASCII.
    fn of(space: &Value<'_>) -> Result<Option<Self>> {
        let mut gap = Self { bytes: [b' '; MAX_GAP], len: 0 };
        if let Some(count) = space.as_number() {
            // The cast makes NaN 0.
            gap.len = (count as i64).clamp(0, MAX_GAP as i64) as usize;
        } else if space.is_string() {
            let ascii = with_wtf8(space, |text| {
                let head = text.get(..text.len().min(MAX_GAP)).unwrap_or_default();
                gap.len = head.len();
                gap.bytes[..head.len()].copy_from_slice(head);
                head.is_ascii()
            })?;
            return Ok(ascii.then_some(gap));
        }
        Ok(Some(gap))
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

struct Writer<'a, 'js> {
    realm: &'a Realm<'js>,
    out: Buffer<'js>,
    keys: KeyCache<'js>,
}

impl<'js> Writer<'_, 'js> {
    /// Writes a value; false for undefined, for which nothing is written.
    fn value(&mut self, value: &Value<'js>, depth: u32) -> std::result::Result<bool, Stop> {
        if self.out.has_failed() {
            return Err(Stop::Thrown);
        }
        if value.is_object() {
            self.container(value, depth)?;
        } else if let Some(int) = value.as_int() {
            integer(&mut self.out, i64::from(int));
        } else if value.is_string() {
            let out = &mut self.out;
            with_wtf8(value, |text| quote(out, text))?;
        } else if let Some(float) = value.as_float() {
            number(&mut self.out, float);
        } else if let Some(flag) = value.as_bool() {
            self.out.extend_from_slice(if flag { b"true" } else { b"false" });
        } else if value.is_null() {
            self.out.extend_from_slice(b"null");
        } else if value.is_undefined() {
            return Ok(false);
        } else {
            return Err(Stop::Elsewhere);
        }
        Ok(true)
    }

    fn container(&mut self, value: &Value<'js>, depth: u32) -> std::result::Result<(), Stop> {
        if depth >= MAX_DEPTH {
            return Err(Stop::Elsewhere);
        }
        let kind = self.realm.kind(value);
        let parent = match kind {
            Kind::Record | Kind::Plain | Kind::Array => prototype(value)?,
            _ => return Err(Stop::Elsewhere),
        };
        if kind == Kind::Array {
            if !self.realm.is_array_prototype(&parent) || self.has_to_json(value)? {
                return Err(Stop::Elsewhere);
            }
            return self.array(value, depth);
        }
        if !parent.is_null() && !self.realm.is_object_prototype(&parent) {
            return Err(Stop::Elsewhere);
        }
        // A record has no function among its properties while its text says all there is.
        if kind == Kind::Record && self.realm.records.copy(value, &mut self.out, usize::MAX, MAX_DEPTH).is_ok() {
            return Ok(());
        }
        if self.has_to_json(value)? {
            return Err(Stop::Elsewhere);
        }
        self.object(value, depth)
    }

    /// Whether the value has a `toJSON` of its own that may be called.
    fn has_to_json(&self, value: &Value<'js>) -> Result<bool> {
        Ok(match own_key(value, &self.realm.to_json)? {
            Own::Absent => false,
            Own::Data(method) => method.is_object(),
            Own::Accessor => true,
        })
    }

    fn array(&mut self, array: &Value<'js>, depth: u32) -> std::result::Result<(), Stop> {
        self.out.push(b'[');
        for at in 0..length_of(array)? {
            if at > 0 {
                self.out.push(b',');
            }
            let Own::Data(item) = own_index(array, at)? else { return Err(Stop::Elsewhere) };
            if !self.value(&item, depth + 1)? {
                self.out.extend_from_slice(b"null");
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, object: &Value<'js>, depth: u32) -> std::result::Result<(), Stop> {
        let keys = Keys::of(object)?;
        self.out.push(b'{');
        let mut is_first = true;
        for at in 0..keys.len() {
            let Own::Data(value) = keys.own(object, at)? else { return Err(Stop::Elsewhere) };
            if value.is_undefined() {
                continue;
            }
            if !is_first {
                self.out.push(b',');
            }
            is_first = false;
            self.keys.write(&mut self.out, &keys, at, usize::MAX)?;
            self.value(&value, depth + 1)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// The same text on several lines.
fn indented<'js>(ctx: &Ctx<'js>, compact: &Buffer<'js>, gap: &[u8]) -> Buffer<'js> {
    let text = compact.bytes();
    let mut out = Buffer::new(ctx);
    let mut depth = 0_usize;
    let line = |out: &mut Buffer<'js>, depth: usize| {
        out.push(b'\n');
        (0..depth).for_each(|_| out.extend_from_slice(gap));
    };
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match (byte, text.get(at + 1)) {
            (b'"', _) => {
                let end = skip_string(text, at).map_or(text.len(), |(end, _)| end);
                out.extend_from_slice(&text[at..end]);
                at = end;
                continue;
            }
            (b'{' | b'[', Some(&close @ (b'}' | b']'))) => {
                out.extend_from_slice(&[byte, close]);
                at += 1;
            }
            (b'{' | b'[', _) => {
                depth += 1;
                out.push(byte);
                line(&mut out, depth);
            }
            (b'}' | b']', _) => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(byte);
            }
            (b',', _) => {
                out.push(byte);
                line(&mut out, depth);
            }
            (b':', _) => out.extend_from_slice(b": "),
            _ => out.push(byte),
        }
        at += 1;
    }
    out
}
