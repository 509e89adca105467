// The methods that depend on a locale, and `Intl`. The code and the data behind them are loaded at the first call: most programs
// need neither.
(function ({ native, p, methods, define }) {
  /** @type {any} */
  let loaded;
  const locale = () => (loaded ??= native.locale()({ p, methods }, p.parseJson(native.localeData())));

  const thisNumber = p.uncurry(Number.prototype.valueOf);
  const thisBigInt = p.uncurry(BigInt.prototype.valueOf);
  const thisTime = p.uncurry(Date.prototype.getTime);
  const compareTexts = p.uncurry(String.prototype.localeCompare);
  const text = (value) => {
    if (value === null || value === undefined) throw new p.TypeError("cannot convert null or undefined to a string");
    return `${value}`;
  };

  const numbers = { toLocaleString(locales, options) { return locale().number(thisNumber(this), locales, options); } };
  const bigInts = { toLocaleString(locales, options) { return locale().number(thisBigInt(this), locales, options); } };
  const dates = {
    toLocaleString(locales, options) { return locale().date(thisTime(this), locales, options, "any", "all"); },
    toLocaleDateString(locales, options) { return locale().date(thisTime(this), locales, options, "date", "date"); },
    toLocaleTimeString(locales, options) { return locale().date(thisTime(this), locales, options, "time", "time"); },
  };
  const [lower, upper] = [p.uncurry(String.prototype.toLocaleLowerCase), p.uncurry(String.prototype.toLocaleUpperCase)];
  const strings = {
    toLocaleLowerCase(locales) {
      if (locales !== undefined) locale().cased(locales);
      return lower(text(this));
    },
    toLocaleUpperCase(locales) {
      if (locales !== undefined) locale().cased(locales);
      return upper(text(this));
    },
    // A comparator calls it for every pair: two texts in Latin or Cyrillic letters without a locale are compared by the natives alone.
    localeCompare: native.localeCompare(function localeCompare(other, locales, options) {
      const a = text(this);
      const b = `${other}`;
      // The order of code points, which is what it always was.
      if (locales === undefined && options === undefined) return compareTexts(a, b);
      return locale().compare(a, b, locales, options);
    }),
  };
  // The lists that are being written. One that is inside itself is empty there, as `join` has it.
  /** @type {{ list: any, outer: any } | null} */
  let open = null;
  const joined = (list, length, locales, options) => {
    for (let at = open; at !== null; at = at.outer) if (at.list === list) return "";
    open = { list, outer: open };
    try {
      let all = "";
      for (let at = 0; at < length; at++) {
        const item = list[at];
        if (at > 0) all += ",";
        if (item !== null && item !== undefined) all += `${item.toLocaleString(locales, options)}`;
      }
      return all;
    } finally {
      open = open.outer;
    }
  };
  const lengthOf = (list) => {
    const length = +list.length;
    return length > 0 ? length : 0;
  };
  // The interpreters differ in whether elements get the locale.
  const lists = {
    toLocaleString(locales, options) {
      if (this === null || this === undefined) throw new p.TypeError("cannot convert null or undefined to an object");
      const list = p.Object(this);
      return joined(list, lengthOf(list), locales, options);
    },
  };
  const TypedArray = p.prototypeOf(Uint8Array.prototype);
  const typedLength = p.uncurry(p.descriptor(TypedArray, "length").get);
  const typedLists = { toLocaleString(locales, options) { return joined(this, typedLength(this), locales, options); } };
  const all = [
    [Number.prototype, numbers], [BigInt.prototype, bigInts], [Date.prototype, dates], [String.prototype, strings],
    [Array.prototype, lists], [TypedArray, typedLists],
  ];
  for (const [own, extra] of all) {
    for (const key of p.keys(extra)) p.defineProperty(extra[key], "length", { value: key === "localeCompare" ? 1 : 0, configurable: true });
    methods(own, extra);
  }
  p.defineProperty(globalThis, "Intl", {
    get: () => locale().Intl,
    set: (value) => define("Intl", value),
    enumerable: false,
    configurable: true,
  });
})
