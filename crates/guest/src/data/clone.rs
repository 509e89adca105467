//! `structuredClone`, as the HTML standard has it, for the kinds of object that exist here.
//!
//! The algorithm is a constant script over captured functions; only telling
//! the kinds apart is native, since no script can do that reliably. There is
//! nothing to transfer between, so the `transfer` option is ignored.
//!
//! Plain data is copied natively first: what no guest code can be asked about,
//! without cycles. The copy of an unread record is another record over the
//! same text, unless that would keep a large text alive for a small part of it.

use rquickjs::{Ctx, Function, Object, Result, Value, context::EvalOptions, object::Property};

use super::exotic::{Elements, Identities, Keys, Own, Share, length_of, own_index, put};
use super::realm::{Kind, Realm};

/// Deeper data is left to the script, so that this may recurse; so are cycles, which are deeper than anything.
const MAX_DEPTH: u32 = 32;
/// Copies share a text if they are at least one part in this many of it.
const SHARED_PART: usize = 4;

/// Defines `structuredClone` on the global object. Call it after [`super::install`] and before guest code.
pub fn install_structured_clone(ctx: &Ctx<'_>) -> Result<()> {
    let kind_of = Function::new(ctx.clone(), kind_of)?;
    let mut options = EvalOptions::default();
    options.filename = Some("toolgate:data".into());
    let make: Function<'_> = ctx.eval_with_options(crate::prelude::CLONE, options)?;
    let copy_plain = Function::new(ctx.clone(), copy_plain)?;
    let clone: Function<'_> = make.call((kind_of, copy_plain))?;
    let globals: Object<'_> = ctx.globals();
    globals.prop("structuredClone", Property::from(clone).writable().configurable().enumerable())
}

/// The script alone, to compare the native copy with.
#[cfg(test)]
pub(super) fn without_native_copy<'js>(ctx: &Ctx<'js>) -> Result<Function<'js>> {
    let make: Function<'js> = ctx.eval(crate::prelude::CLONE)?;
    make.call((Function::new(ctx.clone(), kind_of)?,))
}

/// The script's name for the kind of an object.
fn kind_of<'js>(ctx: Ctx<'js>, object: Value<'js>) -> &'static str {
    let Some(realm) = ctx.userdata::<Realm<'js>>() else { return "" };
    match realm.kind(&object) {
        Kind::Plain | Kind::Record => "Plain",
        Kind::Array => "Array",
        Kind::Number => "Number",
        Kind::String => "String",
        Kind::Boolean => "Boolean",
        Kind::BigInt => "BigInt",
        Kind::Date => "Date",
        Kind::RegExp => "RegExp",
        Kind::Map => "Map",
        Kind::Set => "Set",
        Kind::Error => "Error",
        Kind::Typed => "Typed",
        Kind::Buffer => "Buffer",
        Kind::View => "View",
        Kind::Other | Kind::Promise | Kind::Proxy | Kind::RawJson => "",
    }
}

/// A copy of plain data; undefined if the script has to make it.
fn copy_plain<'js>(ctx: Ctx<'js>, value: Value<'js>) -> Result<Value<'js>> {
    let nothing = Value::new_undefined(ctx.clone());
    let Some(realm) = ctx.userdata::<Realm<'js>>() else { return Ok(nothing) };
    let mut copier = PlainCopier { realm: &realm, known: Identities::new(&ctx), copied: 0 };
    let copy = copier.value(&value, 0, None);
    realm.spend(copier.copied)?;
    match copy {
        Ok(copy) => Ok(copy),
        Err(Stop::Elsewhere) => Ok(nothing),
        Err(Stop::Thrown) => Err(rquickjs::Error::Exception),
    }
}

/// Why there is no copy.
enum Stop {
    /// The script has to make it.
    Elsewhere,
    /// An exception is pending.
    Thrown,
}

impl From<rquickjs::Error> for Stop {
    fn from(_: rquickjs::Error) -> Self {
        Self::Thrown
    }
}

type Copied<'js> = std::result::Result<Value<'js>, Stop>;

struct PlainCopier<'a, 'js> {
    realm: &'a Realm<'js>,
    known: Identities<'js>,
    copied: usize,
}

impl<'js> PlainCopier<'_, 'js> {
    /// `shared` is the text that copies of records may keep.
    fn value(&mut self, value: &Value<'js>, depth: u32, shared: Option<usize>) -> Copied<'js> {
        self.copied += 1;
        if value.is_symbol() {
            return Err(Stop::Elsewhere);
        }
        if !value.is_object() {
            return Ok(value.clone());
        }
        if depth >= MAX_DEPTH {
            return Err(Stop::Elsewhere);
        }
        if let Some(copy) = self.known.get(value) {
            return Ok(copy);
        }
        let copy = match self.realm.kind(value) {
            Kind::Record => match self.record(value, shared) {
                Some(copy) => copy?,
                None => self.object(value, depth)?,
            },
            Kind::Plain => self.object(value, depth)?,
            Kind::Array => self.array(value, depth)?,
            _ => return Err(Stop::Elsewhere),
        };
        self.known.put(value, &copy)?;
        Ok(copy)
    }

    /// The copy of an unread record: of another one, parts may be elsewhere in the data too.
    fn record(&self, record: &Value<'js>, shared: Option<usize>) -> Option<Result<Value<'js>>> {
        let records = self.realm.records;
        let text = records.text_of(record)?;
        if shared == Some(text) || is_large_part(&records.share(record)?) {
            records.twin(record)
        } else {
            records.parsed(record)
        }
    }

    fn object(&mut self, object: &Value<'js>, depth: u32) -> Copied<'js> {
        let copy = Object::new(object.ctx().clone())?.into_value();
        let keys = Keys::of(object)?;
        for at in 0..keys.len() {
            let Own::Data(value) = keys.own(object, at)? else { return Err(Stop::Elsewhere) };
            put(&copy, &keys, at, &self.value(&value, depth + 1, None)?)?;
        }
        Ok(copy)
    }

    fn array(&mut self, array: &Value<'js>, depth: u32) -> Copied<'js> {
        let length = length_of(array)?;
        if !Keys::of(array)?.are_indices(length) {
            return Err(Stop::Elsewhere);
        }
        let shared = self.shared_by(array, length)?;
        let mut copies = Elements::new(array.ctx());
        for at in 0..length {
            let Own::Data(item) = own_index(array, at)? else { return Err(Stop::Elsewhere) };
            copies.push(&self.value(&item, depth + 1, shared)?)?;
        }
        Ok(copies.into_array()?)
    }

    /// The text of which the records in this array are a large part, if they are all from one.
    fn shared_by(&self, array: &Value<'js>, length: u32) -> Result<Option<usize>> {
        let mut all: Option<Share> = None;
        for at in 0..length {
            let Own::Data(item) = own_index(array, at)? else { return Ok(None) };
            let Some(text) = self.realm.records.text_of(&item) else { continue };
            match &mut all {
                Some(all) if all.text != text => return Ok(None),
                // It is enough already, and only the rest of the texts is of interest.
                Some(all) if is_large_part(all) => {}
                Some(all) => all.own += self.realm.records.share(&item).map_or(0, |share| share.own),
                None => all = self.realm.records.share(&item),
            }
        }
        Ok(all.filter(is_large_part).map(|all| all.text))
    }
}

fn is_large_part(share: &Share) -> bool {
    share.own.saturating_mul(SHARED_PART) >= share.whole
}
