//! The walk over a value: one frame per open container, no native recursion.

use rquickjs::{Array, Value, function::This};
use toolgate_wire::limits::MAX_JSON_DEPTH;

use super::super::exotic::{Keys, get_index, get_key, is_function, proxy_target, same_object, with_wtf8};
use super::super::realm::{Kind, Realm};
use super::keys::KeyCache;
use super::path::{Step, spell};
use super::{Caps, DepthPolicy, SerialiseError, Unwritable, UnwritablePolicy};
use toolgate_json::write::{integer, number, quote, quote_within};

type Outcome<T = ()> = Result<T, SerialiseError>;

/// `should_stop` is asked once in this many values.
const STOP_EVERY: u32 = 256;
/// A chain of Proxies of Proxies longer than this is not followed.
const PROXY_CHAIN: usize = 1_000;

/// A container that is being written, and how far.
struct Frame<'js> {
    of: Value<'js>,
    body: Body<'js>,
    next: u64,
    wrote: bool,
}

enum Body<'js> {
    /// Anything read by index: arrays, typed arrays, what a Set or Map was drained into.
    List { items: Value<'js>, len: u64 },
    /// Anything read by key.
    Object(Keys<'js>),
    /// A Map whose keys are all strings: its entries, as an array of pairs.
    Entries { pairs: Value<'js>, len: u64 },
}

impl Frame<'_> {
    fn closing(&self) -> u8 {
        if matches!(self.body, Body::List { .. }) { b']' } else { b'}' }
    }
}

/// Where a value stands in its container: decides what `undefined` becomes and what is written before it.
#[derive(Clone, Copy)]
enum Slot<'a, 'js> {
    Root,
    Item(u64),
    Property(usize),
    Entry(&'a Value<'js>),
}

pub(super) struct Walk<'a, 'js> {
    realm: &'a Realm<'js>,
    caps: &'a Caps<'a>,
    out: Vec<u8>,
    frames: Vec<Frame<'js>>,
    keys: KeyCache<'js>,
    visited: u32,
}

impl<'a, 'js> Walk<'a, 'js> {
    pub(super) fn new(realm: &'a Realm<'js>, caps: &'a Caps<'a>) -> Self {
        Self { realm, caps, out: Vec::new(), frames: Vec::new(), keys: KeyCache::default(), visited: 0 }
    }

    pub(super) fn run(mut self, root: Value<'js>) -> Outcome<Vec<u8>> {
        self.value(root, Slot::Root)?;
        while !self.frames.is_empty() {
            self.step()?;
        }
        Ok(self.out)
    }

    /// Writes the next part of the innermost container, or closes it.
    fn step(&mut self) -> Outcome {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        let at = frame.next;
        frame.next += 1;
        match &frame.body {
            Body::List { items, len } if at < *len => {
                let item = get_index(items, at as i64)?;
                self.value(item, Slot::Item(at))
            }
            Body::Object(keys) if (at as usize) < keys.len() => {
                let value = keys.get(&frame.of, at as usize)?;
                self.value(value, Slot::Property(at as usize))
            }
            Body::Entries { pairs, len } if at < *len => {
                let pair = get_index(pairs, at as i64)?;
                let (key, value) = (get_index(&pair, 0)?, get_index(&pair, 1)?);
                self.value(value, Slot::Entry(&key))
            }
            _ => {
                self.out.push(frame.closing());
                self.frames.pop();
                self.check_size()
            }
        }
    }

    /// Writes one value with what belongs before it, or opens it if it is a container.
    fn value(&mut self, value: Value<'js>, slot: Slot<'_, 'js>) -> Outcome {
        self.visited = self.visited.wrapping_add(1);
        if self.visited.is_multiple_of(STOP_EVERY) && (self.caps.should_stop)() {
            return Err(SerialiseError::Stopped);
        }
        let value = self.plain(self.asked(value, slot)?)?;
        if value.is_undefined() && matches!(slot, Slot::Property(_) | Slot::Entry(_)) {
            return Ok(());
        }
        self.lead(slot)?;
        if value.is_object() {
            self.open(value)?
        } else {
            self.scalar(&value)?
        }
        self.check_size()
    }

    /// What stands before a value: comma and key.
    fn lead(&mut self, slot: Slot<'_, 'js>) -> Outcome {
        let room = self.room();
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        if frame.wrote {
            self.out.push(b',');
        }
        frame.wrote = true;
        let fits = match (slot, &frame.body) {
            (Slot::Property(at), Body::Object(keys)) => self.keys.write(&mut self.out, keys, at, room)?,
            (Slot::Entry(key), _) => {
                let fits = with_wtf8(key, |text| quote_within(&mut self.out, text, room))?;
                self.out.push(b':');
                fits
            }
            _ => true,
        };
        if fits { Ok(()) } else { Err(self.too_large()) }
    }

    /// The value after its `toJSON`, if it has one.
    fn asked(&self, value: Value<'js>, slot: Slot<'_, 'js>) -> Outcome<Value<'js>> {
        if !value.is_object() && !is_big_int(&value) {
            return Ok(value);
        }
        let method = get_key(&value, &self.realm.to_json)?;
        match method.as_function() {
            Some(method) => Ok(method.call((This(value), self.slot_name(slot)?))?),
            None => Ok(value),
        }
    }

    /// The argument that `toJSON` gets.
    fn slot_name(&self, slot: Slot<'_, 'js>) -> Outcome<Value<'js>> {
        let ctx = self.realm.iso_text.ctx();
        let text = |text: &str| rquickjs::String::from_str(ctx.clone(), text).map(rquickjs::String::into_value);
        match slot {
            Slot::Root => Ok(text("")?),
            Slot::Item(at) => Ok(text(&at.to_string())?),
            Slot::Entry(key) => Ok(key.clone()),
            Slot::Property(at) => match self.frames.last().map(|frame| &frame.body) {
                Some(Body::Object(keys)) => match keys.key(at) {
                    Some(key) => Ok(key.to_value()?),
                    None => Ok(text("")?),
                },
                _ => Ok(text("")?),
            },
        }
    }

    /// Boxed primitives and dates as the primitive that they stand for.
    fn plain(&self, value: Value<'js>) -> Outcome<Value<'js>> {
        if !value.is_object() {
            return Ok(value);
        }
        match self.realm.kind(&value) {
            Kind::Number | Kind::String | Kind::Boolean | Kind::BigInt => Ok(self.realm.unbox(value)?),
            Kind::Date => Ok(self.realm.iso_text.call((value,))?),
            _ => Ok(value),
        }
    }

    fn scalar(&mut self, value: &Value<'js>) -> Outcome {
        if let Some(int) = value.as_int() {
            integer(&mut self.out, i64::from(int));
        } else if value.is_string() {
            self.string(value)?;
        } else if let Some(float) = value.as_float() {
            number(&mut self.out, float);
        } else if let Some(flag) = value.as_bool() {
            self.out.extend_from_slice(if flag { b"true" } else { b"false" });
        } else if is_big_int(value) {
            return self.big_int(value);
        } else if value.is_symbol() {
            return self.refuse_or_mark(Unwritable::Symbol, "[Symbol]");
        } else {
            self.out.extend_from_slice(b"null");
        }
        Ok(())
    }

    fn string(&mut self, value: &Value<'js>) -> Outcome {
        let room = self.room();
        let out = &mut self.out;
        match with_wtf8(value, |text| quote_within(out, text, room)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.too_large()),
            // A string too large for the result may also be too large for the engine to convert.
            Err(_) if self.realm.to_length(get_key(value, &self.realm.length)?)? > room as u64 => {
                value.ctx().catch();
                Err(self.too_large())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a container, unless it is one that can't be written.
    fn open(&mut self, value: Value<'js>) -> Outcome {
        let kind = self.realm.kind(&value);
        match kind {
            Kind::Promise => return self.refuse_or_mark(Unwritable::Promise, "[Promise]"),
            Kind::Other | Kind::Proxy if is_function(&value) => {
                return self.refuse_or_mark(Unwritable::Function, "[Function]");
            }
            Kind::RawJson => return self.raw(&value),
            _ => {}
        }
        if let Some(at) = self.frames.iter().position(|frame| same_object(&frame.of, &value)) {
            let start = spell(self.caps.root, &self.steps(at));
            let marker = format!("[Circular: {start}]");
            return self.refuse_or_mark(Unwritable::Cycle(start), &marker);
        }
        if !self.may_nest(kind)? {
            return Ok(());
        }
        if kind == Kind::Record && self.copy(&value)? {
            return Ok(());
        }
        let body = match kind {
            Kind::Error => return self.error(value),
            Kind::Array => self.list(value.clone())?,
            Kind::Proxy if is_array_behind(&value, self.realm)? => self.list(value.clone())?,
            Kind::Typed => self.typed(value.clone())?,
            Kind::Buffer => self.typed(self.realm.buffer_bytes.call((value.clone(),))?)?,
            Kind::View => self.typed(self.realm.view_bytes.call((value.clone(),))?)?,
            Kind::Set => self.list(self.realm.values.call((value.clone(),))?)?,
            Kind::Map => self.map(&value)?,
            _ => Body::Object(Keys::of(&value)?),
        };
        self.out.push(if matches!(body, Body::List { .. }) { b'[' } else { b'{' });
        self.frames.push(Frame { of: value, body, next: 0, wrote: false });
        Ok(())
    }

    /// Writes an untouched record from its text; false if it has to be walked.
    fn copy(&mut self, record: &Value<'js>) -> Outcome<bool> {
        if self.realm.to_json_everywhere()? {
            return Ok(false);
        }
        let depth = self.limit().saturating_sub(self.frames.len() as u32);
        Ok(self.realm.records.copy(record, &mut self.out, self.caps.max_bytes, depth).is_ok())
    }

    fn list(&self, items: Value<'js>) -> Outcome<Body<'js>> {
        let len = get_key(&items, &self.realm.length)?;
        // An array's own length is exact; a Proxy may say anything, which ToLength clamps.
        let len = self.realm.to_length(len)?;
        Ok(Body::List { items, len })
    }

    fn typed(&self, items: Value<'js>) -> Outcome<Body<'js>> {
        let len: f64 = self.realm.typed_length.call((items.clone(),))?;
        Ok(Body::List { items, len: len as u64 })
    }

    /// A Map as an object if that loses nothing, else as a list of pairs.
    fn map(&self, map: &Value<'js>) -> Outcome<Body<'js>> {
        let pairs: Array<'js> = self.realm.entries.call((map.clone(),))?;
        let len = pairs.len() as u64;
        let pairs = pairs.into_value();
        for at in 0..len {
            if !get_index(&get_index(&pairs, at as i64)?, 0)?.is_string() {
                return Ok(Body::List { items: pairs, len });
            }
        }
        Ok(Body::Entries { pairs, len })
    }

    /// An error is its name and its message; a stack is not part of a result.
    fn error(&mut self, error: Value<'js>) -> Outcome {
        self.out.extend_from_slice(b"{\"name\":");
        self.coerced(&get_key(&error, &self.realm.name)?, "Error")?;
        self.out.extend_from_slice(b",\"message\":");
        self.coerced(&get_key(&error, &self.realm.message)?, "")?;
        self.out.push(b'}');
        Ok(())
    }

    fn coerced(&mut self, value: &Value<'js>, default: &str) -> Outcome {
        if value.is_undefined() {
            quote(&mut self.out, default.as_bytes());
            return Ok(());
        }
        let room = self.room();
        if !with_wtf8(value, |text| quote_within(&mut self.out, text, room))? {
            return Err(self.too_large());
        }
        self.check_size()
    }

    /// What `JSON.rawJSON` holds is the text of one JSON primitive, checked when it was made.
    fn raw(&mut self, value: &Value<'js>) -> Outcome {
        let raw = get_key(value, &self.realm.raw_json)?;
        with_wtf8(&raw, |text| self.out.extend_from_slice(text))?;
        Ok(())
    }

    /// False if a marker was written in place of the container.
    fn may_nest(&mut self, kind: Kind) -> Outcome<bool> {
        let depth = self.frames.len() as u32;
        let limit = self.limit();
        if depth < limit {
            return Ok(true);
        }
        if depth >= MAX_JSON_DEPTH || self.caps.depth_policy == DepthPolicy::Error {
            return Err(SerialiseError::TooDeep { path: self.path(), limit });
        }
        let what = match kind {
            Kind::Array => "array",
            Kind::Map => "Map",
            Kind::Set => "Set",
            Kind::Error => "Error",
            Kind::Typed | Kind::Buffer | Kind::View => "bytes",
            _ => "object",
        };
        self.out.extend_from_slice(format!("\"[depth limit reached: {what}]\"").as_bytes());
        Ok(false)
    }

    fn limit(&self) -> u32 {
        self.caps.max_depth.unwrap_or(MAX_JSON_DEPTH).min(MAX_JSON_DEPTH)
    }

    fn room(&self) -> usize {
        self.caps.max_bytes.saturating_sub(self.out.len())
    }

    fn check_size(&self) -> Outcome {
        if self.out.len() > self.caps.max_bytes { Err(self.too_large()) } else { Ok(()) }
    }

    fn too_large(&self) -> SerialiseError {
        SerialiseError::TooLarge { limit: self.caps.max_bytes }
    }

    /// A value without a JSON form: an error, or the marker in its place.
    fn refuse_or_mark(&mut self, what: Unwritable, marker: &str) -> Outcome {
        if self.caps.unwritable_policy == UnwritablePolicy::Error {
            return Err(self.refuse(what));
        }
        quote(&mut self.out, marker.as_bytes());
        self.check_size()
    }

    /// The marker of a BigInt has its digits.
    fn big_int(&mut self, value: &Value<'js>) -> Outcome {
        if self.caps.unwritable_policy == UnwritablePolicy::Error {
            return Err(self.refuse(Unwritable::BigInt));
        }
        let room = self.room();
        let digits = with_wtf8(value, |text| (text.len() <= room).then(|| text.to_vec()))?;
        let Some(digits) = digits else { return Err(self.too_large()) };
        self.out.extend_from_slice(b"\"[BigInt: ");
        self.out.extend_from_slice(&digits);
        self.out.extend_from_slice(b"]\"");
        self.check_size()
    }

    fn refuse(&self, what: Unwritable) -> SerialiseError {
        SerialiseError::Unserialisable { path: self.path(), what }
    }

    fn path(&self) -> String {
        spell(self.caps.root, &self.steps(self.frames.len()))
    }

    /// The steps through the first `count` open containers.
    fn steps(&self, count: usize) -> Vec<Step> {
        self.frames.iter().take(count).map(current_step).collect()
    }
}

/// Where a container's walk is at the moment.
fn current_step(frame: &Frame<'_>) -> Step {
    let at = frame.next.saturating_sub(1);
    let named = match &frame.body {
        Body::List { .. } => None,
        Body::Object(keys) => keys.key(at as usize).and_then(|key| key.to_value().ok()),
        Body::Entries { pairs, .. } => get_index(pairs, at as i64).and_then(|pair| get_index(&pair, 0)).ok(),
    };
    match named.map(|key| with_wtf8(&key, |text| String::from_utf8_lossy(text).into_owned())) {
        Some(Ok(key)) => Step::Key(key),
        _ => Step::Index(at),
    }
}

fn is_big_int(value: &Value<'_>) -> bool {
    value.type_of() == rquickjs::Type::BigInt
}

/// Whether a Proxy stands, at the end of its chain, for an array.
fn is_array_behind<'js>(proxy: &Value<'js>, realm: &Realm<'js>) -> Outcome<bool> {
    let mut value = proxy.clone();
    for _ in 0..PROXY_CHAIN {
        match realm.kind(&value) {
            Kind::Proxy => value = proxy_target(&value)?,
            kind => return Ok(kind == Kind::Array),
        }
    }
    Ok(false)
}
