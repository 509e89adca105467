// Numbers, dates and lists in the words of a locale: `toLocaleString`, `toLocaleDateString`, `toLocaleTimeString`, `localeCompare`
// and `Intl`.
//
// Evaluated when a program first needs it, and the same for every interpreter, with data of its own instead of the interpreter's:
// so an answer depends neither on the engine nor on the machine. What the data does not have throws, since an option that is
// ignored is a wrong answer.
(function ({ p, methods }, data) {
  const { locales, zones } = data;
  const currencies = data.currencies.split(" ");
  const names = Object.keys(locales);
  // What a language alone means.
  const MAIN = { no: "nb-NO", "zh-hans": "zh-CN", "zh-hant": "zh-TW" };
  for (const name of names) MAIN[name.split("-")[0]] ??= name;
  const byTag = new Map(Object.entries(MAIN));
  for (const name of names) byTag.set(name.toLowerCase(), name);
  const UNSUPPORTED = "is not supported in the sandbox";

  const unsupported = (what, instead) => new RangeError(`${what} ${UNSUPPORTED}${instead === undefined ? "" : `: ${instead}`}`);

  const localeOf = (given) => {
    const list = given === undefined ? [] : Array.isArray(given) ? given : [given];
    for (const tag of list) {
      if (tag === null || (typeof tag !== "string" && typeof tag !== "object")) throw new TypeError("a locale is a string such as \"de-DE\"");
      const text = `${tag}`;
      if (!/^[a-z]{2,8}(-[a-z0-9]{1,8})*$/i.test(text)) throw new RangeError(`Incorrect locale information provided: ${p.slice(text, 0, 40)}`);
      const name = byTag.get(text.toLowerCase());
      if (name !== undefined) return name;
    }
    if (list.length === 0) return "en-US";
    throw unsupported(`the locale ${p.slice(`${list[0]}`, 0, 40)}`, `use one of ${names.join(", ")}`);
  };

  const optionsOf = (given) => {
    if (given === undefined) return {};
    if (given === null) throw new TypeError("options are an object");
    return Object(given);
  };
  const choice = (options, key, values, usual) => {
    const value = options[key];
    if (value === undefined) return usual;
    const text = `${value}`;
    if (!values.includes(text)) throw unsupported(`${key}: ${p.slice(text, 0, 40)}`, `use one of ${values.join(", ")}`);
    return text;
  };
  const refuse = (options, keys) => {
    for (const key of keys) if (options[key] !== undefined) throw unsupported(`the option ${key}`);
  };
  const digitsOf = (options, key, least, most, usual) => {
    const value = options[key];
    if (value === undefined) return usual;
    const number = Number(value);
    if (!(number >= least && number <= most)) throw new RangeError(`${key} value is out of range.`);
    return Math.floor(number);
  };

  // Numbers.

  const numberSettings = (localesGiven, optionsGiven) => {
    const name = localeOf(localesGiven);
    const options = optionsOf(optionsGiven);
    const style = choice(options, "style", ["decimal", "percent", "currency"], "decimal");
    choice(options, "notation", ["standard"], "standard");
    choice(options, "numberingSystem", ["latn"], "latn");
    choice(options, "currencySign", ["standard"], "standard");
    choice(options, "roundingMode", ["halfExpand"], "halfExpand");
    choice(options, "roundingPriority", ["auto"], "auto");
    choice(options, "trailingZeroDisplay", ["auto"], "auto");
    choice(options, "roundingIncrement", ["1"], "1");
    refuse(options, ["unit", "compactDisplay"]);
    const currencyDisplay = choice(options, "currencyDisplay", ["symbol", "code"], "symbol");
    const signDisplay = choice(options, "signDisplay", ["auto", "always", "never", "exceptZero", "negative"], "auto");
    let grouping = options.useGrouping;
    if (grouping === undefined || grouping === "true" || grouping === "false") grouping = "auto";
    else if (grouping === true) grouping = "always";
    else if (!grouping) grouping = "never";
    else grouping = choice(options, "useGrouping", ["auto", "always", "min2"], "auto");
    let currency;
    if (style === "currency") {
      if (options.currency === undefined) throw new TypeError("Currency code is required with currency style.");
      currency = `${options.currency}`.toUpperCase();
      if (!/^[A-Z]{3}$/.test(currency)) throw new RangeError(`Invalid currency code : ${p.slice(currency, 0, 40)}`);
      if (!currencies.includes(currency)) throw unsupported(`the currency ${currency}`, `use one of ${currencies.join(", ")}`);
    }
    const money = currency === "JPY" || currency === "KRW" ? 0 : 2;
    const [usualLeast, usualMost] = style === "currency" ? [money, money] : style === "percent" ? [0, 0] : [0, 3];
    const integers = digitsOf(options, "minimumIntegerDigits", 1, 21, 1);
    let least = digitsOf(options, "minimumFractionDigits", 0, 100, undefined);
    let most = digitsOf(options, "maximumFractionDigits", 0, 100, undefined);
    const significantLeast = digitsOf(options, "minimumSignificantDigits", 1, 21, undefined);
    const significantMost = digitsOf(options, "maximumSignificantDigits", significantLeast ?? 1, 21, undefined);
    if (least === undefined) least = Math.min(usualLeast, most ?? usualLeast);
    else if (most !== undefined && least > most) throw new RangeError("maximumFractionDigits value is out of range.");
    most ??= Math.max(usualMost, least);
    const significant = significantLeast === undefined && significantMost === undefined ? undefined : [significantLeast ?? 1, significantMost ?? 21];
    return { name, style, currency, currencyDisplay, signDisplay, grouping, integers, least, most, significant };
  };

  // The decimal digits of a number and the place of its point, rounded away from zero at the half.
  const rounded = (text, shift, { most, significant }) => {
    const [, whole, fraction = "", exponent = "0"] = /^(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/.exec(text);
    let digits = whole + fraction;
    let point = whole.length + Number(exponent) + shift;
    const lead = /^0*/.exec(digits)[0].length;
    digits = digits.slice(lead);
    point = digits === "" ? 0 : point - lead;
    const cut = significant === undefined ? point + most : significant[1];
    if (cut < 0) return { digits: "", point: 0 };
    if (digits.length > cut) {
      const up = digits[cut] >= "5";
      digits = digits.slice(0, cut);
      if (up) {
        const kept = /^(.*?)(9*)$/.exec(digits);
        if (kept[1] === "") {
          digits = `1${"0".repeat(digits.length)}`;
          point += 1;
        } else {
          const at = kept[1].length - 1;
          digits = `${kept[1].slice(0, at)}${Number(kept[1][at]) + 1}${"0".repeat(kept[2].length)}`;
        }
      }
    }
    return { digits, point };
  };

  const grouped = (whole, locale, group, { grouping }, least) => {
    const enough = grouping === "always" ? 1 : grouping === "min2" ? 2 : least;
    if (grouping === "never" || group === "" || whole.length < 3 + enough) return whole;
    const last = whole.slice(-3);
    const head = whole.slice(0, -3);
    const size = locale.indian ? 2 : 3;
    const parts = [];
    for (let end = head.length; end > 0; end -= size) parts.unshift(head.slice(Math.max(0, end - size), end));
    return [...parts, last].join(group);
  };

  const formatNumber = (value, settings) => {
    const locale = locales[settings.name];
    const isBig = typeof value === "bigint";
    const negative = isBig ? value < 0n : value < 0 || Object.is(value, -0);
    const isMoney = settings.style === "currency";
    let text;
    let isZero = false;
    if (!isBig && Number.isNaN(value)) {
      text = locale.nan;
      isZero = true;
    } else if (!isBig && !Number.isFinite(value)) {
      text = "∞";
    } else {
      const magnitude = isBig ? `${negative ? -value : value}` : `${Math.abs(value)}`;
      const { digits, point } = rounded(magnitude, settings.style === "percent" ? 2 : 0, settings);
      isZero = /^0*$/.test(digits);
      const whole = point > 0 ? digits.slice(0, point).padEnd(point, "0") : "";
      let fraction = point >= 0 ? digits.slice(point) : "0".repeat(-point) + digits;
      let least = settings.least;
      if (settings.significant !== undefined) {
        fraction = fraction.replace(/0+$/, "");
        // Digits that are shown count from the first that is not zero.
        const shown = isZero ? 1 : point > 0 ? point : Math.min(point, 0);
        least = Math.max(0, settings.significant[0] - shown);
      }
      fraction = fraction.replace(/0+$/, "").padEnd(least, "0");
      const group = isMoney ? locale.moneyGroup : locale.group;
      const padded = whole.padStart(settings.integers, "0");
      text = grouped(padded, locale, group, settings, isMoney ? locale.moneyLeast : locale.least);
      if (fraction !== "") text += (isMoney ? locale.moneyDecimal : locale.decimal) + fraction;
    }
    const { signDisplay } = settings;
    const isNan = !isBig && Number.isNaN(value);
    let sign = "";
    if (signDisplay === "always") sign = negative ? "-" : "+";
    else if (signDisplay === "exceptZero") sign = isZero ? "" : negative ? "-" : "+";
    else if (signDisplay === "negative") sign = negative && !isZero ? "-" : "";
    else if (signDisplay === "auto") sign = negative && !isNan ? "-" : "";
    const patterns = isMoney ? locale.money : settings.style === "percent" ? locale.percent : ["#", "-#"];
    let pattern = patterns[sign === "" ? 0 : 1];
    if (isMoney) {
      const symbol = settings.currencyDisplay === "code" ? settings.currency : locale.symbols.split(" ")[currencies.indexOf(settings.currency)];
      // A symbol that ends with a letter is set apart from digits.
      const isDigits = /^\d/.test(text);
      if (isDigits && /\p{L}$/u.test(symbol)) pattern = pattern.replace("¤#", "¤\u00a0#");
      if (isDigits && /^\p{L}/u.test(symbol)) pattern = pattern.replace("#¤", "#\u00a0¤");
      pattern = pattern.replace("¤", () => "\ue000").replace("-", () => "\ue001").replace("#", () => text).replace("\ue000", () => symbol);
    } else {
      pattern = pattern.replace("-", () => "\ue001").replace("#", () => text);
    }
    return pattern.replace("\ue001", () => (sign === "-" ? locale.minus : "+"));
  };

  // Time zones.

  const FIRST = Date.UTC(2000, 0, 1);
  const LAST = Date.UTC(2038, 0, 1);
  let rules;
  const zoneOf = (given) => {
    if (given === undefined) return { name: "UTC", offset: () => 0 };
    const text = `${given}`;
    if (/^(utc|gmt|etc\/(utc|gmt|greenwich|universal|zulu|uct)|zulu|universal)$/i.test(text)) return { name: "UTC", offset: () => 0 };
    const fixed = /^([+-])(\d\d)(?::?(\d\d))?$/.exec(text);
    if (fixed !== null && Number(fixed[2]) < 24 && Number(fixed[3] ?? 0) < 60) {
      const minutes = (Number(fixed[2]) * 60 + Number(fixed[3] ?? 0)) * (fixed[1] === "-" ? -1 : 1);
      return { name: `${fixed[1]}${fixed[2]}:${fixed[3] ?? "00"}`, offset: () => minutes };
    }
    if (rules === undefined) {
      rules = new Map();
      for (const [all, rule] of zones) for (const name of all.split(" ")) rules.set(name.toLowerCase(), [name, rule]);
    }
    const found = rules.get(text.toLowerCase());
    if (found === undefined) throw new RangeError(`Invalid time zone specified: ${p.slice(text, 0, 60)}`);
    const steps = found[1].split(" ").map((number) => parseInt(number, 36));
    const offset = (time) => {
      if (steps.length > 1 && !(time >= FIRST && time < LAST)) throw unsupported(`${found[0]} before 2000 or after 2037`, "use UTC");
      const minute = Math.floor((time - FIRST) / 60000);
      let [now] = steps;
      for (let at = 1; at + 1 < steps.length && steps[at] <= minute; at += 2) now = steps[at + 1];
      return now;
    };
    return { name: found[0], offset };
  };

  // Dates.

  const STYLES = ["full", "long", "medium", "short"];
  const PARTS = ["weekday", "year", "month", "day", "hour", "minute", "second"];

  const dateSettings = (localesGiven, optionsGiven, required, defaults) => {
    const name = localeOf(localesGiven);
    const options = optionsOf(optionsGiven);
    refuse(options, ["era", "dayPeriod", "fractionalSecondDigits", "timeZoneName"]);
    choice(options, "calendar", ["gregory"], "gregory");
    choice(options, "numberingSystem", ["latn"], "latn");
    const zone = zoneOf(options.timeZone);
    const cycle = choice(options, "hourCycle", ["h12", "h23"], undefined);
    const hour12 = options.hour12 === undefined ? (cycle === undefined ? "" : cycle === "h12" ? "12" : "24") : options.hour12 ? "12" : "24";
    const dateStyle = choice(options, "dateStyle", STYLES, undefined);
    const timeStyle = choice(options, "timeStyle", ["medium", "short"], undefined);
    const patterns = locales[name].patterns;
    const { glues } = locales[name];
    const given = PARTS.filter((key) => options[key] !== undefined);
    let date;
    let time;
    let glue;
    if (dateStyle !== undefined || timeStyle !== undefined) {
      if (given.length > 0) throw new TypeError(`Can't set option ${given[0]} when ${dateStyle === undefined ? "timeStyle" : "dateStyle"} is used`);
      if ((required === "date" && timeStyle !== undefined) || (required === "time" && dateStyle !== undefined)) {
        throw new TypeError(`Invalid option : ${required === "date" ? "timeStyle" : "dateStyle"}`);
      }
      date = dateStyle === undefined ? undefined : patterns[dateStyle];
      if (timeStyle !== undefined) time = hour12 === "" ? patterns[`t${timeStyle}`] : patterns[`t${timeStyle === "short" ? "hm" : "hms"}${hour12}`];
      glue = glues[`s${dateStyle}`];
    } else {
      const parts = {};
      for (const key of given) parts[key] = options[key];
      const isDate = given.some((key) => PARTS.indexOf(key) < 4);
      const isTime = given.some((key) => PARTS.indexOf(key) >= 4);
      const needs = (required === "date" && !isDate) || (required === "time" && !isTime) || (required === "any" && !isDate && !isTime);
      if (needs && defaults !== "time") Object.assign(parts, { year: "numeric", month: "numeric", day: "numeric" });
      if (needs && defaults !== "date") Object.assign(parts, { hour: "numeric", minute: "numeric", second: "numeric" });
      const pick = (key, values) => {
        const text = choice(parts, key, values, undefined);
        return text === undefined ? 0 : values.indexOf(text) + 1;
      };
      const weekday = pick("weekday", ["long", "short"]);
      const year = pick("year", ["numeric", "2-digit"]);
      const month = pick("month", ["numeric", "2-digit", "long", "short"]);
      const day = pick("day", ["numeric", "2-digit"]);
      const hour = pick("hour", ["numeric", "2-digit"]);
      const minute = pick("minute", ["2-digit", "numeric"]);
      const second = pick("second", ["2-digit", "numeric"]);
      if (weekday || year || month || day) date = patterns[`${weekday}${year}${month}${day}`] ?? missing(parts);
      if (hour || minute || second) {
        if (!hour || (second && !minute)) throw missing(parts);
        const key = (minutes, seconds) => `t${hour === 1 ? "h" : "h2"}${minute ? minutes : ""}${second ? seconds : ""}${hour12}`;
        time = patterns[key(minute === 2 ? "n" : "m", second === 2 ? "r" : "s")] ?? patterns[key("m", "s")];
      }
      glue = month === 3 ? (weekday ? glues.week : glues.long) : month === 4 ? glues.short : glues[0];
      if (date instanceof Error) throw date;
    }
    if (date !== undefined && time !== undefined && typeof glue !== "string") throw unsupported("this date with a time");
    return { name, zone, date, time, glue };
  };
  const missing = (parts) => unsupported(`this combination of ${Object.keys(parts).join(", ")}`, "format the parts on their own");

  const two = (number) => (number < 10 ? `0${number}` : `${number}`);
  // The parts of a date as a pattern has them, such as `{ type: "year", value: "2024" }`; what stands between them is literal.
  const NAMED = { w: "weekday", N: "month", p: "dayPeriod" };
  const NUMERIC = { y: "year", M: "month", d: "day", H: "hour", h: "hour", m: "minute", s: "second" };
  const writtenParts = (pattern, locale, at) => {
    const table = (index, place) => locale.tables[Number(index)].split("|")[place];
    const dayPeriod = (index, hour) => table(index, 2) === undefined ? table(index, hour < 12 ? 0 : 1) : table(index, hour);
    const valueOf = (named, index, part, digits, clock) => {
      if (named === "w") return table(index, at.getUTCDay());
      if (named === "N") return table(index, at.getUTCMonth());
      if (named === "p") return dayPeriod(index, at.getUTCHours());
      if (clock === "m") return two(at.getUTCMinutes());
      if (clock === "s") return two(at.getUTCSeconds());
      const hour = at.getUTCHours();
      const year = at.getUTCFullYear();
      if (part === "y" && year < 1) throw unsupported("a year before the first");
      const number = { y: digits === "2" ? year % 100 : year, M: at.getUTCMonth() + 1, d: at.getUTCDate(), H: hour, h: hour % 12 === 0 ? 12 : hour % 12 }[part];
      return digits === "2" ? two(number) : `${number}`;
    };
    const parts = [];
    let end = 0;
    for (const found of pattern.matchAll(/'([^']*)'|([wNp])(\d+)|([yMdHh])(\d)|([ms])/g)) {
      const [whole, literal, named, index, part, digits, clock] = found;
      addLiteral(parts, pattern.slice(end, found.index) + (literal ?? ""));
      if (literal === undefined) parts.push({ type: NAMED[named] ?? NUMERIC[part ?? clock], value: valueOf(named, index, part, digits, clock) });
      end = found.index + whole.length;
    }
    addLiteral(parts, pattern.slice(end));
    return parts;
  };
  const addLiteral = (parts, text) => {
    const last = parts.at(-1);
    if (text === "") return;
    if (last?.type === "literal") last.value += text;
    else parts.push({ type: "literal", value: text });
  };

  const HostDate = Date;
  const dateParts = (time, { name, zone, date, time: clock, glue }) => {
    if (!Number.isFinite(time)) throw new RangeError("Invalid time value");
    const at = new HostDate(time + zone.offset(time) * 60000);
    const locale = locales[name];
    const parts = date === undefined ? [] : writtenParts(date, locale, at);
    if (date !== undefined && clock !== undefined) addLiteral(parts, glue);
    for (const part of clock === undefined ? [] : writtenParts(clock, locale, at)) {
      if (part.type === "literal") addLiteral(parts, part.value);
      else parts.push(part);
    }
    return parts;
  };
  const formatDate = (time, settings) => dateParts(time, settings).map((part) => part.value).join("");

  // Lists.

  const formatList = (list, [pair, first, middle, last]) => {
    const items = [...list];
    for (const item of items) if (typeof item !== "string") throw new TypeError("a list is of strings");
    if (items.length < 2) return items.join("");
    if (items.length === 2) return items.join(pair);
    let text = items[0] + first + items[1];
    for (let at = 2; at < items.length; at++) text += (at === items.length - 1 ? last : middle) + items[at];
    return text;
  };

  // Order of texts: letters before case and accents, as people expect it, for what Latin letters, digits and marks are made of.

  // Languages with an order of their own are not known.
  const ROOT_ORDER = /^(en|de|it|pt|nl|fr-FR|fr-CH)/;
  const compareSettings = (localesGiven, optionsGiven) => {
    const name = localeOf(localesGiven);
    if (!ROOT_ORDER.test(name)) throw unsupported(`the order of texts in ${name}`, "leave the locale out");
    const options = optionsOf(optionsGiven);
    choice(options, "usage", ["sort"], "sort");
    choice(options, "caseFirst", ["false"], "false");
    choice(options, "collation", ["default"], "default");
    choice(options, "ignorePunctuation", ["false"], "false");
    return { name, numeric: Boolean(options.numeric), sensitivity: choice(options, "sensitivity", ["base", "accent", "variant"], "variant") };
  };
  const order = (a, b) => (a === b ? 0 : a < b ? -1 : 1);
  const MARKS = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
  const rank = (char) => {
    if (/\s/.test(char)) return 0;
    const mark = MARKS.indexOf(char);
    return mark >= 0 ? 1 + mark : /[\p{P}\p{S}]/u.test(char) ? 50 : /\p{N}/u.test(char) ? 51 : 52;
  };
  const compare = (a, b, { numeric, sensitivity }) => {
    const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "");
    const tokens = (text) => plain(text).toLowerCase().match(numeric ? /\d+|[^]/gu : /[^]/gu) ?? [];
    const [x, y] = [tokens(a), tokens(b)];
    for (let at = 0; at < x.length && at < y.length; at++) {
      if (x[at] === y[at]) continue;
      const bothNumbers = numeric && /^\d/.test(x[at]) && /^\d/.test(y[at]);
      if (bothNumbers) {
        const [one, other] = [BigInt(x[at]), BigInt(y[at])];
        if (one !== other) return one < other ? -1 : 1;
        continue;
      }
      const kinds = order(rank(x[at]), rank(y[at]));
      return kinds !== 0 ? kinds : order(x[at], y[at]);
    }
    if (x.length !== y.length) return x.length < y.length ? -1 : 1;
    const marks = (text) => text.normalize("NFD").toLowerCase();
    if (sensitivity !== "base") {
      const accents = order(marks(a), marks(b));
      if (accents !== 0) return accents;
    }
    if (sensitivity !== "variant") return 0;
    // Small letters come first.
    const [c, d] = [a.normalize("NFD"), b.normalize("NFD")];
    for (let at = 0; at < c.length && at < d.length; at++) {
      if (c[at] !== d[at]) return c[at] === c[at].toLowerCase() ? -1 : 1;
    }
    return 0;
  };

  // The objects of `Intl`.

  const resolved = (settings, extra) => ({ locale: settings.name, ...extra });
  const supportedLocalesOf = (given) => (given === undefined ? [] : [given].flat()).filter((tag) => byTag.has(`${tag}`.toLowerCase()));
  const formatter = (name, settingsOf, format, more, parts) => {
    const made = function (given, options) {
      const settings = settingsOf(given, options);
      const self = new.target === undefined ? p.create(made.prototype) : this;
      methods(self, { format: (value) => format(value, settings), resolvedOptions: () => more(settings) });
      if (parts !== undefined) methods(self, { formatToParts: (value) => parts(value, settings) });
      return self;
    };
    for (const method of ["formatToParts", "formatRange", "formatRangeToParts"]) {
      methods(made.prototype, { [method]: () => { throw unsupported(`${method} of Intl.${name}`, "use format"); } });
    }
    p.defineProperty(made, "name", { value: name, configurable: true });
    p.defineProperty(made.prototype, Symbol.toStringTag, { value: `Intl.${name}`, configurable: true });
    return methods(made, { supportedLocalesOf });
  };
  const timeOf = (value) => (value === undefined ? HostDate.now() : Number(value));
  const numberOf = (value) => (typeof value === "bigint" ? value : Number(value));
  const NumberFormat = formatter("NumberFormat", numberSettings, (value, settings) => formatNumber(numberOf(value), settings), (settings) =>
    resolved(settings, { numberingSystem: "latn", style: settings.style, minimumFractionDigits: settings.least, maximumFractionDigits: settings.most }));
  const DateTimeFormat = formatter(
    "DateTimeFormat",
    (given, options) => dateSettings(given, options, "any", "date"),
    (value, settings) => formatDate(timeOf(value), settings),
    (settings) => resolved(settings, { calendar: "gregory", numberingSystem: "latn", timeZone: settings.zone.name }),
    (value, settings) => dateParts(timeOf(value), settings),
  );
  const ListFormat = formatter(
    "ListFormat",
    (given, optionsGiven) => {
      const name = localeOf(given);
      const options = optionsOf(optionsGiven);
      const type = choice(options, "type", ["conjunction", "disjunction", "unit"], "conjunction");
      const style = choice(options, "style", ["long", "narrow"], "long");
      return { name, type, style, words: locales[name].lists[`${type} ${style}`] };
    },
    (list, settings) => formatList(list, settings.words),
    (settings) => resolved(settings, { type: settings.type, style: settings.style }),
  );
  const Collator = function Collator(given, options) {
    const settings = compareSettings(given, options);
    const compared = (a, b) => compare(`${a}`, `${b}`, settings);
    const more = () => resolved(settings, { numeric: settings.numeric, sensitivity: settings.sensitivity });
    return methods(p.create(Collator.prototype), { compare: compared, resolvedOptions: more });
  };
  methods(Collator, { supportedLocalesOf });
  const Intl = methods({}, { NumberFormat, DateTimeFormat, ListFormat, Collator });
  const OTHERS = ["PluralRules", "RelativeTimeFormat", "DisplayNames", "Segmenter", "DurationFormat", "Locale"];
  for (const name of [...OTHERS, "supportedValuesOf", "getCanonicalLocales"]) {
    const others = "there are NumberFormat, DateTimeFormat, ListFormat and Collator";
    methods(Intl, { [name]: function () { throw unsupported(`Intl.${name}`, others); } });
  }
  p.defineProperty(Intl, Symbol.toStringTag, { value: "Intl", configurable: true });

  return {
    Intl,
    number: (value, given, options) => formatNumber(value, numberSettings(given, options)),
    date: (time, given, options, required, defaults) => {
      const settings = dateSettings(given, options, required, defaults);
      return Number.isFinite(time) ? formatDate(time, settings) : "Invalid Date";
    },
    cased: (given) => {
      // Turkish and a few others have letters of their own; the rest is the same everywhere.
      if (/^(tr|az|lt)/i.test(`${[given].flat()[0]}`)) throw unsupported(`the letters of ${p.slice(`${given}`, 0, 40)}`);
    },
    compare: (a, b, given, options) => compare(a, b, compareSettings(given, options)),
  };
})
