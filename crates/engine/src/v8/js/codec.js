// Encodes and decodes frames, as the Rust codec does: a length, a tag, the fields.
// Outgoing frames are collected and written together.
(function ({ outside, constants }) {
  const { tags, profiles, limits: { MAX_JSON_DEPTH } } = constants;
  const { apply } = Reflect;
  const typed = Object.getPrototypeOf(Uint8Array.prototype);
  const { set, subarray } = typed;
  const Bytes = Uint8Array;
  const FLUSH_AT = 16 * 1024;
  const CHUNK = 64 * 1024;

  const float = new Float64Array(1);
  const floatBytes = new Uint8Array(float.buffer);

  // Outgoing.
  let out = new Bytes(CHUNK);
  let end = 0;
  // The buffer grows before the first byte of a frame is written: if that throws, one call fails and no frame is cut.
  const room = (count) => {
    if (end + count <= out.length) return;
    const larger = new Bytes(2 * (end + count));
    apply(set, larger, [apply(subarray, out, [0, end])]);
    out = larger;
  };
  const u8 = (n) => { room(1); out[end++] = n; };
  const u32At = (at, n) => {
    out[at] = n;
    out[at + 1] = n >>> 8;
    out[at + 2] = n >>> 16;
    out[at + 3] = n >>> 24;
  };
  const u32 = (n) => { room(4); u32At(end, n); end += 4; };
  const u64 = (n) => { u32(n >>> 0); u32((n / 4294967296) >>> 0); };
  const f64 = (n) => {
    room(8);
    float[0] = n;
    for (let at = 0; at < 8; at++) out[end++] = floatBytes[at];
  };
  const blob = (bytes) => {
    u32(bytes.length);
    room(bytes.length);
    apply(set, out, [bytes, end]);
    end += bytes.length;
  };
  const text = (string) => blob(outside.encode(string));

  let open = 0;
  // Frames without texts are not longer than this.
  const SMALL = 64;
  const frame = (kind, length = SMALL) => {
    room(5 + length);
    open = end;
    u32(0);
    u8(kind);
  };
  const flush = () => {
    for (let at = 0; at < end;) at += outside.write(apply(subarray, out, [at, end]));
    end = 0;
    if (out.length > 16 * CHUNK) out = new Bytes(CHUNK);
  };
  const close = () => {
    u32At(open, end - open - 4);
    if (end >= FLUSH_AT) flush();
  };

  const send = {
    __proto__: null,
    ready(pid, layers) {
      frame(tags.READY);
      u32(pid);
      u32(layers.landlock);
      for (let at = 0; at < 5; at++) u8(layers.flags[at]);
      close();
    },
    call(id, { backend, name }, args) {
      frame(tags.CALL, 13 + (backend === null ? 0 : 4 + backend.length) + name.length + args.length);
      u32(id);
      u8(backend === null ? tags.TARGET_FUNCTION : tags.TARGET_TOOL);
      if (backend !== null) blob(backend);
      blob(name);
      blob(args);
      close();
    },
    timer(id, delay) { frame(tags.TIMER); u32(id); f64(delay); close(); },
    cancel(id) { frame(tags.CANCEL); u32(id); close(); },
    ask(question, name, tool) {
      frame(tags.ASK, 9 + name.length + tool.length);
      u8(question);
      if (question !== tags.ASK_BACKENDS) blob(name);
      if (question === tags.ASK_INTERFACE) blob(tool);
      close();
    },
    log(stream, bytes) { frame(tags.LOG, 5 + bytes.length); u8(stream); blob(bytes); close(); },
    done(memory, dropped, finish) {
      frame(tags.DONE);
      u64(memory);
      u64(0);
      u64(dropped);
      try {
        finish();
      } catch (error) {
        end = open;
        throw error;
      }
      close();
    },
  };
  const returned = (bytes) => { u8(tags.RETURNED); blob(bytes); };
  const failed = (code, message, line, column, cls) => {
    u8(code);
    text(message);
    u32(line);
    u32(column);
    u8(cls);
  };

  // Incoming.
  let buffer = new Bytes(CHUNK);
  let start = 0;
  let filled = 0;
  const fill = (count) => {
    if (start + count > buffer.length) {
      const larger = new Bytes(filled - start + count + CHUNK);
      apply(set, larger, [apply(subarray, buffer, [start, filled])]);
      filled -= start;
      start = 0;
      buffer = larger;
    }
    while (filled - start < count) {
      const got = outside.read(apply(subarray, buffer, [filled]));
      if (got === 0) return false;
      filled += got;
    }
    return true;
  };

  let at = 0;
  const takeU8 = () => buffer[at++];
  const takeU32 = () => {
    const n = (buffer[at] | (buffer[at + 1] << 8) | (buffer[at + 2] << 16) | (buffer[at + 3] << 24)) >>> 0;
    at += 4;
    return n;
  };
  const takeU64 = () => { const low = takeU32(); return low + takeU32() * 4294967296; };
  const takeF64 = () => {
    for (let i = 0; i < 8; i++) floatBytes[i] = buffer[at++];
    return float[0];
  };
  const takeBytes = () => {
    const length = takeU32();
    at += length;
    return apply(subarray, buffer, [at - length, at]);
  };
  const takeText = () => outside.decode(takeBytes());

  // Whether the JSON text in `bytes[from..to]` is nested deeper than QuickJS takes it. Looks at bytes because this function is
  // not compiled yet when it runs: a loop over the characters of the text takes seven times as long.
  const isDeep = (bytes, from, to) => {
    if (to - from <= MAX_JSON_DEPTH) return false;
    let depth = 0;
    for (let at = from; at < to; at++) {
      const byte = bytes[at];
      if (byte === 34) {
        for (at++; at < to && bytes[at] !== 34; at++) if (bytes[at] === 92) at++;
      } else if (byte === 91 || byte === 123) {
        if (++depth > MAX_JSON_DEPTH) return true;
      } else if (byte === 93 || byte === 125) depth--;
    }
    return false;
  };
  const takeJson = () => {
    const bytes = takeBytes();
    return { __proto__: null, text: outside.decode(bytes), isDeep: isDeep(bytes, 0, bytes.length) };
  };

  const takeStart = () => {
    const profile = profiles[takeU8()];
    const limits = {
      __proto__: null, wall: takeU64(), memory: takeU64(), stack: takeU64(), code: takeU64(), result: takeU64(),
      resultDepth: takeU32(), logLines: takeU64(), calls: takeU64(), callsInFlight: takeU64(),
    };
    const seed = { __proto__: null, low: takeU32(), high: takeU32(), key: [] };
    for (let word = 0; word < 8; word++) seed.key[word] = takeU32();
    const now = takeF64();
    const code = takeText();
    const hasData = takeU8() === 1;
    const length = takeU64();
    const data = hasData ? length : null;
    const functions = [];
    for (let left = takeU32(); left > 0; left--) functions[functions.length] = takeText();
    // The answers that the host sent ahead follow. They are not read: a question costs little here.
    return { __proto__: null, kind: tags.START, profile, limits, seed, now, code, data, functions, tools: takeU8() === 1 };
  };

  const takeFrame = () => {
    const kind = takeU8();
    switch (kind) {
      case tags.START: return takeStart();
      case tags.REPLY: return { __proto__: null, kind, id: takeU32(), now: takeF64(), ok: takeU8() === 1, body: takeJson() };
      case tags.FIRE: return { __proto__: null, kind, id: takeU32(), now: takeF64() };
      case tags.WAITED: return { __proto__: null, kind, ms: takeU64() };
      default: {
        const present = takeU8() === 1;
        const body = takeText();
        return { __proto__: null, kind, body: present ? body : null };
      }
    }
  };

  // Sends the collected frames and waits for the next one; null when the host has closed the channel.
  const receive = () => {
    flush();
    if (!fill(4)) return null;
    at = start;
    const length = takeU32();
    if (!fill(4 + length)) return null;
    at = start + 4;
    const frame = takeFrame();
    consume(4 + length);
    return frame;
  };
  const consume = (count) => {
    start += count;
    if (start !== filled) return;
    start = 0;
    filled = 0;
    // Frees the buffer of a large frame; views of the old buffer keep it alive.
    if (buffer.length > 16 * CHUNK) buffer = new Bytes(CHUNK);
  };

  // The bytes that follow a frame, as JSON; null when the host has closed the channel.
  const receiveJson = (length) => {
    if (!fill(length)) return null;
    const bytes = apply(subarray, buffer, [start, start + length]);
    const json = { __proto__: null, text: outside.decode(bytes), isDeep: isDeep(bytes, 0, length) };
    consume(length);
    return json;
  };

  return { send, flush, receive, receiveJson, returned, failed };
})
