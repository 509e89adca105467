//! Global names that are looked up when they are first used.
//!
//! The global object's prototype becomes an object whose properties a resolver function gives. Only the hook for own
//! properties is installed: when the resolver knows no such name, lookup goes on to the next prototype, and an unknown
//! identifier is the usual `ReferenceError`. rquickjs's exotic classes answer every lookup, so this class uses the C interface.

use std::ffi::{CStr, c_int};
use std::rc::Rc;

use rquickjs::{Ctx, Function, Object, Result, Value, qjs};

const CLASS_NAME: &CStr = c"Object";

/// The class that a runtime uses for its resolvers.
#[derive(Clone)]
pub(crate) struct Resolvers(Rc<Class>);

struct Class {
    id: qjs::JSClassID,
    // QuickJS keeps a pointer to the methods for as long as the runtime lives; the box fixes their address.
    _methods: Box<qjs::JSClassExoticMethods>,
}

impl Resolvers {
    /// Registers the class with the context's runtime. The result must live as long as that runtime.
    pub(crate) fn register(ctx: &Ctx<'_>) -> Self {
        let mut methods = Box::new(qjs::JSClassExoticMethods {
            get_own_property: Some(get_own_property),
            get_own_property_names: None,
            delete_property: None,
            define_own_property: None,
            has_property: None,
            get_property: None,
            set_property: None,
        });
        let class = qjs::JSClassDef {
            class_name: CLASS_NAME.as_ptr(),
            finalizer: Some(finalize),
            gc_mark: Some(mark),
            call: None,
            exotic: &mut *methods,
        };
        let mut id = qjs::JS_INVALID_CLASS_ID;
        // SAFETY: the context is alive, `id` is a valid place, and QuickJS copies `class` but keeps
        // `methods`, which this value owns for as long as the runtime lives.
        unsafe {
            let runtime = qjs::JS_GetRuntime(ctx.as_raw().as_ptr());
            qjs::JS_NewClassID(runtime, &mut id);
            qjs::JS_NewClass(runtime, id, &class);
        }
        Resolvers(Rc::new(Class { id, _methods: methods }))
    }

    /// An object whose string properties are what `resolve(name)` gives, unless that is undefined.
    pub(crate) fn object<'js>(&self, ctx: &Ctx<'js>, resolve: Function<'js>) -> Result<Object<'js>> {
        let raw = ctx.as_raw().as_ptr();
        // SAFETY: the class is registered with this runtime; the new object takes over one reference
        // to the resolver, which `finalize` gives back.
        let value = unsafe {
            let object = qjs::JS_NewObjectClass(raw, self.0.id as _);
            if qjs::JS_IsException(object) {
                return Err(rquickjs::Error::Exception);
            }
            let function = qjs::JS_DupValue(raw, resolve.as_value().as_raw());
            qjs::JS_SetOpaque(object, Box::into_raw(Box::new(function)).cast());
            Value::from_raw(ctx.clone(), object)
        };
        value.into_object().ok_or(rquickjs::Error::Unknown)
    }
}

/// The resolver of an object of this class, or null before it has one.
fn resolver(object: qjs::JSValue) -> *mut qjs::JSValue {
    let mut class = 0;
    // SAFETY: these hooks are only ever called for objects of our class, whose opaque is set by `object` alone.
    unsafe { qjs::JS_GetAnyOpaque(object, &mut class).cast() }
}

unsafe extern "C" fn get_own_property(
    raw: *mut qjs::JSContext,
    found: *mut qjs::JSPropertyDescriptor,
    object: qjs::JSValue,
    name: qjs::JSAtom,
) -> c_int {
    let resolve = resolver(object);
    let Some(raw) = std::ptr::NonNull::new(raw) else { return 0 };
    if resolve.is_null() {
        return 0;
    }
    // SAFETY: QuickJS calls with a live context and atom; `resolve` points to the boxed function of a live object.
    let answer = unsafe {
        let ctx = Ctx::from_raw(raw);
        let name = Value::from_raw(ctx.clone(), qjs::JS_AtomToValue(raw.as_ptr(), name));
        let function = Value::from_raw(ctx.clone(), qjs::JS_DupValue(raw.as_ptr(), *resolve));
        look_up(&ctx, function, name)
    };
    match answer {
        Ok(value) if value.is_undefined() => 0,
        Ok(value) => {
            if found.is_null() {
                return 1;
            }
            // SAFETY: QuickJS passes a descriptor to fill; it takes over the reference to the value.
            unsafe {
                found.write(qjs::JSPropertyDescriptor {
                    flags: (qjs::JS_PROP_ENUMERABLE | qjs::JS_PROP_CONFIGURABLE | qjs::JS_PROP_WRITABLE) as c_int,
                    value: qjs::JS_DupValue(raw.as_ptr(), value.as_raw()),
                    getter: qjs::JS_UNDEFINED,
                    setter: qjs::JS_UNDEFINED,
                });
            }
            1
        }
        Err(_) => -1,
    }
}

fn look_up<'js>(ctx: &Ctx<'js>, resolve: Value<'js>, name: Value<'js>) -> Result<Value<'js>> {
    match (resolve.into_function(), name.is_string()) {
        (Some(resolve), true) => resolve.call((name,)),
        _ => Ok(Value::new_undefined(ctx.clone())),
    }
}

unsafe extern "C" fn finalize(runtime: *mut qjs::JSRuntime, object: qjs::JSValue) {
    let resolve = resolver(object);
    if !resolve.is_null() {
        // SAFETY: the box was made by `object` and an object is finalised once.
        unsafe { qjs::JS_FreeValueRT(runtime, *Box::from_raw(resolve)) };
    }
}

unsafe extern "C" fn mark(runtime: *mut qjs::JSRuntime, object: qjs::JSValue, visit: qjs::JS_MarkFunc) {
    let resolve = resolver(object);
    if !resolve.is_null() {
        // SAFETY: the box lives until `finalize`.
        unsafe { qjs::JS_MarkValue(runtime, *resolve, visit) };
    }
}
