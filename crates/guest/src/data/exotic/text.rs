//! Memory that the engine's own accounting sees: what lazy data keeps counts against the run's limit.

use rquickjs::{Ctx, Error, Result, Value, qjs};
use toolgate_json::write::ByteSink;

use super::value::owned;

/// A buffer for JSON text inside the sandbox's memory limit.
///
/// Read the text straight into it: it then becomes values without another copy.
pub struct Text<'js> {
    block: Option<Block>,
    ctx: Ctx<'js>,
}

impl<'js> Text<'js> {
    /// A buffer of `len` zero bytes; fails with a pending exception if the limit does not allow it.
    pub fn new(ctx: &Ctx<'js>, len: usize) -> Result<Self> {
        // SAFETY: the context is alive; the result is checked. One byte more, as nothing may be allocated as empty.
        let start = unsafe { qjs::js_mallocz(ctx.as_raw().as_ptr(), len.saturating_add(1) as _) }.cast::<u8>();
        if start.is_null() {
            return Err(Error::Exception);
        }
        Ok(Self { block: Some(Block { start, len }), ctx: ctx.clone() })
    }

    /// A buffer with a copy of `text`.
    pub fn copy(ctx: &Ctx<'js>, text: &str) -> Result<Self> {
        let mut copy = Self::new(ctx, text.len())?;
        copy.bytes_mut().copy_from_slice(text.as_bytes());
        Ok(copy)
    }

    /// What the buffer holds.
    pub fn bytes(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], Block::bytes)
    }

    /// The buffer, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.block {
            // SAFETY: `start` points at `len` initialised bytes that only `self` refers to.
            Some(block) => unsafe { std::slice::from_raw_parts_mut(block.start, block.len) },
            None => &mut [],
        }
    }

    /// Hands the memory over; the receiver frees it.
    pub(super) fn into_block(mut self) -> Block {
        self.block.take().unwrap_or(Block { start: std::ptr::null_mut(), len: 0 })
    }
}

impl Drop for Text<'_> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            // SAFETY: the block came from this context's allocator and is freed once.
            unsafe { qjs::js_free(self.ctx.as_raw().as_ptr(), block.start.cast()) };
        }
    }
}

/// Bytes from the engine's allocator, to be freed by the owner of the block.
pub(super) struct Block {
    start: *mut u8,
    len: usize,
}

impl Block {
    pub(super) fn bytes(&self) -> &[u8] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: `start` points at `len` initialised bytes that stay in place until `free`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The block came from this runtime, and nothing uses its bytes any more.
    pub(super) unsafe fn free(self, rt: *mut qjs::JSRuntime) {
        // SAFETY: as the caller promises; null is skipped.
        unsafe { qjs::js_free_rt(rt, self.start.cast()) };
    }
}

/// Values on their way into an array, in memory that counts against the limit.
pub(super) struct List {
    ctx: *mut qjs::JSContext,
    values: *mut qjs::JSValue,
    len: usize,
    capacity: usize,
}

impl List {
    pub(super) fn new(ctx: *mut qjs::JSContext) -> Self {
        Self { ctx, values: std::ptr::null_mut(), len: 0, capacity: 0 }
    }

    /// With room for so many values; fails with a pending exception if there is no memory for them.
    pub(super) fn with_capacity(ctx: *mut qjs::JSContext, capacity: usize) -> Result<Self> {
        let mut list = Self::new(ctx);
        if capacity == 0 || list.grow_to(capacity) { Ok(list) } else { Err(Error::Exception) }
    }

    /// Takes a value over; fails with a pending exception if there is no memory for it.
    pub(super) fn push(&mut self, value: qjs::JSValue) -> Result<()> {
        if self.len == self.capacity && !self.grow_to((self.capacity * 2).max(4)) {
            // SAFETY: the value was handed over and has found no place.
            unsafe { qjs::JS_FreeValue(self.ctx, value) };
            return Err(Error::Exception);
        }
        // SAFETY: `len` is below `capacity`, so the place belongs to the list.
        unsafe { self.values.add(self.len).write(value) };
        self.len += 1;
        Ok(())
    }

    fn grow_to(&mut self, capacity: usize) -> bool {
        let bytes = capacity * size_of::<qjs::JSValue>();
        // SAFETY: `values` is null or came from this allocator; on failure it stays as it is.
        let grown = unsafe { qjs::js_realloc(self.ctx, self.values.cast(), bytes as _) };
        if grown.is_null() {
            return false;
        }
        self.values = grown.cast();
        self.capacity = capacity;
        true
    }

    /// Makes the array. The values belong to it, or are freed if there is no memory.
    pub(super) fn into_array(mut self) -> qjs::JSValue {
        let len = std::mem::take(&mut self.len);
        let Ok(count) = i32::try_from(len) else {
            self.len = len;
            // SAFETY: a plain call that sets the exception.
            return unsafe { qjs::JS_ThrowOutOfMemory(self.ctx) };
        };
        // SAFETY: `values` holds `count` owned values (or is null with none); the engine takes them over in any case.
        unsafe { qjs::JS_NewArrayFrom(self.ctx, count, self.values) }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        for at in 0..self.len {
            // SAFETY: the first `len` places hold owned values.
            unsafe { qjs::JS_FreeValue(self.ctx, self.values.add(at).read()) };
        }
        // SAFETY: `values` is null or came from this allocator.
        unsafe { qjs::js_free(self.ctx, self.values.cast()) };
    }
}

/// Elements on their way into an array.
pub(crate) struct Elements<'js> {
    ctx: Ctx<'js>,
    list: List,
}

impl<'js> Elements<'js> {
    pub(crate) fn new(ctx: &Ctx<'js>) -> Self {
        Self { ctx: ctx.clone(), list: List::new(ctx.as_raw().as_ptr()) }
    }

    pub(crate) fn push(&mut self, value: &Value<'js>) -> Result<()> {
        // SAFETY: a live value; the list takes over the reference that is duplicated for it.
        self.list.push(unsafe { qjs::JS_DupValue(self.ctx.as_raw().as_ptr(), value.as_raw()) })
    }

    pub(crate) fn into_array(self) -> Result<Value<'js>> {
        owned(&self.ctx, self.list.into_array())
    }
}

/// Text that is being written, in memory that counts against the limit.
///
/// Once there is no memory for it, it stays as it is and [`Buffer::into_string`] fails.
pub(crate) struct Buffer<'js> {
    ctx: Ctx<'js>,
    start: *mut u8,
    len: usize,
    capacity: usize,
    failed: bool,
}

impl<'js> Buffer<'js> {
    pub(crate) fn new(ctx: &Ctx<'js>) -> Self {
        Self { ctx: ctx.clone(), start: std::ptr::null_mut(), len: 0, capacity: 0, failed: false }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: the first `len` bytes were written, and only `self` refers to them.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// Whether memory ran out; the exception is pending.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// The text as a string.
    pub(crate) fn into_string(self) -> Result<Value<'js>> {
        if self.failed {
            return Err(Error::Exception);
        }
        let bytes = self.bytes();
        // SAFETY: pointer and length describe the text, which the engine copies.
        let string =
            unsafe { qjs::JS_NewStringLen(self.ctx.as_raw().as_ptr(), bytes.as_ptr().cast(), bytes.len() as _) };
        owned(&self.ctx, string)
    }

    /// Makes room for so many more bytes; false if there is none.
    #[cold]
    fn grow(&mut self, more: usize) -> bool {
        let needed = self.len.saturating_add(more);
        let capacity = needed.max(self.capacity.saturating_add(self.capacity / 2)).max(256);
        if self.failed {
            return false;
        }
        // SAFETY: `start` is null or came from this allocator; on failure it stays as it is, with an exception pending.
        let grown = unsafe { qjs::js_realloc(self.ctx.as_raw().as_ptr(), self.start.cast(), capacity as _) };
        if grown.is_null() {
            self.failed = true;
            return false;
        }
        self.start = grown.cast();
        self.capacity = capacity;
        true
    }
}

impl ByteSink for Buffer<'_> {
    #[inline]
    fn push(&mut self, byte: u8) {
        if self.len < self.capacity || self.grow(1) {
            // SAFETY: `len` is below `capacity`, so the place belongs to the buffer.
            unsafe { self.start.add(self.len).write(byte) };
            self.len += 1;
        }
    }

    #[inline]
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() && (bytes.len() <= self.capacity - self.len || self.grow(bytes.len())) {
            // SAFETY: there is room for the bytes behind the first `len`; they come from elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(self.len), bytes.len()) };
            self.len += bytes.len();
        }
    }

    #[inline]
    fn written(&self) -> usize {
        self.len
    }

    fn cut_to(&mut self, length: usize) {
        self.len = self.len.min(length);
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: `start` is null or came from this allocator, and is freed once.
        unsafe { qjs::js_free(self.ctx.as_raw().as_ptr(), self.start.cast()) };
    }
}
