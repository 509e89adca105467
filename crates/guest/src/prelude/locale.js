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
    const options = Object(given);
    choice(options, "localeMatcher", ["lookup", "best fit"], undefined);
    return options;
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
      if (weekday && !year && !month && !day && time !== undefined) throw unsupported("a weekday with a time and without a date", "format the parts on their own");
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

  // In Spanish, "y" is "e" before the sound "i", and "o" is "u" before the sound "o".
  const spoken = (glue, next, name) => {
    if (!name.startsWith("es")) return glue;
    if (glue === " y " && /^(i|hi(?![ae]))/i.test(next)) return " e ";
    if (glue === " o " && /^(o|ho|8|11($| ))/i.test(next)) return " u ";
    return glue;
  };
  const formatList = (list, [pair, first, middle, last], name) => {
    const items = [...list];
    for (const item of items) if (typeof item !== "string") throw new TypeError("a list is of strings");
    if (items.length < 2) return items.join("");
    if (items.length === 2) return items[0] + spoken(pair, items[1], name) + items[1];
    let text = items[0] + first + items[1];
    for (let at = 2; at < items.length; at++) text += (at === items.length - 1 ? spoken(last, items[at], name) : middle) + items[at];
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
  // Characters in their order; of those that are not here, only some things are known (see `place`).
  const KNOWN =
    "\t\n\v\f\r _-\u2010\u2012\u2013\u2014\u2015,;:!\u00a1?\u00bf.\u00b7'\"\u00ab\u00bb()[]{}\u00a7\u00b6@*/\\&#%\u2030\u2020\u2021\u2022`^\u00b0\u00a9\u00ae+\u00b1\u00f7\u00d7<=>\u00ac|\u00a6~\u00a4\u00a2$\u00a3\u00a5\u20ac0123456789" +
    "abcde\u0259fghi\u0131jklmn\u014bopq\u0138rst\u0167uvwxyz\u00fe" +
    "\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b7\u03b8\u03b9\u03ba\u03bb\u03bc\u03bd\u03be\u03bf\u03c0\u03c1\u03c3\u03c4\u03c5\u03c6\u03c7\u03c8\u03c9" +
    "\u0430\u0431\u0432\u0433\u0434\u0452\u0435\u0454\u0436\u0437\u0455\u0438\u0456\u0439\u0458\u043a\u043b\u0459\u043c\u043d\u045a\u043e\u043f\u0440\u0441\u0442\u045b\u0443\u0444\u0445\u0446\u0447\u045f\u0448\u0449\u044a\u044b\u044c\u044d\u044e\u044f";
  const FIRST_DIGIT = KNOWN.indexOf("0");
  const places = new Map([...KNOWN].map((char, at) => [char, at]));
  // Letters that are other letters with a mark of their own, in the order of these marks.
  const WRITTEN = new Map([["\u0142", "l\u0335"], ["\u0111", "d\u0335"], ["\u0127", "h\u0335"], ["\u00f8", "o\u0338"], ["\u00e6", "a\ue000e"], ["\u0153", "o\ue000e"], ["\u00df", "s\ue001s"], ["\u00f0", "d\ue002"], ["\u03c2", "\u03c3"], ["\u2018", "'\ue003"], ["\u2019", "'\ue004"], ["\u201c", '"\ue003'], ["\u201d", '"\ue004']]);
  const MARKS = "\u0301\u0300\u0306\u0302\u030c\u030a\u0308\u030b\u0303\u0307\u0338\u0327\u0328\u0304\u0335\ue000\ue001\ue002\ue003\ue004";
  const isMark = (char) => /[\p{M}\ue000-\ue004]/u.test(char);
  const spelled = (text) => {
    let written = "";
    for (const char of text.normalize("NFD").toLowerCase().replaceAll("\u0438\u0306", "\u0439")) written += WRITTEN.get(char) ?? char;
    return [...written];
  };
  const unordered = (char) => unsupported(`the order of the character ${char} in a locale`, "leave the locale out");
  // Symbols precede digits, and letters of other scripts follow all that are known.
  const place = (char) => places.get(char) ?? (/[\p{P}\p{S}]/u.test(char) ? FIRST_DIGIT - 0.5 : /\p{L}/u.test(char) && !/[\p{sc=Latn}\p{sc=Grek}\p{sc=Cyrl}\p{sc=Zyyy}]/u.test(char) ? KNOWN.length : -1);
  const orderOfLetters = (a, b) => {
    const [x, y] = [place(a), place(b)];
    const isKnown = (char) => places.has(char);
    // Two that are unknown, or a mark of unknown place among marks.
    const isSure = (isKnown(a) || isKnown(b)) && x >= 0 && y >= 0 && (isKnown(a) === isKnown(b) || Math.max(x, y) >= FIRST_DIGIT);
    if (!isSure) throw unordered(isKnown(a) ? b : a);
    return order(x, y);
  };
  // The marks of a text by their places: a letter is 0, so that a text comes before the same text with a mark.
  const accents = (letters) => letters.map((char) => {
    if (!isMark(char)) return 0;
    const at = MARKS.indexOf(char);
    if (at < 0) throw unordered(char);
    return at + 1;
  });
  const orderOfLists = (x, y, orderOfItems) => {
    for (let at = 0; at < x.length && at < y.length; at++) {
      const found = x[at] === y[at] ? 0 : orderOfItems(x[at], y[at]);
      if (found !== 0) return found;
    }
    return order(x.length, y.length);
  };
  const compare = (first, second, { numeric, sensitivity }) => {
    // As numbers, 007 is 7.
    const [a, b] = numeric ? [first, second].map((text) => text.replace(/(?<!\d)0+(?=\d)/g, "")) : [first, second];
    const [one, other] = [spelled(a), spelled(b)];
    const tokens = (letters) => {
      const plain = letters.filter((char) => !isMark(char));
      return numeric ? (plain.join("").match(/\d+|[^]/gu) ?? []) : plain;
    };
    const letters = orderOfLists(tokens(one), tokens(other), (x, y) =>
      numeric && /^\d/.test(x) && /^\d/.test(y) ? order(BigInt(x), BigInt(y)) : orderOfLetters([...x][0], [...y][0]));
    if (letters !== 0) return letters;
    if (sensitivity !== "base") {
      const marks = orderOfLists(accents(one), accents(other), order);
      if (marks !== 0) return marks;
    }
    if (sensitivity !== "variant") return 0;
    // Small letters come first, and a letter before its other form.
    const form = (char) => char === "\u03c2" ? 3 : 2 * Number(char !== char.toLowerCase()) + Number(WRITTEN.has(char.toLowerCase()));
    return orderOfLists([...a.normalize("NFD")], [...b.normalize("NFD")], (x, y) => order(form(x), form(y)));
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
    (list, settings) => formatList(list, settings.words, settings.name),
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
