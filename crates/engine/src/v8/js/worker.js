// The main program of a V8 worker, in the realm of the user's program: the natives that the prelude is built on, and one run
// from its first frame to its last. The counterpart of `state`, `natives` and `sandbox` in the guest crate: it must do the same
// in the same order, with the same frames.
(function (given, layers, constantsText, makeRealm, makeSerialiser, captured, makeCodec, makeClone, core, stage, console, events, tools, web, main, localeHooks, locale, localeData) {
  const { apply } = Reflect;
  const { parse } = JSON;
  const { RangeError, TypeError, Math, Object, Promise, Uint8Array } = globalThis;
  const { isError } = Error;
  const { getPrototypeOf } = Object;
  const { slice, indexOf, isWellFormed } = String.prototype;
  const { exec } = RegExp.prototype;

  // Functions of Deno's realm are wrapped, and their errors are replaced: through the prototype of such an error a program could
  // reach that realm.
  const outside = { __proto__: null };
  for (const key of Reflect.ownKeys(given)) {
    const foreign = given[key];
    outside[key] = (a, b, c) => {
      try {
        return foreign(a, b, c);
      } catch {
        throw new RangeError("the sandbox has no room left for this operation");
      }
    };
  }

  // The numbers that this program shares with the host, parsed here so that the object belongs to this realm.
  const constants = parse(constantsText);
  const {
    MAX_ARGUMENTS, MAX_NAME, MAX_JSON_DEPTH, MAX_TIMERS, MAX_UNHANDLED_REJECTIONS, MAX_LOG_BYTES, MAX_RANDOM_BYTES,
  } = constants.limits;
  const { MEMORY, SYNTAX, RUNTIME, OUTPUT_TOO_LARGE, INVALID_DATA, UNAVAILABLE } = constants.codes;
  const { REPLY, FIRE, ANSWER, WAITED, STDERR } = constants.tags;
  const LARGE = 64 * 1024;

  const { resolveGlobals, remember, meterMemory } = makeRealm(outside.encode);
  const { send, flush, receive, receiveJson, returned, failed } = makeCodec({ outside, constants });
  const { toJson, isFault } = makeSerialiser({ isProxy: outside.isProxy, kindOf: outside.kind, constants }, captured);

  // The run.
  let limits;
  let now = 0;
  let nextId = 1;
  let callsMade = 0;
  let inFlight = 0;
  let timers = 0;
  let logLines = 0;
  let logBytes = 0;
  let dropped = 0;
  let own;
  let base = 0;
  let peak = 0;
  const queue = () => {
    let [head, tail] = [0, 0];
    const items = Object.create(null);
    return {
      __proto__: null,
      push(item) { items[tail++] = item; },
      shift() {
        if (head === tail) return undefined;
        const item = items[head];
        delete items[head++];
        return item;
      },
      isEmpty: () => head === tail,
    };
  };
  const waitingCalls = queue();
  const inbox = queue();

  // SplitMix64 in 32-bit halves: gives the same numbers as QuickJS for the same seed.
  let high = 0;
  let low = 0;
  let [zHigh, zLow] = [0, 0];
  const { imul } = Math;
  const multiply = (byHigh, byLow) => {
    const aL = zLow & 0xffff;
    const aH = zLow >>> 16;
    const bL = byLow & 0xffff;
    const bH = byLow >>> 16;
    const ll = aL * bL;
    const middle = aH * bL + (ll >>> 16);
    const cross = aL * bH + (middle & 0xffff);
    const carry = aH * bH + Math_floor(middle / 65536) + Math_floor(cross / 65536);
    zHigh = (carry + imul(zHigh, byLow) + imul(zLow, byHigh)) >>> 0;
    zLow = (((cross & 0xffff) << 16) | (ll & 0xffff)) >>> 0;
  };
  const Math_floor = Math.floor;
  const fold = (shift) => {
    zLow = (zLow ^ ((zLow >>> shift) | (zHigh << (32 - shift)))) >>> 0;
    zHigh = (zHigh ^ (zHigh >>> shift)) >>> 0;
  };
  const step = () => {
    const sum = low + 0x7f4a7c15;
    high = (high + 0x9e3779b9 + (sum > 0xffffffff ? 1 : 0)) >>> 0;
    low = sum >>> 0;
    zHigh = high;
    zLow = low;
    fold(30);
    multiply(0xbf58476d, 0x1ce4e5b9);
    fold(27);
    multiply(0x94d049bb, 0x133111eb);
    fold(31);
  };
  const random = () => {
    step();
    return (zHigh * 2097152 + (zLow >>> 11)) / 9007199254740992;
  };
  // The key stream of ChaCha20, for `crypto`.
  const chacha = new Uint32Array(16);
  const words = new Uint32Array(16);
  const WORDS_OF_BLOCK = 16;
  let used = 4 * WORDS_OF_BLOCK;
  const setKey = (key) => {
    const start = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574];
    for (let at = 0; at < 4; at++) chacha[at] = start[at];
    for (let at = 0; at < 8; at++) chacha[4 + at] = key[at];
  };
  const mix = (to, from, by, shift) => {
    words[to] += words[from];
    const bits = words[by] ^ words[to];
    words[by] = (bits << shift) | (bits >>> (32 - shift));
  };
  const quarterRound = (a, b, c, d) => {
    mix(a, b, d, 16);
    mix(c, d, b, 12);
    mix(a, b, d, 8);
    mix(c, d, b, 7);
  };
  const nextBlock = () => {
    for (let at = 0; at < WORDS_OF_BLOCK; at++) words[at] = chacha[at];
    for (let round = 0; round < 10; round++) {
      for (let at = 0; at < 4; at++) quarterRound(at, at + 4, at + 8, at + 12);
      for (let at = 0; at < 4; at++) quarterRound(at, ((at + 1) % 4) + 4, ((at + 2) % 4) + 8, ((at + 3) % 4) + 12);
    }
    for (let at = 0; at < WORDS_OF_BLOCK; at++) words[at] += chacha[at];
    chacha[12]++;
    used = 0;
  };
  const randomBytes = (count) => {
    const length = count < MAX_RANDOM_BYTES ? count : MAX_RANDOM_BYTES;
    const bytes = new Uint8Array(length);
    for (let at = 0; at < length; at++) {
      if (used === 4 * WORDS_OF_BLOCK) nextBlock();
      bytes[at] = words[used >>> 2] >>> (8 * (used & 3));
      used++;
    }
    return bytes;
  };

  const newId = () => nextId++;
  const call = (backend, name, args) => {
    const target = { __proto__: null, backend: backend === null ? null : outside.encode(backend), name: outside.encode(name) };
    const nameBytes = target.name.length + (backend === null ? 0 : target.backend.length);
    if (nameBytes > MAX_NAME) throw new RangeError(`a name of ${nameBytes} bytes is too long to call: the most is ${MAX_NAME}`);
    const bytes = outside.encode(args);
    if (bytes.length > MAX_ARGUMENTS) throw new TypeError(`the value is larger than ${MAX_ARGUMENTS} bytes of JSON`);
    if (callsMade >= limits.calls) {
      throw new RangeError(`this run may make ${limits.calls} host calls in all: batch the work, or ask for less`);
    }
    callsMade++;
    const id = newId();
    if (inFlight >= limits.callsInFlight) {
      waitingCalls.push({ __proto__: null, id, target, bytes });
    } else {
      inFlight++;
      send.call(id, target, bytes);
    }
    return id;
  };
  // The calls that have no answer yet, by their numbers.
  const pending = { __proto__: null };
  const callHost = (backend, name, args, site) =>
    new Promise((resolve, reject) => {
      const id = call(backend, name, stringify(args, "arguments"));
      pending[id] = { __proto__: null, resolve, reject, site };
    });
  const settle = (id, ok, value) => {
    if (pending[id] === undefined) return;
    const { resolve, reject, site } = pending[id];
    delete pending[id];
    if (ok) resolve(value);
    else settleWithout(resolve, reject, value, site);
  };
  // A waiting call that cannot be sent for lack of memory is rejected, and the next one is sent.
  const callEnded = () => {
    for (;;) {
      const next = waitingCalls.shift();
      if (next === undefined) {
        inFlight--;
        return;
      }
      try {
        send.call(next.id, next.target, next.bytes);
        return;
      } catch {
        settle(next.id, false, { message: "there is no memory left for this call" });
      }
    }
  };
  const timer = (delay) => {
    if (timers >= MAX_TIMERS) throw new RangeError(`this run may have ${MAX_TIMERS} timers waiting at one time`);
    timers++;
    const id = newId();
    send.timer(id, delay);
    return id;
  };
  const cancel = (id) => {
    timers--;
    send.cancel(id);
  };

  // Thrown when the host has closed the channel. Recognised by its private field, which a program cannot forge.
  class Gone {
    #own = true;
    static is(thrown) { return typeof thrown === "object" && thrown !== null && #own in thrown; }
  }
  const next = () => {
    const frame = receive();
    if (frame === null) throw new Gone();
    return frame;
  };
  // No backend or tool has a longer name, and the host ends a run that asks about one.
  const ask = (question, name, tool) => {
    const names = [outside.encode(name), outside.encode(tool ?? "")];
    if (names[0].length + names[1].length > MAX_NAME) return undefined;
    send.ask(question, names[0], names[1]);
    for (;;) {
      const frame = next();
      if (frame.kind === ANSWER) return frame.body === null ? undefined : parse(frame.body);
      inbox.push(frame);
    }
  };
  // The tools of the backends that the program has used, as [identifier, name].
  const listings = { __proto__: null };
  const backend = (question, spelling) => {
    const listing = apply(isWellFormed, spelling, []) ? ask(question, spelling) : undefined;
    if (listing === undefined) return undefined;
    const { name, tools } = listing;
    if (listings[name] !== undefined) return name;
    for (let at = 0; at < tools.length; at++) {
      tools[at] = typeof tools[at] === "string" ? [tools[at], tools[at]] : [tools[at].id, tools[at].name];
    }
    listings[name] = tools;
    return name;
  };
  const toolNamed = (backend, spelling) => {
    const tools = listings[backend];
    for (let part = 0; part < 2; part++) {
      for (let at = 0; at < tools.length; at++) if (tools[at][part] === spelling) return tools[at][1];
    }
    return undefined;
  };
  const logLine = (stream, line) => {
    const bytes = outside.encode(line);
    if (logLines >= limits.logLines || logBytes + bytes.length > MAX_LOG_BYTES) {
      dropped++;
      return;
    }
    logLines++;
    logBytes += bytes.length;
    send.log(stream, bytes);
  };
  // Sent at once: V8 cannot be interrupted to send it later, and a killed worker sends nothing more.
  const log = (stream, text) => {
    for (let at = 0; ;) {
      const end = apply(indexOf, text, ["\n", at]);
      logLine(stream, apply(slice, text, [at, end < 0 ? undefined : end]));
      if (end < 0) break;
      at = end + 1;
    }
    flush();
  };

  const stringify = (value, what) => {
    try {
      return toJson(value, { __proto__: null, maxBytes: MAX_ARGUMENTS, maxDepth: null, depthIsError: true, marksUnwritable: false, root: what ?? "value" });
    } catch (thrown) {
      throw isFault(thrown) ? new TypeError(thrown.message) : thrown;
    }
  };

  // How two texts compare by code point, if characters of ASCII decide it; undefined otherwise. The character after the first
  // difference counts too: it may combine with the one before it.
  const compareAscii = (a, b) => {
    const length = a.length < b.length ? a.length : b.length;
    let at = 0;
    while (at < length && a[at] === b[at] && a[at] < "\x80") at++;
    if (at === a.length && at === b.length) return 0;
    for (let next = at; next < at + 2; next++) {
      if (next < a.length && a[next] >= "\x80") return undefined;
      if (next < b.length && b[next] >= "\x80") return undefined;
    }
    return at === a.length || (at < b.length && a[at] < b[at]) ? -1 : 1;
  };
  const localeCompare = (slow) => {
    const quick = {
      localeCompare(other, locales, options) {
        if (typeof this === "string" && typeof other === "string" && locales === undefined && options === undefined) {
          const order = compareAscii(this, other);
          if (order !== undefined) return order;
        }
        return apply(slow, this, [other, locales, options]);
      },
    };
    return quick.localeCompare;
  };

  const bytesOf = (foreign) => new Uint8Array(foreign);
  const native = {
    constants,
    now: () => now,
    random,
    randomBytes,
    call,
    callHost,
    timer,
    cancel,
    ask,
    backend,
    toolNamed,
    tools: (backend) => {
      const listed = listings[backend];
      // No arrays: a program may have put setters on `Array.prototype`.
      const ids = { __proto__: null, length: listed.length };
      const names = { __proto__: null, length: listed.length };
      let differ = false;
      for (let at = 0; at < listed.length; at++) {
        ids[at] = listed[at][0];
        names[at] = listed[at][1];
        differ ||= ids[at] !== names[at];
      }
      return { __proto__: null, 0: ids, 1: differ ? names : null };
    },
    log,
    parse,
    stringify,
    isPromise: outside.isPromise,
    locale: () => locale,
    localeData: () => localeData,
    localeCompare,
    resolveGlobals,
    parseUrl: outside.parseUrl,
    setUrl: outside.setUrl,
    parseQuery: outside.parseQuery,
    writeQuery: outside.writeQuery,
    encodeUtf8: (text) => {
      const bytes = outside.encode(text);
      if (bytes.length >= LARGE) admit(0);
      return bytesOf(bytes);
    },
    decodeUtf8: (bytes, fatal) => {
      const text = outside.decode(bytes);
      if (text.length >= LARGE) admit(0);
      return fatal && apply(indexOf, text, ["\ufffd"]) >= 0 && !isUtf8(bytes, text) ? undefined : text;
    },
  };
  // Whether the replacement characters of the text were in the bytes already.
  const isUtf8 = (bytes, text) => {
    const again = outside.encode(text);
    if (again.length !== bytes.length) return false;
    for (let at = 0; at < bytes.length; at++) if (again[at] !== bytes[at]) return false;
    return true;
  };

  const { isArray } = Array;
  // Checks that there is memory for a buffer, once the meter is installed.
  /** @type {(bytes?: number) => void} */
  let askFor = () => {};
  const bufferLength = Reflect.getOwnPropertyDescriptor(ArrayBuffer.prototype, "byteLength").get;
  const structuredClone = makeClone((value) => {
    if (outside.isProxy(value)) return "";
    const kind = isArray(value) ? "Array" : outside.kind(value);
    if (kind === "Buffer") askFor(apply(bufferLength, value, []));
    return kind === "Promise" || kind === "Other" ? "" : kind;
  });
  Object.defineProperty(globalThis, "structuredClone", { value: structuredClone, writable: true, enumerable: true, configurable: true });

  const prelude = core(native);
  const staged = stage(prelude);
  const shown = console(prelude, staged);
  const happening = events(prelude, staged);
  localeHooks(prelude);
  const hooks = main(prelude, shown, happening, tools(prelude, happening), web(prelude));
  const { begin, settleWithout, fire, describe } = hooks;

  // The end of a run, and how it is reported.
  class End {
    #finish;
    constructor(code, message, line = 0, column = 0, cls = 0) {
      this.#finish = () => failed(code, message, line, column, cls);
    }
    static is(thrown) { return typeof thrown === "object" && thrown !== null && #finish in thrown; }
    static finish(end) { return end.#finish; }
  }
  const isEnd = End.is;
  const finishOf = End.finish;
  const isGone = Gone.is;
  const PLACE = /script:(\d+):(\d+)/;
  const { reference: REFERENCE, type: TYPE, other: OTHER } = constants.classes;
  const classNumber = (name) => {
    if (name === "reference") return REFERENCE;
    if (name === "type") return TYPE;
    return name === "other" ? OTHER : 0;
  };
  const thrown = (error) => {
    if (isEnd(error) || isGone(error)) return error;
    // A refused allocation is a RangeError; what filled the memory is still there.
    if (isRangeError(error) && held() > limits.memory) throw outOfMemory();
    const described = describe(error);
    const place = apply(exec, PLACE, [described[1]]);
    const line = place === null ? 0 : +place[1];
    const column = place === null ? 0 : +place[2];
    return new End(RUNTIME, described[0], line, column, classNumber(described[2]));
  };
  const rangeError = RangeError.prototype;
  const isRangeError = (error) => isError(error) && getPrototypeOf(error) === rangeError;
  const outOfMemory = () => new End(MEMORY, `the run needed more than its ${limits.memory / (1024 * 1024)} MB of memory`);
  const held = () => {
    const used = outside.memory() - base;
    if (used > peak) peak = used;
    return used;
  };
  // Garbage does not count, so it is collected before a run is ended for its memory.
  const hasRoom = (bytes) => {
    if (held() + bytes <= limits.memory) return true;
    outside.collect();
    return outside.memory() - base + bytes <= limits.memory;
  };
  const checkMemory = () => { if (!hasRoom(0)) throw outOfMemory(); };
  // A refusal ends the run at once: a program that could catch it could go on for ever.
  const admit = (bytes) => { if (!hasRoom(bytes)) end(finishOf(outOfMemory())); };
  askFor = meterMemory(admit);

  const POSITION = /position (\d+)/;
  const data = ({ text, isDeep }) => {
    if (text.length > limits.memory) throw outOfMemory();
    // The same bound as on QuickJS.
    if (isDeep) throw new End(INVALID_DATA, `the text is nested deeper than ${MAX_JSON_DEPTH} levels`);
    try {
      return parse(text);
    } catch (error) {
      checkMemory();
      const place = apply(exec, POSITION, [`${error.message}`]);
      const before = place === null ? text : apply(slice, text, [0, +place[1]]);
      throw new End(INVALID_DATA, `the text is not JSON (at byte ${outside.encode(before).length})`);
    }
  };

  const deliver = (frame) => {
    if (frame.kind === REPLY) {
      now = frame.now;
      callEnded();
      settle(frame.id, frame.ok, data(frame.body));
    } else if (frame.kind === FIRE) {
      now = frame.now;
      timers--;
      fire(frame.id);
    } else if (frame.kind !== WAITED) { // Only the host has a deadline for V8.
      throw new End(UNAVAILABLE, "the host sent a frame that was not asked for");
    }
  };

  const [PENDING, , REJECTED] = [0, 1, 2];
  const settled = (promise) => {
    for (;;) {
      outside.runJobs();
      const state = outside.promiseState(promise);
      if (state !== PENDING) {
        const result = outside.promiseResult(promise);
        if (state === REJECTED) throw thrown(result);
        return result;
      }
      checkMemory();
      if (inFlight === 0 && timers === 0 && inbox.isEmpty()) {
        throw new End(RUNTIME, "the program waits for a promise that nothing can settle: no call, timer or job is left");
      }
      deliver(inbox.shift() ?? next());
    }
  };

  const received = (length) => {
    const json = receiveJson(length);
    if (json === null) throw new Gone();
    return json;
  };

  const { freeze } = Object;
  const { ownKeys } = Reflect;
  const deepFreeze = (value) => {
    if (value === null || typeof value !== "object") return;
    const keys = ownKeys(value);
    for (let at = 0; at < keys.length; at++) deepFreeze(value[keys[at]]);
    freeze(value);
  };

  const evaluate = (start) => {
    const input = start.data === null ? undefined : data(received(start.data));
    if (start.profile !== "compute") deepFreeze(input);
    begin(start.profile, start.functions, start.tools, input);
    remember(start.code);
    const compiled = outside.compile(start.code);
    if (compiled[0] === null) throw new End(compiled[4] ? SYNTAX : RUNTIME, compiled[1], compiled[2], compiled[3]);
    const program = compiled[0];
    if (start.profile !== "compute") {
      const value = program();
      if (!outside.isPromise(value)) return value;
      own = value;
      return settled(value);
    }
    const value = program(input);
    if (outside.isPromise(value)) {
      throw new End(RUNTIME, "the function gave a Promise: a computation must give its value at once");
    }
    return value;
  };

  const result = (value, profile) => {
    let text;
    // The effects of a snippet have happened: its result is not lost for a part that JSON cannot hold.
    const marksUnwritable = profile === "snippet";
    try {
      const maxDepth = limits.resultDepth === 0 ? null : limits.resultDepth;
      text = toJson(value, { __proto__: null, maxBytes: limits.result, maxDepth, depthIsError: false, marksUnwritable, root: "result" });
    } catch (fault) {
      if (!isFault(fault)) throw fault;
      throw new End(fault.kind === "large" ? OUTPUT_TOO_LARGE : RUNTIME, fault.message);
    }
    checkMemory();
    const bytes = outside.encode(text);
    if (bytes.length > limits.result) {
      throw new End(OUTPUT_TOO_LARGE, `the value is larger than ${limits.result} bytes of JSON`);
    }
    return () => returned(bytes);
  };

  const run = (start) => {
    limits = start.limits;
    now = start.now;
    high = start.seed.high;
    low = start.seed.low;
    setKey(start.seed.key);
    base = outside.memory();
    try {
      return result(evaluate(start), start.profile);
    } catch (error) {
      let end;
      try {
        end = thrown(error);
      } catch (worse) {
        end = isEnd(worse) ? worse : new End(RUNTIME, "an error that cannot be shown");
      }
      return isGone(end) ? null : finishOf(end);
    }
  };

  // Compiles what a run will use, before there is a run.
  const warmUp = () => {
    toJson([{ a: 1, b: ["x", null, true] }, new Map([["k", 1]])], { __proto__: null, maxBytes: 1000, maxDepth: null, depthIsError: false, marksUnwritable: false, root: "" });
    describe(new TypeError("warm"));
    random();
    // Garbage of the start would count as memory of the program.
    outside.collect();
  };
  // Waits to be killed: jobs that the program left behind do not run.
  const end = (finish) => {
    try {
      send.done(peak, dropped, finish);
    } catch {
      send.done(peak, dropped, finishOf(outOfMemory()));
    }
    flush();
    while (receive() !== null) {}
    outside.exit();
  };

  const flags = [];
  for (let at = 0; at < 5; at++) flags[at] = layers[at] === "1" ? 1 : 0;
  warmUp();
  send.ready(1, { __proto__: null, landlock: +apply(slice, layers, [5]), flags });
  const start = receive();
  if (start === null) return undefined;
  const finish = run(start);
  if (finish === null) return undefined;
  // Reports rejections without a handler, which would be lost with the run.
  return (unheard) => {
    for (let at = 0; at < unheard.length && at < MAX_UNHANDLED_REJECTIONS; at++) {
      if (unheard[at].promise !== own) log(STDERR, `unhandled rejection: ${describe(unheard[at].reason)[0]}`);
    }
    end(finish);
  };
})
