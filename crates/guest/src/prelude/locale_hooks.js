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
    localeCompare(other, locales, options) {
      const [a, b] = [text(this), `${other}`];
      // The order of code points, which is what it always was, and fast.
      if (locales === undefined && options === undefined) return compareTexts(a, b);
      return locale().compare(a, b, locales, options);
    },
  };
  for (const [own, extra] of [[Number.prototype, numbers], [BigInt.prototype, bigInts], [Date.prototype, dates], [String.prototype, strings]]) {
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
