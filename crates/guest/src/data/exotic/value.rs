//! Safe functions over single C calls: keys, elements, text, class ids.

use rquickjs::{Ctx, Error, Result, Value, qjs};

/// Turns a raw result into a value, or into the exception that the call left pending.
fn owned<'js>(ctx: &Ctx<'js>, raw: qjs::JSValue) -> Result<Value<'js>> {
    // SAFETY: reads the tag of a value that the engine has just returned.
    if unsafe { qjs::JS_IsException(raw) } {
        return Err(Error::Exception);
    }
    // SAFETY: `raw` came from an engine call on this context that returns an owned reference.
    Ok(unsafe { Value::from_raw(ctx.clone(), raw) })
}

/// A property key that is kept alive, so that its number can't be given to another name.
pub(crate) struct Key<'js> {
    ctx: Ctx<'js>,
    atom: qjs::JSAtom,
}

impl<'js> Key<'js> {
    /// The key for a name in plain UTF-8.
    pub(crate) fn new(ctx: &Ctx<'js>, name: &str) -> Result<Self> {
        // SAFETY: pointer and length describe `name`, which outlives the call; the engine copies it.
        let atom = unsafe { qjs::JS_NewAtomLen(ctx.as_raw().as_ptr(), name.as_ptr().cast(), name.len() as _) };
        if atom == qjs::JS_ATOM_NULL { Err(Error::Exception) } else { Ok(Self { ctx: ctx.clone(), atom }) }
    }

    /// The key's number: equal numbers mean equal keys as long as both are alive.
    pub(crate) fn number(&self) -> u32 {
        self.atom
    }

    /// The key as the string that guest code would see.
    pub(crate) fn to_value(&self) -> Result<Value<'js>> {
        // SAFETY: the atom is alive while `self` is.
        owned(&self.ctx, unsafe { qjs::JS_AtomToString(self.ctx.as_raw().as_ptr(), self.atom) })
    }
}

impl Clone for Key<'_> {
    fn clone(&self) -> Self {
        // SAFETY: the atom is alive while `self` is; the new reference is released by `drop`.
        let atom = unsafe { qjs::JS_DupAtom(self.ctx.as_raw().as_ptr(), self.atom) };
        Self { ctx: self.ctx.clone(), atom }
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: `self` owns one reference of the atom.
        unsafe { qjs::JS_FreeAtom(self.ctx.as_raw().as_ptr(), self.atom) };
    }
}

/// The own enumerable string keys of an object, in the order JavaScript gives them.
pub(crate) struct Keys<'js> {
    ctx: Ctx<'js>,
    table: *mut qjs::JSPropertyEnum,
    len: u32,
}

impl<'js> Keys<'js> {
    /// Asks the object; a Proxy's traps run here and may throw.
    pub(crate) fn of(object: &Value<'js>) -> Result<Self> {
        let ctx = object.ctx();
        let mut table = std::ptr::null_mut();
        let mut len = 0;
        let flags = (qjs::JS_GPN_STRING_MASK | qjs::JS_GPN_ENUM_ONLY) as i32;
        // SAFETY: both out-pointers are valid for the call; a value that is no object makes the call throw.
        let rc =
            unsafe { qjs::JS_GetOwnPropertyNames(ctx.as_raw().as_ptr(), &mut table, &mut len, object.as_raw(), flags) };
        if rc < 0 { Err(Error::Exception) } else { Ok(Self { ctx: ctx.clone(), table, len }) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    fn atoms(&self) -> &[qjs::JSPropertyEnum] {
        if self.table.is_null() {
            return &[];
        }
        // SAFETY: the engine gave a table of `len` initialised entries, owned by `self` until drop.
        unsafe { std::slice::from_raw_parts(self.table, self.len()) }
    }

    /// The number of the key at `at`.
    pub(crate) fn number(&self, at: usize) -> Option<u32> {
        self.atoms().get(at).map(|entry| entry.atom)
    }

    /// The key at `at`, kept alive on its own.
    pub(crate) fn key(&self, at: usize) -> Option<Key<'js>> {
        let atom = self.number(at)?;
        // SAFETY: the table holds a reference of the atom; the new one is released by `Key::drop`.
        let atom = unsafe { qjs::JS_DupAtom(self.ctx.as_raw().as_ptr(), atom) };
        Some(Key { ctx: self.ctx.clone(), atom })
    }

    /// Reads the property at `at` of an object: getters and traps run.
    pub(crate) fn get(&self, object: &Value<'js>, at: usize) -> Result<Value<'js>> {
        let Some(atom) = self.number(at) else { return Ok(Value::new_undefined(self.ctx.clone())) };
        // SAFETY: the atom is alive while the table is.
        owned(&self.ctx, unsafe { qjs::JS_GetProperty(self.ctx.as_raw().as_ptr(), object.as_raw(), atom) })
    }
}

impl Drop for Keys<'_> {
    fn drop(&mut self) {
        // SAFETY: the table and its atoms belong to `self`; a null table is skipped by the engine.
        unsafe { qjs::JS_FreePropertyEnum(self.ctx.as_raw().as_ptr(), self.table, self.len) };
    }
}

/// Reads `value[key]`; the value may be a primitive.
pub(crate) fn get_key<'js>(value: &Value<'js>, key: &Key<'js>) -> Result<Value<'js>> {
    let ctx = value.ctx();
    // SAFETY: value and atom are alive for the call.
    owned(ctx, unsafe { qjs::JS_GetProperty(ctx.as_raw().as_ptr(), value.as_raw(), key.atom) })
}

/// Whether `key in object`.
pub(crate) fn has_key<'js>(object: &Value<'js>, key: &Key<'js>) -> Result<bool> {
    // SAFETY: object and atom are alive for the call.
    let rc = unsafe { qjs::JS_HasProperty(object.ctx().as_raw().as_ptr(), object.as_raw(), key.atom) };
    if rc < 0 { Err(Error::Exception) } else { Ok(rc > 0) }
}

/// Reads `value[index]`.
pub(crate) fn get_index<'js>(value: &Value<'js>, index: i64) -> Result<Value<'js>> {
    let ctx = value.ctx();
    // SAFETY: the value is alive for the call.
    owned(ctx, unsafe { qjs::JS_GetPropertyInt64(ctx.as_raw().as_ptr(), value.as_raw(), index) })
}

/// The engine's number for the kind of object that this is; 0 for primitives.
pub(crate) fn class_id(value: &Value<'_>) -> u32 {
    // SAFETY: only looks at the value.
    unsafe { qjs::JS_GetClassID(value.as_raw()) }
}

/// Whether the value can be called, Proxies of functions included.
pub(crate) fn is_function(value: &Value<'_>) -> bool {
    // SAFETY: only looks at the value.
    unsafe { qjs::JS_IsFunction(value.ctx().as_raw().as_ptr(), value.as_raw()) }
}

/// Whether both are the very same object.
pub(crate) fn same_object<'js>(one: &Value<'js>, other: &Value<'js>) -> bool {
    one.is_object() && one == other
}

/// What a Proxy stands for; throws if it was revoked.
pub(crate) fn proxy_target<'js>(proxy: &Value<'js>) -> Result<Value<'js>> {
    let ctx = proxy.ctx();
    // SAFETY: the call checks that the value is a Proxy and throws otherwise.
    owned(ctx, unsafe { qjs::JS_GetProxyTarget(ctx.as_raw().as_ptr(), proxy.as_raw()) })
}

/// Shows a string's text as UTF-8 in which lone surrogates stand as three bytes of their own (WTF-8).
pub(crate) fn with_wtf8<R>(string: &Value<'_>, read: impl FnOnce(&[u8]) -> R) -> Result<R> {
    let ctx = string.ctx().as_raw().as_ptr();
    let mut len: qjs::size_t = 0;
    // SAFETY: `len` is valid for the call.
    let text = unsafe { qjs::JS_ToCStringLen2(ctx, &mut len, string.as_raw(), false) };
    if text.is_null() {
        return Err(Error::Exception);
    }
    let guard = Text { ctx, text };
    // SAFETY: the engine gave `len` bytes that stay in place until the guard frees them.
    let result = read(unsafe { std::slice::from_raw_parts(text.cast(), len as usize) });
    drop(guard);
    Ok(result)
}

/// Frees the text even if the reader panics.
struct Text {
    ctx: *mut qjs::JSContext,
    text: *const std::ffi::c_char,
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: the text came from JS_ToCStringLen2 on this context and is freed once.
        unsafe { qjs::JS_FreeCString(self.ctx, self.text) };
    }
}
