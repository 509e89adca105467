//! `structuredClone`, as the HTML standard has it, for the kinds of object that exist here.
//!
//! The algorithm is a constant script over captured functions; only telling
//! the kinds apart is native, since no script can do that reliably. There is
//! nothing to transfer between, so the `transfer` option is ignored.

use rquickjs::{Ctx, Function, Object, Result, Value, context::EvalOptions, object::Property};

use super::realm::{Kind, Realm};

/// Defines `structuredClone` on the global object. Call it after [`super::install`] and before guest code.
pub fn install_structured_clone(ctx: &Ctx<'_>) -> Result<()> {
    let kind_of = Function::new(ctx.clone(), kind_of)?;
    let mut options = EvalOptions::default();
    options.filename = Some("toolgate:data".into());
    let make: Function<'_> = ctx.eval_with_options(crate::prelude::CLONE, options)?;
    let clone: Function<'_> = make.call((kind_of,))?;
    let globals: Object<'_> = ctx.globals();
    globals.prop("structuredClone", Property::from(clone).writable().configurable().enumerable())
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
