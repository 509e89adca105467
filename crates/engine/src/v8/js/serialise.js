// Serialises values of the program, by the rules of the guest's native serialiser, with functions captured before the program
// ran. It uses an explicit stack and stops at its bounds; what a getter or `toJSON` throws is the program's own error.
(function ({ isProxy, kindOf, constants }, captured) {
  const { objectPrototype, isoText, entries, values, unboxBoolean, unboxBigInt, typedLength, bufferBytes, viewBytes } = captured;
  const { apply } = Reflect;
  const { keys, getPrototypeOf, defineProperty } = Object;
  const { isArray } = Array;
  const { stringify, isRawJSON } = JSON;
  const { slice, codePointAt } = String.prototype;
  const { test } = RegExp.prototype;
  const { min, floor } = Math;
  const { MAX_JSON_DEPTH, MAX_PATH_STEPS, MAX_PATH_KEY } = constants.limits;
  const PLAIN_NAME = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

  // Why a value cannot be serialised. A program never gets one, so it cannot throw one.
  class Fault {
    #own = true;
    constructor(kind, message) {
      put(this, "kind", kind);
      put(this, "message", message);
    }
    static is(thrown) { return typeof thrown === "object" && thrown !== null && #own in thrown; }
  }

  const put = (list, at, value) =>
    defineProperty(list, at, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  const kind = (value) => {
    if (isProxy(value)) return isArray(value) ? "Array" : "Proxy";
    if (isArray(value)) return "Array";
    const above = getPrototypeOf(value);
    // A built-in with another prototype is treated as a plain object.
    if (above === objectPrototype || above === null) return isRawJSON(value) ? "RawJson" : "Plain";
    return kindOf(value);
  };

  const spellKey = (key) => {
    if (key.length <= MAX_PATH_KEY && apply(test, PLAIN_NAME, [key])) return `.${key}`;
    let end = 0;
    for (let count = 0; count < MAX_PATH_KEY && end < key.length; count++) {
      end += apply(codePointAt, key, [end]) > 0xffff ? 2 : 1;
    }
    return `[${stringify(apply(slice, key, [0, end]))}${end < key.length ? "…" : ""}]`;
  };
  const spellStep = (frame) => {
    const at = frame.next - 1;
    if (frame.keys !== null) return spellKey(`${frame.keys[at]}`);
    if (frame.pairs !== null) return spellKey(frame.pairs[at][0]);
    return `[${at}]`;
  };
  const spell = (root, frames, count) => {
    let path = root;
    for (let at = 0; at < count; at++) {
      if (count > 2 * MAX_PATH_STEPS && at === MAX_PATH_STEPS) {
        path += "…";
        at = count - MAX_PATH_STEPS;
      }
      path += spellStep(frames[at]);
    }
    return path;
  };

  const lengthOf = (items) => {
    const length = +items.length;
    return length > 0 ? min(floor(length), Number_MAX) : 0;
  };
  const Number_MAX = Number.MAX_SAFE_INTEGER;

  const MARKERS = { __proto__: null, Array: "array", Map: "Map", Set: "Set", Error: "Error", Typed: "bytes", Buffer: "bytes", View: "bytes" };

  const toJson = (root, caps) => {
    const frames = [];
    let depth = 0;
    let out = "";
    const path = () => spell(caps.root, frames, depth);
    // A value without a JSON form is an error, or a marker in its place.
    const refuse = (what, marker) => {
      if (!caps.marksUnwritable) throw new Fault("unwritable", `${path()} ${what}`);
      out += stringify(marker);
    };
    const tooLarge = () => { throw new Fault("large", `the value is larger than ${caps.maxBytes} bytes of JSON`); };
    const limit = min(caps.maxDepth ?? MAX_JSON_DEPTH, MAX_JSON_DEPTH);

    const lead = (key) => {
      if (depth === 0) return;
      const frame = frames[depth - 1];
      if (frame.wrote) out += ",";
      frame.wrote = true;
      if (key !== null) out += `${stringify(key)}:`;
    };
    const open = (of, items, length, ownKeys, pairs) => {
      out += ownKeys === null && pairs === null ? "[" : "{";
      put(frames, depth++, { __proto__: null, of, items, length, keys: ownKeys, pairs, next: 0, wrote: false });
    };
    const mayNest = (what) => {
      if (depth < limit) return true;
      if (depth >= MAX_JSON_DEPTH || caps.depthIsError) throw new Fault("deep", `${path()} is nested deeper than ${limit} levels`);
      out += `"[depth limit reached: ${MARKERS[what] ?? "object"}]"`;
      return false;
    };
    const openMap = (value) => {
      const pairs = entries(value);
      for (let at = 0; at < pairs.length; at++) {
        if (typeof pairs[at][0] !== "string") return open(value, pairs, pairs.length, null, null);
      }
      open(value, null, pairs.length, null, pairs);
    };
    const typed = (value, items) => open(value, items, typedLength(items), null, null);
    const coerced = (value, otherwise) => stringify(value === undefined ? otherwise : `${value}`);

    const container = (value) => {
      const what = kind(value);
      if (what === "Promise") return refuse("is a Promise; await it first", "[Promise]");
      if (typeof value === "function") return refuse("is a function; call it or leave it out", "[Function]");
      if (what === "RawJson") { out += value.rawJSON; return; }
      for (let at = 0; at < depth; at++) {
        if (frames[at].of === value) {
          const start = spell(caps.root, frames, at);
          return refuse(`is a cycle back to ${start}; return a tree`, `[Circular: ${start}]`);
        }
      }
      if (!mayNest(what)) return;
      switch (what) {
        case "Error": out += `{"name":${coerced(value.name, "Error")},"message":${coerced(value.message, "")}}`; return;
        case "Array": return open(value, value, lengthOf(value), null, null);
        case "Typed": return typed(value, value);
        case "Buffer": return typed(value, bufferBytes(value));
        case "View": return typed(value, viewBytes(value));
        case "Set": { const items = values(value); return open(value, items, items.length, null, null); }
        case "Map": return openMap(value);
        default: { const own = keys(value); return open(value, null, own.length, own, null); }
      }
    };

    // Converts boxed primitives and dates to primitives.
    const plain = (value) => {
      if (value === null || typeof value !== "object") return value;
      const above = isProxy(value) || isArray(value) ? objectPrototype : getPrototypeOf(value);
      if (above === objectPrototype || above === null) return value;
      switch (kindOf(value)) {
        case "Number": return +value;
        case "String": return `${value}`;
        case "Boolean": return unboxBoolean(value);
        case "BigInt": return unboxBigInt(value);
        case "Date": return isoText(value);
        default: return value;
      }
    };

    const write = (given, key, slot) => {
      let value = given;
      if ((typeof value === "object" && value !== null) || typeof value === "bigint" || typeof value === "function") {
        const method = value.toJSON;
        if (typeof method === "function") value = apply(method, value, [slot]);
        value = plain(value);
      }
      if (value === undefined && key !== null) return;
      lead(key);
      switch (typeof value) {
        case "string":
          if (value.length + 2 > caps.maxBytes) tooLarge();
          out += stringify(value);
          break;
        case "number": out += value - value === 0 ? (value === 0 ? "0" : `${value}`) : "null"; break;
        case "boolean": out += value ? "true" : "false"; break;
        case "bigint": refuse("is a BigInt; use String(x) or Number(x)", `[BigInt: ${value}]`); break;
        case "symbol": refuse("is a Symbol; use its description or a string", "[Symbol]"); break;
        case "undefined": out += "null"; break;
        default: if (value === null) out += "null"; else container(value);
      }
      if (out.length > caps.maxBytes) tooLarge();
    };

    write(root, null, "");
    while (depth > 0) {
      const frame = frames[depth - 1];
      const at = frame.next++;
      if (at >= frame.length) {
        out += frame.keys === null && frame.pairs === null ? "]" : "}";
        depth--;
        frames.length = depth;
      } else if (frame.keys !== null) {
        const key = frame.keys[at];
        write(frame.of[key], key, key);
      } else if (frame.pairs !== null) {
        write(frame.pairs[at][1], frame.pairs[at][0], frame.pairs[at][0]);
      } else {
        write(frame.items[at], null, `${at}`);
      }
    }
    if (out.length > caps.maxBytes) tooLarge();
    return out;
  };
  return { toJson, isFault: Fault.is };
})
