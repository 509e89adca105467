// Compares functions that were replaced with what they replaced, over one value. Gives the differences.
((replaced, originals) => {
  const outcome = (act) => {
    try {
      const result = act();
      return typeof result === "string" ? result : describe(result);
    } catch (e) {
      return `threw ${e?.name} ${e?.message}`;
    }
  };
  // Everything that guest code can see of a value, with the places where an object comes again.
  const describe = (value) => {
    const seen = new Map();
    const show = (v) => {
      if (typeof v === "string") return originals.stringify(v);
      if (typeof v === "symbol" || typeof v === "bigint" || typeof v === "function") return typeof v;
      if (typeof v !== "object" || v === null) return Object.is(v, -0) ? "-0" : `${v}`;
      if (seen.has(v)) return `#${seen.get(v)}`;
      seen.set(v, seen.size);
      const proto = Object.getPrototypeOf(v);
      const from = proto === Object.prototype ? "object" : proto === Array.prototype ? "array" : proto === null ? "null" : "other";
      const own = Reflect.ownKeys(v).map((key) => {
        const d = Object.getOwnPropertyDescriptor(v, key);
        return `${String(key)}${+d.writable}${+d.enumerable}${+d.configurable}${"value" in d ? show(d.value) : "accessor"}`;
      });
      return `${from}${Array.isArray(v)}${Object.isExtensible(v)}{${own.join(",")}}`;
    };
    return show(value);
  };
  const strings = ["", "a", "b", "ab", "A", "a\0", "é", "e\u0301", "\ud800", "𝄞", "ÿ", "ƒ", "\u02ff", "\u0300", "a\u0300", "ё", "Ё", "жук", "ѿ", "\u0483", "ґ", "ж\u0306", "αβ", "\u0387", "日本", "z".repeat(40), "z".repeat(41), "ab" + "c".repeat(300)];
  const spaces = [undefined, 0, 1, 2.9, -1, 20, NaN, "\t", "--", "", "abcdefghijklmno", "é", "\ud800", null, true, Object(3), Object("> "), {}, []];
  const replacers = [undefined, null, 1, "a", (key, v) => v, (key, v) => (key === "a" ? undefined : v), ["a", "id", 0], {}];
  return (value, at) => {
    // Not a list: programs change what lists inherit.
    let differences = "";
    const compare = (what, act) => {
      const now = outcome(() => act(replaced));
      const before = outcome(() => act(originals));
      // The interpreter's own functions keep their stack in a list of the program's realm, which inherits what the program has made
      // of Array.prototype; those of the standard do not see that.
      if (/^threw TypeError ('\d+' is read-only|no setter for property)/.test(before)) return;
      if (now !== before) differences += `${what}: ${now} but was ${before}\n`;
    };
    compare("stringify", (f) => f.stringify(value));
    compare("pretty", (f) => f.stringify(value, null, spaces[at % spaces.length]));
    compare("replaced", (f) => f.stringify(value, replacers[at % replacers.length], spaces[(at >> 3) % spaces.length]));
    compare("nested", (f) => f.stringify({ value, list: [value, value], gone: undefined, f() {} }, null, 1));
    compare("clone", (f) => f.clone(value));
    compare("cloned twice", (f) => f.clone([value, { value }, value]));
    compare("keys", (f) => f.keys(value));
    compare("values", (f) => f.values(value));
    compare("entries", (f) => f.entries(value));
    compare("same values", (f) => f.values(value).map((v, i) => v === f.entries(value)[i][1]));
    compare("order", (f) => strings.map((one) => strings.map((other) => f.compare.call(one, other))));
    compare("order of others", (f) => [value, null, undefined, 1, ["a"]].map((other) => outcome(() => f.compare.call(other, value))));
    compare("round trip", (f) => f.parse(f.stringify([value, "padding".repeat(40)])));
    return differences;
  };
})
