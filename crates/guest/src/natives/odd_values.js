// Calls functions of the guest with values that report something other than what they hold.
(native) => {
  const answers = [
    -1, -0.5, NaN, Infinity, -Infinity, 1.5, 2 ** 31, 2 ** 32, 2 ** 53, "3", "x", null, undefined, true, 10n, Symbol("s"), {},
    { valueOf: () => -1 }, { valueOf() { throw 1; } },
  ];
  const Typed = Object.getPrototypeOf(Uint8Array);
  const withGetter = (object, key, get) => Object.defineProperty(object, key, { get, configurable: true });

  // Fresh values, since a call may change what it is given.
  const values = () => {
    const list = [...answers, "", "\ud800", "a\u0000b", [], () => undefined, class {}, new Map([[{}, 1]]), new Date(NaN), /x/g, Promise.resolve()];
    for (const answer of answers) {
      const get = () => answer;
      for (const key of ["length", "byteLength", "byteOffset", "buffer"]) list.push(withGetter(new Uint8Array(4), key, get));
      for (const key of ["byteLength", "byteOffset", "buffer"]) list.push(withGetter(new DataView(new ArrayBuffer(4)), key, get));
      list.push(withGetter({}, "length", get), { toString: get }, { valueOf: get, toString: get }, { toJSON: get });
      list.push({ [Symbol.iterator]: get }, { [Symbol.toPrimitive]: get }, withGetter(new Error("x"), "message", get), { get: get });
      let reads = 0;
      const read = (target, key) => {
        if (reads++ > 100) throw 1;
        return key === "length" ? answer : target[key];
      };
      list.push(new Proxy([1], { get: read }), new Proxy({}, { get: get }), new Proxy({}, { ownKeys: get }));
    }
    const throwing = new Proxy({}, { get: () => () => { throw 1; } });
    list.push(new Proxy({}, throwing), new Proxy([], throwing), new Proxy(() => {}, throwing), new Proxy(new Uint8Array(4), {}));
    const revoked = Proxy.revocable([], {});
    revoked.revoke();
    const detached = new Uint8Array(8);
    detached.buffer.transfer();
    const resizable = new ArrayBuffer(8, { maxByteLength: 16 });
    const outside = [new Uint8Array(resizable, 4), new Uint8Array(resizable, 4, 4), new DataView(resizable, 4), new Uint16Array(resizable)];
    resizable.resize(3);
    list.push(revoked.proxy, detached, detached.buffer, ...outside);
    for (const Kind of [Int8Array, Uint8ClampedArray, Int16Array, Float64Array, BigInt64Array]) list.push(new Kind(2));
    list.push(new (class extends Uint8Array { get length() { return -1; } })(4));
    return list;
  };
  const plainValues = () => [new Uint8Array(4), new DataView(new ArrayBuffer(4)), new ArrayBuffer(4), [1, [2]], { a: "b" }, "text", 3, new Error("x")];

  // Changes of the built-ins that a program may make before it calls anything.
  const changes = [() => {}];
  for (const answer of answers) {
    const get = () => answer;
    for (const key of ["length", "byteLength", "byteOffset", "buffer", Symbol.toStringTag]) changes.push(() => withGetter(Typed.prototype, key, get));
    changes.push(
      () => withGetter(DataView.prototype, "byteLength", get),
      () => withGetter(ArrayBuffer.prototype, "byteLength", get),
      () => withGetter(Object.prototype, "toJSON", get),
      () => withGetter(Array, Symbol.species, get),
      () => { ArrayBuffer.isView = get; },
      () => { globalThis.Uint8Array = get; },
      () => { Typed.prototype.set = get; },
      () => { Array.prototype[Symbol.iterator] = get; },
      () => { Error.stackTraceLimit = answer; },
      () => { Error.prepareStackTrace = get; },
    );
  }

  const bytes = () => new Uint8Array(4);
  const arguments_ = {
    __proto__: null,
    now: () => [], random: () => [], randomBytes: () => [1],
    call: () => [null, "echo", "[]"], callHost: () => [null, "echo", [1], {}], timer: () => [1], cancel: () => [1], ask: () => [0, "x"], log: () => [0, "x"],
    backend: () => [0, "x"], toolNamed: () => ["x", "y"], tools: () => ["x"], resolveGlobals: () => [() => undefined],
    parse: () => ["[1]"], stringify: () => [{ a: 1 }, "value"], isPromise: () => [1],
    parseUrl: () => ["http://a/", null], setUrl: () => ["http://a/", "host", "b"], parseQuery: () => ["a=b"],
    locale: () => [], localeData: () => [], localeCompare: () => [() => 0], writeQuery: () => ['[["a","b"]]'], encodeUtf8: () => ["x"], decodeUtf8: () => [bytes(), false],
  };
  const natives = Reflect.ownKeys(native).filter((name) => name !== "constants").map((name) => [name, native[name], arguments_[name]]);
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  const strict = new TextDecoder("utf-8", { fatal: true });
  const globals = [
    ["TextDecoder.decode", (value) => decoder.decode(value), () => [bytes()]],
    ["TextDecoder.decode, fatal", (value) => strict.decode(value), () => [bytes()]],
    ["TextDecoder", (label, options) => new TextDecoder(label, options), () => ["utf-8", {}]],
    ["TextEncoder.encode", (text) => encoder.encode(text), () => ["x"]],
    ["TextEncoder.encodeInto", (text, target) => encoder.encodeInto(text, target), () => ["xyz", bytes()]],
    ["getRandomValues", (array) => crypto.getRandomValues(array), () => [bytes()]],
    ["randomUUID", () => crypto.randomUUID(), () => []],
    ["URL", (url, base) => new URL(url, base).searchParams.append(url, base), () => ["/a", "http://b/"]],
    ["URLSearchParams", (init) => `${new URLSearchParams(init)}`, () => ["a=b"]],
    ["structuredClone", (value) => structuredClone(value), () => [[1]]],
    ["console.log", (a, b) => console.log(a, b), () => ["%s %d %j", 1]],
    ["setTimeout", (callback, delay) => setTimeout(callback, delay), () => [() => {}, 1]],
    ["clearTimeout", (id) => clearTimeout(id), () => [1]],
    ["sleep", (delay) => sleep(delay), () => [1]],
    ["btoa", (text) => btoa(text), () => ["x"]],
    ["atob", (text) => atob(text), () => ["eA=="]],
    ["Date", (a, b) => `${new Date(a, b)}`, () => [1, 2]],
    ["Number.toLocaleString", (locale, options) => (1.5).toLocaleString(locale, options), () => ["de-DE", {}]],
    ["Date.toLocaleString", (locale, options) => new Date(0).toLocaleString(locale, options), () => ["de-DE", { timeZone: "UTC" }]],
    ["localeCompare", (text, locale, options) => "a".localeCompare(text, locale, options), () => ["b", "en", {}]],
    ["Intl.ListFormat", (list) => new Intl.ListFormat("en").format(list), () => [["a", "b"]]],
    ["tools", (name) => tools[name], () => ["x"]],
    ["__getToolInterface", (name) => __getToolInterface(name), () => ["x.y"]],
  ];
  const functions = [...natives, ...globals];

  return {
    missing: natives.filter(([, , given]) => given === undefined).map(([name]) => name),
    changes: changes.length,
    functions: functions.length,
    values: values().length,
    plainValues: plainValues().length,
    change: (at) => { changes[at](); },
    name: (at) => functions[at][0],
    // How many arguments the function takes.
    positions: (at) => functions[at][2]().length,
    attempt: (at, position, value, plain) => {
      const [, call, given] = functions[at];
      const list = given();
      list[position] = (plain ? plainValues() : values())[value];
      Reflect.apply(call, undefined, list);
    },
  };
}
