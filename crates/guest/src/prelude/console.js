// console: values formatted readably, handed to the host a line at a time.
(function ({ native, p, methods, define }, { markOf }) {
  const MAX_DEPTH = 4;
  const MAX_ITEMS = 100;
  const MAX_TEXT = 16384;
  const { toISOString, getTime } = Date.prototype;
  const errorToString = Error.prototype.toString;
  const regExpSource = RegExp.prototype.toString;
  const regExpFlags = p.descriptor(RegExp.prototype, "global").get;
  const symbolText = Symbol.prototype.toString;
  const typedArray = p.prototypeOf(Uint8Array.prototype);
  const typedArrayName = p.descriptor(typedArray, Symbol.toStringTag).get;
  const typedArrayLength = p.descriptor(typedArray, "length").get;
  const mapSize = p.descriptor(Map.prototype, "size").get;
  const setSize = p.descriptor(Set.prototype, "size").get;
  const mapEach = Map.prototype.forEach;
  const setEach = Set.prototype.forEach;
  const bufferLength = p.descriptor(ArrayBuffer.prototype, "byteLength").get;

  // Whether `probe` accepts the value as its `this`: the one test of a built-in's kind that no
  // guest object can fake.
  const accepts = (probe, value) => {
    try {
      p.apply(probe, value, []);
      return true;
    } catch {
      return false;
    }
  };

  const quote = (text) => {
    const escaped = p.replaceAll(p.replaceAll(text, "\\", "\\\\"), "\n", "\\n");
    return p.indexOf(escaped, "'") < 0 ? `'${escaped}'` : `"${p.replaceAll(escaped, '"', '\\"')}"`;
  };

  const isIdentifier = (key) => {
    for (let i = 0; i < key.length; i++) {
      const c = p.charCodeAt(key, i);
      const letter = (c >= 65 && c <= 90) || (c >= 97 && c <= 122) || c === 95 || c === 36;
      if (!letter && !(i > 0 && c >= 48 && c <= 57)) return false;
    }
    return key.length > 0;
  };

  const primitive = (value) => {
    switch (typeof value) {
      case "string": return quote(value);
      case "bigint": return `${value}n`;
      case "symbol": return p.apply(symbolText, value, []);
      case "number": return value === 0 && 1 / value < 0 ? "-0" : `${value}`;
      default: return `${value}`;
    }
  };

  const className = (value) => {
    const proto = p.prototypeOf(value);
    if (proto === null) return "[Object: null prototype]";
    const own = p.descriptor(proto, "constructor");
    const name = own && typeof own.value === "function" ? p.descriptor(own.value, "name")?.value : "";
    return typeof name === "string" ? name : "";
  };

  const functionText = (value) => {
    const name = p.descriptor(value, "name")?.value;
    return typeof name === "string" && name ? `[Function: ${name}]` : "[Function (anonymous)]";
  };

  // The state of one formatting: what is open above the value, and how much text there may still be.
  const open = () => ({ above: [], left: MAX_TEXT });

  const wrap = (before, parts, after) => {
    if (parts.length === 0) return `${before}${after}`;
    let length = before.length;
    for (let i = 0; i < parts.length; i++) length += parts[i].length + 2;
    if (length <= 76) return `${before} ${p.join(parts, ", ")} ${after}`;
    const indented = [];
    for (let i = 0; i < parts.length; i++) p.push(indented, `  ${p.replaceAll(parts[i], "\n", "\n  ")}`);
    return `${before}\n${p.join(indented, ",\n")}\n${after}`;
  };

  // Formats up to MAX_ITEMS of `count` items, stopping when the text is used up.
  const items = (count, format, state) => {
    const parts = [];
    let i = 0;
    for (; i < count && i < MAX_ITEMS && state.left > 0; i++) {
      const part = format(i);
      state.left -= part.length;
      p.push(parts, part);
    }
    if (i < count) p.push(parts, `... ${count - i} more item${count - i === 1 ? "" : "s"}`);
    return parts;
  };

  const property = (value, key, state) => {
    const own = p.descriptor(value, key);
    if (own === undefined) return "undefined";
    if (own.get || own.set) return own.get && own.set ? "[Getter/Setter]" : own.get ? "[Getter]" : "[Setter]";
    return inspect(own.value, state);
  };

  const enumerableKeys = (value, skip) => {
    const keys = p.ownKeys(value);
    const kept = [];
    for (let i = 0; i < keys.length; i++) {
      if (skip !== undefined && skip(keys[i])) continue;
      if (p.descriptor(value, keys[i])?.enumerable) p.push(kept, keys[i]);
    }
    return kept;
  };

  const fields = (value, state, skip) => {
    const keys = enumerableKeys(value, skip);
    return items(keys.length, (i) => {
      const key = keys[i];
      const name = typeof key === "symbol" ? `[${primitive(key)}]` : isIdentifier(key) ? key : quote(key);
      return `${name}: ${property(value, key, state)}`;
    }, state);
  };

  const isIndex = (key) => typeof key === "string" && key !== "" && `${/** @type {any} */ (key) >>> 0}` === key;

  const list = (value, length, state) => {
    const parts = items(length, (i) => (p.hasOwn(value, i) ? property(value, i, state) : "<empty>"), state);
    const extra = length > MAX_ITEMS ? [] : fields(value, state, isIndex);
    for (let i = 0; i < extra.length; i++) p.push(parts, extra[i]);
    return parts;
  };

  const errorText = (value, state) => {
    let head;
    try {
      head = `${p.apply(errorToString, value, [])}`;
    } catch {
      head = "[an error that throws when shown]";
    }
    const stack = p.stackOf(value);
    const where = stack.length > 0 ? `\n${p.slice(stack, 0, 2000)}` : "";
    const extra = fields(value, state, (key) => key === "stack" || key === "message" || key === "name");
    const tail = extra.length > 0 ? ` ${wrap("{", extra, "}")}` : "";
    while (p.slice(head, -1) === "\n") head = p.slice(head, 0, -1);
    return `${head}${p.slice(where, -1) === "\n" ? p.slice(where, 0, -1) : where}${tail}`;
  };

  const collection = (name, value, each, size, pair, state) => {
    const parts = [];
    let skipped = 0;
    p.apply(each, value, [(v, k) => {
      if (parts.length >= MAX_ITEMS || state.left <= 0) { skipped++; return; }
      const part = pair ? `${inspect(k, state)} => ${inspect(v, state)}` : inspect(v, state);
      state.left -= part.length;
      p.push(parts, part);
    }]);
    if (skipped > 0) p.push(parts, `... ${skipped} more item${skipped === 1 ? "" : "s"}`);
    return wrap(`${name}(${size}) {`, parts, "}");
  };

  const object = (value, state) => {
    if (typeof value === "function") return functionText(value);
    const mark = markOf(value);
    if (mark !== undefined) return mark;
    if (p.isError(value)) return errorText(value, state);
    if (accepts(getTime, value)) {
      return accepts(toISOString, value) ? p.apply(toISOString, value, []) : "Invalid Date";
    }
    const name = className(value);
    if (p.isArray(value)) {
      return wrap(name === "Array" ? "[" : `${name}(${value.length}) [`, list(value, value.length, state), "]");
    }
    if (accepts(mapSize, value)) return collection("Map", value, mapEach, p.apply(mapSize, value, []), true, state);
    if (accepts(setSize, value)) return collection("Set", value, setEach, p.apply(setSize, value, []), false, state);
    const typed = p.apply(typedArrayName, value, []);
    if (typed !== undefined) {
      const length = p.apply(typedArrayLength, value, []);
      return wrap(`${typed}(${length}) [`, items(length, (i) => primitive(value[i]), state), "]");
    }
    if (accepts(regExpFlags, value)) return `${p.apply(regExpSource, value, [])}`;
    if (accepts(bufferLength, value)) return `ArrayBuffer { byteLength: ${p.apply(bufferLength, value, [])} }`;
    if (native.isPromise(value)) return "Promise { <pending or settled: await it> }";
    const before = name === "Object" || name === "" ? "{" : `${name} {`;
    return wrap(before, fields(value, state), "}");
  };

  const inspect = (value, state) => {
    if (value === null || (typeof value !== "object" && typeof value !== "function")) return primitive(value);
    if (state.left <= 0) return "...";
    for (let i = 0; i < state.above.length; i++) if (state.above[i] === value) return "[Circular]";
    if (state.above.length > MAX_DEPTH) return p.isArray(value) ? "[Array]" : `[${className(value) || "Object"}]`;
    p.push(state.above, value);
    try {
      return object(value, state);
    } finally {
      state.above.length -= 1;
    }
  };

  // A value that throws while it is looked at (a revoked Proxy, a hostile getter) is shown as such.
  const show = (value) => {
    if (typeof value === "string") return value;
    try {
      return inspect(value, open());
    } catch {
      return "[a value that throws when shown]";
    }
  };

  const formatDirective = (directive, value) => {
    switch (directive) {
      case "s": return typeof value === "bigint" ? `${value}n` : show(value);
      case "d": case "i": {
        if (typeof value === "bigint") return `${value}n`;
        if (typeof value === "symbol" || (typeof value === "object" && value !== null)) return "NaN";
        const number = p.Number(value);
        return `${directive === "i" ? Math_trunc(number) : number}`;
      }
      case "f": return typeof value === "symbol" ? "NaN" : `${p.Number(value)}`;
      case "j": try { return native.stringify(value); } catch { return "[not JSON]"; }
      case "c": return "";
      default: return typeof value === "string" ? quote(value) : show(value);
    }
  };
  const Math_trunc = Math.trunc;

  const format = (args) => {
    let text = "";
    let next = 0;
    if (typeof args[0] === "string" && args.length > 1 && p.indexOf(args[0], "%") >= 0) {
      const pattern = args[0];
      next = 1;
      for (let i = 0; i < pattern.length; i++) {
        const c = pattern[i];
        const directive = pattern[i + 1];
        if (c !== "%" || directive === undefined || p.indexOf("sdifjoOc%", directive) < 0) { text += c; continue; }
        if (directive === "%") { text += "%"; i++; continue; }
        if (next >= args.length) { text += c; continue; }
        text += formatDirective(directive, args[next++]);
        i++;
      }
      if (next < args.length) text += " ";
    }
    for (let i = next; i < args.length; i++) text += (i > next ? " " : "") + show(args[i]);
    return text;
  };

  let indent = "";
  const print = (stream, args) => {
    let text = format(args);
    if (text.length > MAX_TEXT) text = `${p.slice(text, 0, MAX_TEXT)}... ${text.length - MAX_TEXT} more characters`;
    if (indent !== "") text = indent + p.replaceAll(text, "\n", `\n${indent}`);
    native.log(stream, p.toWellFormed(text));
  };
  const { STDOUT, STDERR } = native.constants.tags;
  const counts = new p.Map();
  const label = (name) => (name === undefined ? "default" : `${name}`);

  define("console", methods({}, {
    log(...args) { print(STDOUT, args); },
    info(...args) { print(STDOUT, args); },
    debug(...args) { print(STDOUT, args); },
    dir(value) { print(STDOUT, [value]); },
    table(value) { print(STDOUT, [value]); },
    warn(...args) { print(STDERR, args); },
    error(...args) { print(STDERR, args); },
    trace(...args) { print(STDERR, ["Trace:", ...args]); },
    assert(condition, ...args) { if (!condition) print(STDERR, ["Assertion failed", ...args]); },
    group(...args) { if (args.length > 0) print(STDOUT, args); if (indent.length < 40) indent += "  "; },
    groupEnd() { indent = p.slice(indent, 2); },
    count(name) {
      const key = label(name);
      const n = (p.mapGet(counts, key) ?? 0) + 1;
      p.mapSet(counts, key, n);
      print(STDOUT, [`${key}: ${n}`]);
    },
    countReset(name) { p.mapDelete(counts, label(name)); },
    time() {},
    timeEnd(name) { print(STDOUT, [`${label(name)}: there is no stopwatch in the sandbox`]); },
    timeLog(name) { print(STDOUT, [`${label(name)}: there is no stopwatch in the sandbox`]); },
  }));

  return { show };
})
