//! What `data` knows about one realm, captured before guest code runs.
//!
//! Guest code may redefine every global. Serialising must still tell a Map
//! from a Date and walk it, so the functions for that are taken here once,
//! and the engine's class numbers are learnt from samples, not assumed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rquickjs::{Array, Ctx, Function, Object, Result, Value, context::EvalOptions};

use crate::prelude;

use super::exotic::{Key, Own, RecordClass, class_id, has_key, own_key, prototype};

/// How a value that is an object is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any object without a rule of its own, functions included.
    Other,
    Plain,
    Array,
    Number,
    String,
    Boolean,
    BigInt,
    Date,
    RegExp,
    Map,
    Set,
    Error,
    Typed,
    Buffer,
    View,
    Promise,
    Proxy,
    RawJson,
    /// An object that reads from its JSON text.
    Record,
}

const SAMPLED: [(&str, Kind); 17] = [
    ("Plain", Kind::Plain),
    ("Array", Kind::Array),
    ("Number", Kind::Number),
    ("String", Kind::String),
    ("Boolean", Kind::Boolean),
    ("BigInt", Kind::BigInt),
    ("Date", Kind::Date),
    ("RegExp", Kind::RegExp),
    ("Map", Kind::Map),
    ("Set", Kind::Set),
    ("Error", Kind::Error),
    ("Typed", Kind::Typed),
    ("Buffer", Kind::Buffer),
    ("View", Kind::View),
    ("Promise", Kind::Promise),
    ("Proxy", Kind::Proxy),
    ("RawJson", Kind::RawJson),
];

/// The captured functions, keys and class numbers of one context.
pub(crate) struct Realm<'js> {
    kinds: Vec<Kind>,
    /// The class of lazy records.
    pub(crate) records: RecordClass,
    object_prototype: Value<'js>,
    array_prototype: Value<'js>,
    /// `Date` to ISO text, or null for an invalid date.
    pub(crate) iso_text: Function<'js>,
    /// `Map` to an array of `[key, value]`.
    pub(crate) entries: Function<'js>,
    /// `Set` to an array.
    pub(crate) values: Function<'js>,
    unbox_number: Function<'js>,
    unbox_string: Function<'js>,
    unbox_boolean: Function<'js>,
    unbox_big_int: Function<'js>,
    to_number: Function<'js>,
    spend: Function<'js>,
    /// The true length of a typed array.
    pub(crate) typed_length: Function<'js>,
    /// `ArrayBuffer` to a `Uint8Array` over it.
    pub(crate) buffer_bytes: Function<'js>,
    /// `DataView` to a `Uint8Array` over the same bytes.
    pub(crate) view_bytes: Function<'js>,
    pub(crate) to_json: Key<'js>,
    pub(crate) length: Key<'js>,
    pub(crate) name: Key<'js>,
    pub(crate) message: Key<'js>,
    pub(crate) raw_json: Key<'js>,
    /// Bytes that records keep of the texts that the program had parsed.
    pub(crate) parsed_text: Rc<Cell<usize>>,
    /// Lists of objects that keep the shapes of copied records alive.
    pub(crate) shapes: RefCell<Vec<Value<'js>>>,
}

impl<'js> Realm<'js> {
    /// Captures the realm. Call it before any guest code.
    pub(crate) fn capture(ctx: &Ctx<'js>) -> Result<Self> {
        let records = RecordClass::install(ctx)?;
        let mut options = EvalOptions::default();
        options.filename = Some("toolgate:data".into());
        let captured: Object<'js> = ctx.eval_with_options(prelude::REALM, options)?;
        let samples: Function<'js> = captured.get("samples")?;
        let mut kinds = learn_kinds(&samples.call(())?)?;
        put(&mut kinds, records.id(), Kind::Record);
        Ok(Self {
            kinds,
            records,
            object_prototype: captured.get("objectPrototype")?,
            array_prototype: captured.get("arrayPrototype")?,
            iso_text: captured.get("isoText")?,
            entries: captured.get("entries")?,
            values: captured.get("values")?,
            unbox_number: captured.get("unboxNumber")?,
            unbox_string: captured.get("unboxString")?,
            unbox_boolean: captured.get("unboxBoolean")?,
            unbox_big_int: captured.get("unboxBigInt")?,
            to_number: captured.get("toNumber")?,
            spend: captured.get("spend")?,
            typed_length: captured.get("typedLength")?,
            buffer_bytes: captured.get("bufferBytes")?,
            view_bytes: captured.get("viewBytes")?,
            to_json: Key::new(ctx, "toJSON")?,
            length: Key::new(ctx, "length")?,
            name: Key::new(ctx, "name")?,
            message: Key::new(ctx, "message")?,
            raw_json: Key::new(ctx, "rawJSON")?,
            parsed_text: Rc::default(),
            shapes: RefCell::default(),
        })
    }

    /// The kind of an object; `Other` for anything unknown.
    pub(crate) fn kind(&self, object: &Value<'js>) -> Kind {
        self.kinds.get(class_id(object) as usize).copied().unwrap_or(Kind::Other)
    }

    /// The primitive inside a boxed one; other values as they are.
    pub(crate) fn unbox(&self, value: Value<'js>) -> Result<Value<'js>> {
        let unbox = match self.kind(&value) {
            Kind::Number => &self.unbox_number,
            Kind::String => &self.unbox_string,
            Kind::Boolean => &self.unbox_boolean,
            Kind::BigInt => &self.unbox_big_int,
            _ => return Ok(value),
        };
        unbox.call((value,))
    }

    /// Whether ordinary objects and arrays have a `toJSON`, so that even untouched text may not be copied.
    pub(crate) fn to_json_everywhere(&self) -> Result<bool> {
        Ok(has_key(&self.array_prototype, &self.to_json)? || has_key(&self.object_prototype, &self.to_json)?)
    }

    /// Whether ordinary objects and arrays inherit no `toJSON`, found out without running guest code.
    pub(crate) fn is_without_to_json(&self) -> Result<bool> {
        let lacks = |object| Ok::<_, rquickjs::Error>(matches!(own_key(object, &self.to_json)?, Own::Absent));
        Ok(lacks(&self.array_prototype)?
            && self.is_object_prototype(&prototype(&self.array_prototype)?)
            && lacks(&self.object_prototype)?
            && prototype(&self.object_prototype)?.is_null())
    }

    pub(crate) fn is_object_prototype(&self, object: &Value<'js>) -> bool {
        *object == self.object_prototype
    }

    pub(crate) fn is_array_prototype(&self, object: &Value<'js>) -> bool {
        *object == self.array_prototype
    }

    /// Accounts for work that a native function did, so that a loop around it is interrupted about as soon as one around a
    /// script. Fails when the run is to stop.
    pub(crate) fn spend(&self, values: usize) -> Result<()> {
        const VALUES_PER_TURN: usize = 16;
        match u32::try_from(values / VALUES_PER_TURN).unwrap_or(u32::MAX) {
            0 => Ok(()),
            turns => self.spend.call((turns,)),
        }
    }

    /// What an array-like claims as its length, made a count.
    pub(crate) fn to_length(&self, claimed: Value<'js>) -> Result<u64> {
        const MAX_SAFE: f64 = 9_007_199_254_740_991.0;
        let number = match claimed.as_number() {
            Some(number) => number,
            None => self.to_number.call((claimed,))?,
        };
        // The cast makes NaN and negative numbers 0.
        Ok(number.min(MAX_SAFE) as u64)
    }
}

fn learn_kinds(samples: &Object<'_>) -> Result<Vec<Kind>> {
    let mut kinds = Vec::new();
    for (name, kind) in SAMPLED {
        let group: Array<'_> = samples.get(name)?;
        for sample in group.iter::<Value<'_>>() {
            put(&mut kinds, class_id(&sample?), kind);
        }
    }
    Ok(kinds)
}

fn put(kinds: &mut Vec<Kind>, class: u32, kind: Kind) {
    let class = class as usize;
    if kinds.len() <= class {
        kinds.resize(class + 1, Kind::Other);
    }
    kinds[class] = kind;
}
