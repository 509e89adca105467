// The main module of a V8 worker, in Deno's own realm: creates an empty realm for the program, passes it the few functions that
// it cannot implement itself, and deletes everything else here.
//
// The program's realm comes from node:vm without an import callback, so `import()` is refused there, and nothing of Deno was ever
// in it. The globals here are deleted in case a program finds a way into this realm: a second line of defence. The jail around
// the process is the third.
import v8 from "node:v8";
import vm from "node:vm";

const { core } = Deno[Deno.internal];
const exit = Deno.exit;
const turn = core.ops.op_void_async_deferred;
// A realm that is created while `gc` is exposed has it; the program's realm is created later.
v8.setFlagsFromString("--expose-gc");
const collect = vm.runInNewContext("gc");
v8.setFlagsFromString("--no-expose-gc");
const layers = Deno.args[0];
const { DataView, Object, URL, URLSearchParams, Uint8Array } = globalThis;
const { parse, stringify } = JSON;
const { Script } = vm;
const realm = vm.createContext(vm.constants.DONT_CONTEXTIFY);
const { getPrototypeOf } = Object;
const syntaxError = realm.SyntaxError.prototype;

// Symbol keys stay: Deno recognises its own objects by them.
for (const key of Object.getOwnPropertyNames(globalThis)) {
  if (key !== "globalThis" && Object.getOwnPropertyDescriptor(globalThis, key).configurable) delete globalThis[key];
}

const load = (text, filename) => new Script(text, { filename }).runInContext(realm);

const PARTS = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];
const parts = (url) => {
  const found = {};
  for (const part of PARTS) found[part] = url[part];
  return stringify(found);
};

const outside = {
  __proto__: null,
  read: (buffer) => core.readSync(0, buffer) ?? 0,
  write: (buffer) => core.writeSync(1, buffer),
  encode: (text) => core.encode(text),
  // The decoder drops a byte order mark; here it is a character.
  decode: (bytes) => (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? "\ufeff" : "") + core.decode(bytes),
  runJobs: () => core.runMicrotasks(),
  promiseState: (promise) => core.getPromiseDetails(promise)[0],
  promiseResult: (promise) => core.getPromiseDetails(promise)[1],
  isProxy: (value) => core.isProxy(value),
  isPromise: (value) => core.isPromise(value),
  // The kind of an object by its internal slots, which a program cannot forge.
  kind: (value) => {
    if (core.isDate(value)) return "Date";
    if (core.isMap(value)) return "Map";
    if (core.isSet(value)) return "Set";
    if (core.isNativeError(value)) return "Error";
    if (core.isTypedArray(value)) return "Typed";
    if (core.isArrayBuffer(value)) return "Buffer";
    if (core.isDataView(value)) return "View";
    if (core.isPromise(value)) return "Promise";
    if (core.isRegExp(value)) return "RegExp";
    if (core.isNumberObject(value)) return "Number";
    if (core.isStringObject(value)) return "String";
    if (core.isBooleanObject(value)) return "Boolean";
    if (core.isBigIntObject(value)) return "BigInt";
    const other = core.isSymbolObject(value) || core.isWeakMap(value) || core.isWeakSet(value)
      || core.isMapIterator(value) || core.isSetIterator(value) || core.isGeneratorObject(value);
    return other ? "Other" : "Plain";
  },
  collect: () => collect(),
  exit: () => exit(0),
  memory: () => {
    const { heapUsed, external } = core.memoryUsage();
    return heapUsed + external;
  },
  // The program's function, or why it could not be compiled: [function, message, line, column, whether it is a SyntaxError].
  compile: (text) => {
    try {
      return [load(`"use strict";${text}`, "script"), "", 0, 0, false];
    } catch (error) {
      const place = /script:(\d+)(?::(\d+))?/.exec(`${error?.stack}`) ?? [];
      return [null, `${error?.name}: ${error?.message}`, +(place[1] ?? 0), +(place[2] ?? 0), getPrototypeOf(error) === syntaxError];
    }
  },
  parseUrl: (input, base) => {
    const url = URL.parse(input, base ?? undefined);
    return url === null ? undefined : parts(url);
  },
  setUrl: (href, part, value) => {
    const url = URL.parse(href);
    if (url === null) return undefined;
    if (part === "href") return outside.parseUrl(value, null);
    url[part] = value;
    return parts(url);
  },
  parseQuery: (query) => stringify([...new URLSearchParams(query)]),
  writeQuery: (pairs) => `${new URLSearchParams(parse(pairs))}`,
};

const readExactly = (length) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length;) {
    const got = core.readSync(0, bytes.subarray(at));
    if (!got) exit(1);
    at += got;
  }
  return bytes;
};

// The host's first message is the rest of this program: a length, then JSON with the text of the constants and a list
// of [name, text]. The constants go on as text: an object of this realm would lead a program to it.
const header = readExactly(4);
const { constants, files } = parse(core.decode(readExactly(new DataView(header.buffer).getUint32(0, true))));
const loaded = files.map(({ 0: name, 1: text }) => load(`"use strict";${text}`, `toolgate:${name}`));

// Deno passes unhandled rejections to this handler when the event loop runs, which it does once, at the end.
const { MAX_UNHANDLED_REJECTIONS } = parse(constants).limits;
const unheard = [];
core.setUnhandledPromiseRejectionHandler((promise, reason) => {
  if (unheard.length < MAX_UNHANDLED_REJECTIONS) unheard[unheard.length] = { promise, reason };
  return true;
});
let finish;
try {
  finish = loaded[0](outside, layers, constants, ...loaded.slice(1));
} catch (error) {
  core.writeSync(2, core.encode(`the worker's own program failed: ${error?.message}\n${error?.stack}`));
  exit(1);
}
if (finish === undefined) exit(0);
for (let turns = 0; turns < 2; turns++) await turn();
finish(unheard);
exit(0);
