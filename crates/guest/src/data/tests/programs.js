// Random small programs over one value. Every step notes what guest code could
// see; two values are the same to guest code if their notes are.
((everything) => (data, program) => {
  const pool = [data];
  const notes = [];
  const names = ["a", "b", "id", "name", "list", "__proto__", "0", "1", "7", "length", "é", "\ud800", "toJSON", "constructor", ""];
  const same = new WeakMap();
  const marks = new WeakMap();
  const tag = Symbol("tag");
  class Stamp { constructor(target) { return target; } }
  class Stamped extends Stamp { #secret = 1; static read(o) { return #secret in o ? o.#secret++ : "none"; } }

  const isObject = (v) => (typeof v === "object" && v !== null) || typeof v === "function";
  const look = (v, depth = 0) => {
    if (typeof v === "string") return JSON.stringify(v);
    if (typeof v === "symbol" || typeof v === "bigint" || typeof v === "function") return String(v);
    if (!isObject(v)) return Object.is(v, -0) ? "-0" : String(v);
    const at = pool.indexOf(v);
    if (depth > 0 && at >= 0) return `#${at}`;
    if (depth > 3) return "…";
    const proto = Object.getPrototypeOf(v);
    const kind = Array.isArray(v) ? "array" : "object";
    const from = proto === Object.prototype || proto === Array.prototype ? "" : proto === null ? "null" : `from ${look(proto, depth + 1)}`;
    const own = Reflect.ownKeys(v).map((key) => {
      const d = Object.getOwnPropertyDescriptor(v, key);
      if (!d) return `${String(key)}?`;
      const flags = `${d.writable ? "w" : ""}${d.enumerable ? "e" : ""}${d.configurable ? "c" : ""}`;
      return `${JSON.stringify(String(key))}${flags}:${"value" in d ? look(d.value, depth + 1) : "accessor"}`;
    });
    return `${kind}${from}${Object.isExtensible(v) ? "" : "!"}{${own.join(",")}}`;
  };
  const note = (...what) => notes.push(what.map((w) => (typeof w === "string" ? w : look(w))).join(" "));
  const shared = [Object.prototype, Array.prototype, Function.prototype];
  const mayKeep = (v) => isObject(v) && (everything || (typeof v !== "function" && !shared.includes(v)));
  // A prototype chain that comes back through a Proxy never ends, in any engine.
  const proxies = new WeakSet();
  const proxy = (t, traps) => { const p = new Proxy(t, traps); proxies.add(p); return p; };
  const mayInherit = (o) => { for (let p = o; p; p = Object.getPrototypeOf(p)) if (proxies.has(p)) return false; return true; };
  const keep = (v) => { if (mayKeep(v) && !pool.includes(v) && pool.length < 24) pool.push(v); return v; };

  const steps = [
    (t, k) => { const v = t[k]; note("read", isObject(v) ? typeof v : v); keep(v); },
    (t, k, n) => { t[k] = n; note("wrote", t[k]); },
    // Not as a length: an array of one number would become one, and sorting two thousand million holes takes its time.
    (t, k, n, o) => { if (k === "length" || (k === "__proto__" && !mayInherit(o))) return; t[k] = o; note("linked", t[k] === o); },
    (t, k) => note("delete", delete t[k], k in t),
    (t) => note("keys", Object.keys(t).join()),
    (t) => keep({ ...t }),
    (t, k) => note("in", k in t, Object.hasOwn(t, k), t.propertyIsEnumerable?.(k)),
    (t) => note("json", String(JSON.stringify(t))),
    (t, k, n) => note("pretty", String(JSON.stringify(t, n % 2 ? (key, v) => (key === k ? 1 : v) : null, 1))),
    (t) => keep(structuredClone(t)),
    (t) => note("entries", Object.entries(t).map(([k, v]) => [k, typeof v].join(":")).join()),
    (t) => keep(Object.values(t).find(isObject)),
    (t, k, n) => { const seen = []; for (const key in t) { seen.push(key); if (n % 3 === 0) delete t[k]; if (n % 3 === 1 && seen.length < 3) t["new" + seen.length] = 1; } note("for-in", seen.join()); },
    (t) => { if (Array.isArray(t)) { t.sort((x, y) => (JSON.stringify(x) < JSON.stringify(y) ? -1 : 1)); note("sorted"); } },
    (t, k) => { if (Array.isArray(t)) { t.sort((x, y) => Number(x?.[k]) - Number(y?.[k])); note("sorted by key"); } },
    (t) => { Object.freeze(t); note("frozen", Object.isFrozen(t), Object.isSealed(t), Object.isExtensible(t)); },
    (t) => { Object.seal(t); note("sealed", Object.isFrozen(t), Object.isSealed(t)); },
    (t) => { Object.preventExtensions(t); note("closed", Object.isExtensible(t)); },
    (t) => { note("reflect closed", Reflect.preventExtensions(t), Reflect.isExtensible(t)); },
    (t) => note("states", Object.isFrozen(t), Object.isSealed(t), Object.isExtensible(t)),
    (t, k, n) => { Object.defineProperty(t, k, { get() { return n; }, set(v) { note("set", v); }, configurable: true, enumerable: n % 2 === 0 }); note("accessor", t[k]); },
    (t, k, n) => { Object.defineProperty(t, k, { value: n, writable: n % 2 === 0 }); note("defined", look(Object.getOwnPropertyDescriptor(t, k))); },
    (t, k) => { Object.defineProperty(t, k, { enumerable: false }); note("hidden", Object.keys(t).join()); },
    (t, k, n) => { Object.defineProperties(t, { [k]: { value: n, configurable: true }, zz: { value: 1 } }); },
    (t, k, n, o) => { if (n % 4 === 0) Object.setPrototypeOf(t, null); else if (mayInherit(o)) Object.setPrototypeOf(t, o); note("proto", Object.getPrototypeOf(t) === o); },
    (t, k, n, o) => { if (!mayInherit(o)) return; t.__proto__ = o; note("dunder", Object.getPrototypeOf(t) === o, Object.hasOwn(t, "__proto__")); },
    // Not to arrays: the key 4294967294 would make one too long to be written.
    (t, k, n, o) => { if (Array.isArray(t)) return; Object.assign(t, o); note("assigned to"); },
    (t) => keep(Object.assign({ z: 1 }, t)),
    (t) => { const { a, id = 5, ...rest } = t; note("destructured", typeof a, typeof id); keep(rest); },
    (t, k) => note("same", Object.is(t[k], t[k]), t[k] === t[k]),
    (t) => note("descriptors", look(Object.getOwnPropertyDescriptors(t))),
    (t) => { new Stamped(t); note("secret", Stamped.read(t), Stamped.read(t)); },
    (t) => note("no secret", Stamped.read(t)),
    (t) => { marks.set(t, (marks.get(t) ?? 0) + 1); note("marked", marks.get(t)); },
    (t, k, n) => { const child = keep(Object.create(t)); note("inherits", child[k] === t[k], k in child, Object.hasOwn(child, k)); child[k] = n; note("shadow", Object.hasOwn(child, k), child[k]); },
    (t) => keep(proxy(t, {})),
    (t, k) => { const log = []; const p = proxy(t, { get(x, key, r) { log.push(String(key)); return Reflect.get(x, key, r); }, has(x, key) { log.push("has " + String(key)); return Reflect.has(x, key); } }); JSON.stringify(p); k in p; note("traps", log.join()); },
    (t) => note("own", Reflect.ownKeys(t).map(String).join()),
    (t, k, n, o) => note("reflect get", look(Reflect.get(t, k, o), 1), Reflect.has(t, k)),
    (t, k, n, o) => note("reflect set", Reflect.set(t, k, n), Reflect.set(t, k, n + 1, o)),
    (t, k, n) => note("reflect define", Reflect.defineProperty(t, k, { value: n, writable: true }), Reflect.deleteProperty(t, k)),
    (t, k) => note("chain", typeof t?.[k]?.[k]?.a, t?.list?.length),
    (t, k) => { try { note("call", t[k]()); } catch (e) { note("call threw", e.name, e.message); } },
    (t, k) => { "use strict"; try { null[t]; } catch (e) { note("null threw", e.message); } },
    (t) => note("class", Object.prototype.toString.call(t), typeof t, t instanceof Object),
    (t) => { try { note("text", `${t}`.slice(0, 60)); } catch (e) { note("text threw", e.name); } },
    (t) => { t[tag] = 1; note("symbol", t[tag], Object.getOwnPropertySymbols(t).length); },
    (t, k) => note("lookup", String(t.__lookupGetter__?.(k)), t.hasOwnProperty?.(k)),
    (t) => { if (Array.isArray(t)) keep(t.filter((x) => x?.id > 1).map((x) => x.name)); },
    (t, k, n) => { if (Array.isArray(t)) { t.push({ id: n }); note("length", t.length); } },
    (t) => { if (Array.isArray(t)) { keep(t.slice().reverse()); keep(t.concat(t)); note("flat", t.flat(2).length, t.indexOf(t[0])); } },
    (t) => { if (Array.isArray(t)) { keep(t.pop()); note("left", t.length); } },
    (t) => { if (Array.isArray(t)) { let c = 0; for (const x of t) { if (c++ < 2) t.push(x); keep(x); } note("of", c, t.length); } },
    (t) => { if (Array.isArray(t)) note("reduced", t.reduce((s, x) => s + (Number(x?.id) || 0), 0)); },
    (t, k, n, o) => note("equal", t === o, Object.is(t, o), [t].includes(o)),
    (t) => { let n = 0; try { for (const _ of t) n++; note("iterated", n); } catch (e) { note("not iterable", e.name); } },
    (t, k, n) => { t[k] ??= n; t[k] ||= n; note("assign", typeof t[k]); },
    (t, k) => { t[k]++; note("bumped", t[k]); },
    (t) => keep(Object.fromEntries(Object.entries(t))),
    (t) => note("copy", look({ ...t, extra: 1 })),
    (t, k) => { with_(t, k); },
    (t) => { const p = proxy(t, {}); Object.freeze(p); note("frozen through", Object.isFrozen(t)); },
    (t, k, n) => { t.length = n % 3; note("length set", t.length); },
    (t) => { if (!(t.length < 100)) return; note("array-like", Array.prototype.map.call(t, (x) => typeof x).length, Array.from(t).length); },
    (t, k) => { const get = Object.getOwnPropertyDescriptor(t, k); if (get) { get.value = 1; note("detached", t[k] !== 1); } },
  ];
  const with_ = (t, k) => note("eq", look(Function("o", "with (o) { return typeof a + typeof name }")(t)));

  for (const [step, target, key, n, other] of program) {
    const t = pool[target % pool.length];
    try {
      steps[step % steps.length](t, names[key % names.length], n, pool[other % pool.length]);
    } catch (e) {
      notes.push(`threw ${e?.name} ${e?.message}`);
    }
  }
  for (const v of pool) {
    let text;
    try { text = JSON.stringify(v); } catch (e) { text = e.name; }
    notes.push(String(text));
    try { note(v); } catch (e) { notes.push(`look threw ${e?.name}`); }
  }
  return { notes: JSON.stringify(notes, null, 1), pool };
})
