//! What object became what, in memory that counts against the run's limit.

use rquickjs::{Ctx, Error, Result, Value, qjs};

/// A map from objects to their copies, by identity.
///
/// It keeps both alive, so that no address is used a second time.
pub(crate) struct Identities<'js> {
    ctx: Ctx<'js>,
    /// Open addressing; a place is free while its first value is undefined.
    slots: *mut [qjs::JSValue; 2],
    used: usize,
    /// Zero or a power of two.
    capacity: usize,
}

impl<'js> Identities<'js> {
    pub(crate) fn new(ctx: &Ctx<'js>) -> Self {
        Self { ctx: ctx.clone(), slots: std::ptr::null_mut(), used: 0, capacity: 0 }
    }

    fn slots(&mut self) -> &mut [[qjs::JSValue; 2]] {
        if self.slots.is_null() {
            return &mut [];
        }
        // SAFETY: `grow` initialised all `capacity` places, and only `self` refers to them.
        unsafe { std::slice::from_raw_parts_mut(self.slots, self.capacity) }
    }

    /// Where an object is, or would be.
    fn place(&mut self, object: qjs::JSValue) -> Option<&mut [qjs::JSValue; 2]> {
        let address = address_of(object);
        let slots = self.slots();
        let mask = slots.len().checked_sub(1)?;
        let mut at = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 & mask;
        // SAFETY: only looks at the tag. A table is at most half full, so this ends.
        while !unsafe { qjs::JS_IsUndefined(slots[at][0]) } && address_of(slots[at][0]) != address {
            at = (at + 1) & mask;
        }
        slots.get_mut(at)
    }

    /// What the object became, if it is known.
    pub(crate) fn get(&mut self, object: &Value<'js>) -> Option<Value<'js>> {
        let [known, copy] = *self.place(object.as_raw())?;
        // SAFETY: only looks at the tag.
        if unsafe { qjs::JS_IsUndefined(known) } {
            return None;
        }
        // SAFETY: the map holds the copy; the caller gets a reference of its own.
        Some(unsafe { Value::from_raw(self.ctx.clone(), qjs::JS_DupValue(self.ctx.as_raw().as_ptr(), copy)) })
    }

    /// Notes a copy; fails with a pending exception if there is no memory.
    pub(crate) fn put(&mut self, object: &Value<'js>, copy: &Value<'js>) -> Result<()> {
        if self.used * 2 >= self.capacity {
            self.grow()?;
        }
        let ctx = self.ctx.as_raw().as_ptr();
        // SAFETY: live values; the map takes over the references that are duplicated for it.
        let pair = unsafe { [qjs::JS_DupValue(ctx, object.as_raw()), qjs::JS_DupValue(ctx, copy.as_raw())] };
        if let Some(place) = self.place(object.as_raw()) {
            *place = pair;
            self.used += 1;
        }
        Ok(())
    }

    fn grow(&mut self) -> Result<()> {
        let capacity = (self.capacity * 2).max(16);
        let bytes = capacity * size_of::<[qjs::JSValue; 2]>();
        // SAFETY: a plain allocation; the result is checked.
        let slots = unsafe { qjs::js_malloc(self.ctx.as_raw().as_ptr(), bytes as _) }.cast::<[qjs::JSValue; 2]>();
        if slots.is_null() {
            return Err(Error::Exception);
        }
        for at in 0..capacity {
            // SAFETY: there is room for `capacity` places.
            unsafe { slots.add(at).write([qjs::JS_UNDEFINED; 2]) };
        }
        let (old, old_capacity) = (std::mem::replace(&mut self.slots, slots), self.capacity);
        self.capacity = capacity;
        for at in 0..old_capacity {
            // SAFETY: the first `old_capacity` places are initialised; the references move to the new table.
            let pair = unsafe { *old.add(at) };
            // SAFETY: only looks at the tag.
            if !unsafe { qjs::JS_IsUndefined(pair[0]) }
                && let Some(place) = self.place(pair[0])
            {
                *place = pair;
            }
        }
        // SAFETY: null or from this allocator, and not used again.
        unsafe { qjs::js_free(self.ctx.as_raw().as_ptr(), old.cast()) };
        Ok(())
    }
}

/// The address of an object; for anything else a number that no object has.
fn address_of(value: qjs::JSValue) -> usize {
    // SAFETY: only looks at the value, which is an object.
    if unsafe { qjs::JS_IsObject(value) } { unsafe { qjs::JS_VALUE_GET_PTR(value) as usize } } else { 0 }
}

impl Drop for Identities<'_> {
    fn drop(&mut self) {
        let ctx = self.ctx.as_raw().as_ptr();
        for pair in self.slots().iter() {
            // SAFETY: the map owns one reference of each value; undefined has none.
            pair.iter().for_each(|value| unsafe { qjs::JS_FreeValue(ctx, *value) });
        }
        // SAFETY: null or from this allocator, and freed once.
        unsafe { qjs::js_free(ctx, self.slots.cast()) };
    }
}
