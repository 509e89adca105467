// Placeholders: what a program gets for a call that was not sent, because its writes are reviewed first.
//
// A placeholder has the shape of the answer as far as that is known. Text that is made from it shows a mark, `⟦#2/id of
// tracker.create_issue⟧`: the value at `/id` in the answer to line 2 of the review. Where a program would decide by a value
// that is not there yet, the host is told, and the rehearsal ends: everything that the program says afterwards is ignored.
// The language has no hook for `if (value)` and `value === other`; the host finds such a branch when the real value comes.
(function ({ native, p }) {
  const marks = new WeakMap();
  const getMark = p.uncurry(WeakMap.prototype.get);
  const setMark = p.uncurry(WeakMap.prototype.set);
  const { toPrimitive, iterator, asyncIterator } = p.Symbol;

  const among = (names) => {
    const set = { __proto__: null };
    for (const name of names) set[name] = true;
    return set;
  };
  // These make text.
  const texts = among(["toString", "toLocaleString", "toFixed", "toPrecision", "toJSON", "valueOf"]);
  // These of a value of unknown shape are what lists and texts have: what follows depends on the value.
  const parts = among([
    "length", "size", "map", "filter", "forEach", "find", "findIndex", "findLast", "some", "every", "includes", "reduce", "flat",
    "flatMap", "sort", "slice", "concat", "join", "push", "pop", "shift", "indexOf", "entries", "keys", "values", "split", "trim",
    "startsWith", "endsWith", "match", "replace", "replaceAll", "toLowerCase", "toUpperCase", "substring", "padStart", "padEnd",
  ]);
  // So named is what a program asks a value about.
  const flags = among(["ok", "success", "error", "errors", "isError", "failed", "valid", "exists", "done"]);

  // No key can end a mark or be taken for its end.
  const step = (key) =>
    "/" + p.replaceAll(p.replaceAll(p.replaceAll(p.replaceAll(`${key}`, "~", "~0"), "/", "~1"), "⟧", "~2"), " ", "~3");
  const mark = ({ line, tool }, path) => `⟦#${line}${path} of ${tool}⟧`;

  const commitPoint = (of, path) => {
    native.call(null, "toolgate:commit-point", native.stringify([{ line: of.line, at: path }], "arguments"));
    throw new p.Error(`the program depends on ${mark(of, path)}, which is not there before its writes are approved`);
  };

  const made = (of, path, shape, isRoot) => {
    const kind = shape?.kind;
    if (kind === "text") return mark(of, path);
    if (kind === "null") return null;
    // Nothing but a branch is made of a truth value. A whole answer is often not looked at.
    if (kind === "boolean" && !isRoot) return commitPoint(of, path);
    const target = kind === "list" ? [] : {};
    const proxy = new p.Proxy(target, { __proto__: handler, of, path, shape });
    setMark(marks, proxy, mark(of, path));
    return proxy;
  };
  const member = ({ of, path, shape }, key) => {
    const child = path + step(key);
    switch (shape?.kind) {
      case "object":
        return p.hasOwn(shape.fields, key) ? made(of, child, shape.fields[key], false) : undefined;
      case "list":
        return `${p.Number(key)}` === key ? made(of, child, shape.items, false) : commitPoint(of, child);
      case "number":
      case "boolean":
        return undefined;
      default:
        return parts[key] || flags[key] ? commitPoint(of, child) : made(of, child, undefined, false);
    }
  };
  const handler = {
    __proto__: null,
    get(_, key) {
      const text = mark(this.of, this.path);
      if (key === toPrimitive) return (hint) => (hint === "number" ? commitPoint(this.of, this.path) : text);
      if (key === iterator || key === asyncIterator) return commitPoint(this.of, this.path);
      // A placeholder is no promise, and has no class of its own.
      if (typeof key === "symbol" || key === "then" || key === "constructor") return undefined;
      if (this.shape?.kind !== "object" || !p.hasOwn(this.shape.fields, key)) {
        if (texts[key]) return () => text;
      }
      return member(this, key);
    },
    has(_, key) {
      return this.shape?.kind === "object" ? p.hasOwn(this.shape.fields, key) : commitPoint(this.of, this.path);
    },
    ownKeys() {
      return this.shape?.kind === "object" ? p.keys(this.shape.fields) : commitPoint(this.of, this.path);
    },
    getOwnPropertyDescriptor(_, key) {
      if (this.shape?.kind !== "object") return commitPoint(this.of, this.path);
      if (!p.hasOwn(this.shape.fields, key)) return undefined;
      // Listing the keys reads no value.
      return { get: () => member(this, key), set: undefined, enumerable: true, configurable: true };
    },
    set() { return commitPoint(this.of, this.path); },
    defineProperty() { return commitPoint(this.of, this.path); },
    deleteProperty() { return commitPoint(this.of, this.path); },
    preventExtensions() { return commitPoint(this.of, this.path); },
  };

  // `code` of the error by which the host says that a call is staged; `data` describes the placeholder.
  const STAGED = "STAGED";
  const isStaged = (error) => error?.code === STAGED && typeof error.data?.line === "number";
  const placeholder = ({ data }) => made({ line: data.line, tool: `${data.tool}` }, "", data.shape ?? undefined, true);

  return { isStaged, placeholder, markOf: (value) => getMark(marks, value) };
})
