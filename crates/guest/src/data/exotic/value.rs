//! Safe functions over single C calls: keys, elements, text, class ids.

use rquickjs::{Ctx, Error, Result, Value, qjs};

/// Turns a raw result into a value, or into the exception that the call left pending.
pub(super) fn owned<'js>(ctx: &Ctx<'js>, raw: qjs::JSValue) -> Result<Value<'js>> {
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

    /// Whether these are all the indices of an array with so many elements, and nothing else.
    pub(crate) fn are_indices(&self, length: u32) -> bool {
        let Some(last) = length.checked_sub(1) else { return self.len == 0 };
        let ctx = self.ctx.as_raw().as_ptr();
        // SAFETY: makes an atom of a number and releases it; a number's atom is the number itself.
        let index = unsafe {
            let atom = qjs::JS_NewAtomUInt32(ctx, last);
            qjs::JS_FreeAtom(ctx, atom);
            atom
        };
        // Indices come first and in ascending order.
        self.len == length && self.number(last as usize) == Some(index)
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

    /// The property at `at` of an object that is no Proxy.
    pub(crate) fn own(&self, object: &Value<'js>, at: usize) -> Result<Own<'js>> {
        self.number(at).map_or(Ok(Own::Absent), |atom| own(object, atom))
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

/// An own property, looked at without running guest code.
pub(crate) enum Own<'js> {
    Absent,
    Data(Value<'js>),
    /// Reading it would call a getter.
    Accessor,
}

fn own<'js>(object: &Value<'js>, atom: qjs::JSAtom) -> Result<Own<'js>> {
    let ctx = object.ctx();
    let none = qjs::JS_UNDEFINED;
    let mut found = qjs::JSPropertyDescriptor { flags: 0, value: none, getter: none, setter: none };
    // SAFETY: object and atom are alive for the call, and `found` is a valid place for the answer.
    let rc = unsafe { qjs::JS_GetOwnProperty(ctx.as_raw().as_ptr(), &mut found, object.as_raw(), atom) };
    match rc {
        0 => Ok(Own::Absent),
        1.. if found.flags & qjs::JS_PROP_GETSET as i32 != 0 => {
            // SAFETY: the engine gave owned references in all three places.
            unsafe {
                qjs::JS_FreeValue(ctx.as_raw().as_ptr(), found.getter);
                qjs::JS_FreeValue(ctx.as_raw().as_ptr(), found.setter);
            }
            Ok(Own::Accessor)
        }
        // The getter and the setter of a data property are undefined.
        1.. => owned(ctx, found.value).map(Own::Data),
        _ => Err(Error::Exception),
    }
}

/// The own property of an object that is no Proxy.
pub(crate) fn own_key<'js>(object: &Value<'js>, key: &Key<'js>) -> Result<Own<'js>> {
    own(object, key.atom)
}

/// The element of an array.
pub(crate) fn own_index<'js>(array: &Value<'js>, index: u32) -> Result<Own<'js>> {
    let ctx = array.ctx().as_raw().as_ptr();
    // SAFETY: makes an atom of a number, which is released below.
    let atom = unsafe { qjs::JS_NewAtomUInt32(ctx, index) };
    if atom == qjs::JS_ATOM_NULL {
        return Err(Error::Exception);
    }
    let found = own(array, atom);
    // SAFETY: the reference from above.
    unsafe { qjs::JS_FreeAtom(ctx, atom) };
    found
}

/// The prototype of an object that is no Proxy: an object or null.
pub(crate) fn prototype<'js>(object: &Value<'js>) -> Result<Value<'js>> {
    let ctx = object.ctx();
    // SAFETY: the object is alive; the engine returns an owned reference.
    owned(ctx, unsafe { qjs::JS_GetPrototype(ctx.as_raw().as_ptr(), object.as_raw()) })
}

/// The length of an array or of a string.
pub(crate) fn length_of(value: &Value<'_>) -> Result<u32> {
    let mut length = 0;
    // SAFETY: the value is alive and `length` is a valid place. Both kinds have a length of their own, so no getter runs.
    let rc = unsafe { qjs::JS_GetLength(value.ctx().as_raw().as_ptr(), value.as_raw(), &mut length) };
    if rc < 0 { Err(Error::Exception) } else { u32::try_from(length).map_err(|_| Error::Unknown) }
}

/// Gives a fresh object a property that a program may change.
pub(crate) fn put<'js>(object: &Value<'js>, keys: &Keys<'js>, at: usize, value: &Value<'js>) -> Result<()> {
    let Some(atom) = keys.number(at) else { return Ok(()) };
    let flags = (qjs::JS_PROP_C_W_E
        | qjs::JS_PROP_HAS_VALUE
        | qjs::JS_PROP_HAS_CONFIGURABLE
        | qjs::JS_PROP_HAS_WRITABLE
        | qjs::JS_PROP_HAS_ENUMERABLE
        | qjs::JS_PROP_THROW) as i32;
    let none = qjs::JS_UNDEFINED;
    let ctx = object.ctx().as_raw().as_ptr();
    // SAFETY: everything is alive for the call, and the engine duplicates what it keeps.
    let rc = unsafe { qjs::JS_DefineProperty(ctx, object.as_raw(), atom, value.as_raw(), none, none, flags) };
    if rc < 0 { Err(Error::Exception) } else { Ok(()) }
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
