// Writes crates/guest/src/prelude/locale_data.json: what numbers, dates and lists look like in common locales, and the offsets
// of time zones from 2000 to 2037, read from this node's ICU.
// `node tests/javascript/locale-data.cjs > crates/guest/src/prelude/locale_data.json`
"use strict";

const LOCALES = [
  "en-US", "en-GB", "en-CA", "en-AU", "en-IN", "de-DE", "de-AT", "de-CH", "fr-FR", "fr-CA", "fr-CH", "es-ES", "es-MX", "it-IT",
  "pt-BR", "pt-PT", "nl-NL", "sv-SE", "da-DK", "nb-NO", "fi-FI", "pl-PL", "cs-CZ", "tr-TR", "ru-RU", "uk-UA", "ja-JP", "ko-KR",
  "zh-CN", "zh-TW",
];
const CURRENCIES = [
  "USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "INR", "CNY", "BRL", "KRW", "SEK", "NOK", "DKK", "PLN", "CZK", "TRY", "MXN",
];

/** Everything before the number, between sign and number, and after it, with the symbol as ¤. */
const numberPattern = (locale, options, value) => {
  const numeric = ["integer", "group", "decimal", "fraction"];
  const parts = new Intl.NumberFormat(locale, options).formatToParts(value);
  const shown = parts.map(({ type, value }) => (type === "currency" ? "¤" : type === "minusSign" ? "-" : numeric.includes(type) ? "#" : value));
  return shown.join("").replace(/#+/, "#");
};

const numbers = (locale) => {
  const parts = (value, options) => new Intl.NumberFormat(locale, options).formatToParts(value);
  const of = (type, value) => parts(value).find((part) => part.type === type)?.value ?? "";
  const groups = parts(1234567890).filter(({ type }) => type === "integer").map(({ value }) => value.length);
  // The pattern of a symbol without letters: where there are some, a space is added by rule.
  const symbol = (currency) => parts(1, { style: "currency", currency }).find(({ type }) => type === "currency").value;
  const currency = CURRENCIES.find((currency) => !/[A-Za-z]/.test(symbol(currency)));
  return {
    decimal: of("decimal", 1.5),
    group: of("group", 1234567),
    minus: of("minusSign", -1),
    // 2 where a number of four digits is not grouped.
    least: of("group", 1234) === "" ? 2 : 1,
    indian: groups.at(-2) === 2,
    percent: [numberPattern(locale, { style: "percent" }, 1), numberPattern(locale, { style: "percent" }, -1)],
    money: [1, -1].map((value) => numberPattern(locale, { style: "currency", currency }, value)),
    nan: new Intl.NumberFormat(locale).format(NaN),
    // Some locales group money by other rules than numbers.
    moneyGroup: parts(1234567, { style: "currency", currency: "EUR" }).find(({ type }) => type === "group")?.value ?? "",
    moneyDecimal: parts(1.5, { style: "currency", currency: "EUR" }).find(({ type }) => type === "decimal")?.value ?? "",
    moneyLeast: parts(1234, { style: "currency", currency: "EUR" }).some(({ type }) => type === "group") ? 1 : 2,
    symbols: CURRENCIES.map(symbol).join(" "),
  };
};

const WHEN = new Date(Date.UTC(2023, 10, 9, 15, 4, 5));
const WEEKDAY = [undefined, "long", "short"];
const YEAR = [undefined, "numeric", "2-digit"];
const MONTH = [undefined, "numeric", "2-digit", "long", "short"];
const DAY = [undefined, "numeric", "2-digit"];
const defined = (options) => Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));

/** A pattern: w weekday, y year, M month, d day, h m s p of the clock; a digit says how it is written; literals as they are. */
const datePattern = (locale, options) => {
  const format = new Intl.DateTimeFormat(locale, { timeZone: "UTC", ...options });
  return format.formatToParts(WHEN).map(({ type, value }) => {
    switch (type) {
      case "weekday": return ["w", value];
      case "year": return ["y", value];
      case "month": return ["M", value];
      case "day": return ["d", value];
      case "hour": return ["h", value];
      case "minute": return ["m", value];
      case "second": return ["s", value];
      case "dayPeriod": return ["p", value];
      case "literal": return ["'", value];
      default: throw new Error(`${locale}: ${type}`);
    }
  });
};

const names = (locale, options, type, count, at) => {
  const format = new Intl.DateTimeFormat(locale, { timeZone: "UTC", ...options });
  return Array.from({ length: count }, (_, n) => format.formatToParts(at(n)).find((part) => part.type === type).value);
};
const month = (n) => new Date(Date.UTC(2023, n, 9));
const weekday = (n) => new Date(Date.UTC(2023, 0, 1 + n));

/** Browsers write a plain space before AM and PM. */
const plain = (text) => text.replaceAll("\u202f", " ");

/** The parts as one text: names are tables, numbers are numeric or of two digits. */
const dates = (locale) => {
  const tables = [];
  const table = (list) => {
    const text = list.join("|");
    const at = tables.indexOf(text);
    return at >= 0 ? at : tables.push(text) - 1;
  };
  const write = (options) => datePattern(locale, options).map(([kind, value]) => {
    if (kind === "'") return `'${plain(value)}'`;
    if (kind === "w") return `w${table(names(locale, options, "weekday", 7, weekday))}`;
    if (kind === "M" && !/^\d+$/.test(value)) return `N${table(names(locale, options, "month", 12, month))}`;
    if (kind === "y") return value.length === 2 ? "y2" : "y4";
    if (kind === "M") return value.length === 2 && value === "11" && names(locale, options, "month", 1, month)[0].length === 2 ? "M2" : "M1";
    if (kind === "d") return value.length === 2 ? "d2" : "d1";
    if (kind === "h") return "h";
    return kind;
  }).join("");
  const patterns = {};
  for (const [w, ws] of WEEKDAY.entries()) for (const [y, ys] of YEAR.entries()) {
    for (const [m, ms] of MONTH.entries()) for (const [d, ds] of DAY.entries()) {
      if (!(w || y || m || d)) continue;
      // The others are rare: a weekday without a date, a short year beside a long month, a date without a month.
      if (!m && [w, y, d].filter(Boolean).length > 1) continue;
      if (w && m && !d) continue;
      if (ys === "2-digit" && (w || ms === "long")) continue;
      if (ds === "2-digit" && w) continue;
      if (ms === "2-digit" && w) continue;
      patterns[`${w}${y}${m}${d}`] = write(defined({ weekday: ws, year: ys, month: ms, day: ds }));
    }
  }
  const styles = ["full", "long", "medium", "short"];
  for (const style of styles) patterns[style] = write({ dateStyle: style });
  // Months of all twelve, since the names are read from the ninth day; hours from two times of the day.
  const clock = (options) => {
    const at = (hour) => new Intl.DateTimeFormat(locale, { timeZone: "UTC", ...options }).formatToParts(new Date(Date.UTC(2023, 10, 9, hour, 4, 5)));
    const [early, late] = [at(3), at(15)];
    const part = (parts, type) => parts.find((part) => part.type === type)?.value;
    const hour = part(late, "hour") === "3" || part(late, "hour") === "03" ? "h" : "H";
    const digits = part(early, "hour")?.length === 2 ? 2 : 1;
    const text = late.map(({ type, value }) => {
      if (type === "hour") return `${hour}${digits}`;
      if (type === "minute") return "m";
      if (type === "second") return "s";
      if (type === "dayPeriod") {
        // Two words, or in some languages one for each part of the day.
        const words = Array.from({ length: 24 }, (_, hour) => part(at(hour), "dayPeriod"));
        const halves = words.every((word, hour) => word === words[hour < 12 ? 0 : 12]);
        return `p${table(halves ? [words[0], words[12]] : words)}`;
      }
      return `'${plain(value)}'`;
    });
    return text.join("");
  };
  const MINUTE = { "": undefined, m: "2-digit", n: "numeric" };
  const SECOND = { "": undefined, s: "2-digit", r: "numeric" };
  for (const [h, hour] of [["h", "numeric"], ["h2", "2-digit"]]) for (const m of Object.keys(MINUTE)) for (const s of m === "" ? [""] : Object.keys(SECOND)) {
    const options = defined({ hour, minute: MINUTE[m], second: SECOND[s] });
    for (const [cycle, hour12] of [["", undefined], ["12", true], ["24", false]]) {
      const pattern = clock(defined({ ...options, hour12 }));
      // Only what differs from the pattern with two digits.
      const usual = `t${h}${m && "m"}${s && "s"}${cycle}`;
      if (patterns[usual] !== pattern) patterns[`t${h}${m}${s}${cycle}`] = pattern;
    }
  }
  patterns.tshort = clock({ timeStyle: "short" });
  patterns.tmedium = clock({ timeStyle: "medium" });
  // What stands between a date and a time.
  const glue = (date, time) => {
    const parts = new Intl.DateTimeFormat(locale, { timeZone: "UTC", ...date, ...time }).formatToParts(WHEN);
    const hour = parts.findIndex(({ type }) => type === "hour" || type === "dayPeriod");
    const before = parts.slice(0, hour).map(({ value }) => value).join("");
    const alone = new Intl.DateTimeFormat(locale, { timeZone: "UTC", ...date }).format(WHEN);
    return before.startsWith(alone) ? before.slice(alone.length) : null;
  };
  const time = { hour: "numeric", minute: "2-digit" };
  const glues = {
    0: glue({ year: "numeric", month: "numeric", day: "numeric" }, time),
    long: glue({ year: "numeric", month: "long", day: "numeric" }, time),
    short: glue({ year: "numeric", month: "short", day: "numeric" }, time),
    week: glue({ weekday: "long", year: "numeric", month: "long", day: "numeric" }, time),
  };
  for (const style of styles) glues[`s${style}`] = glue({ dateStyle: style }, { timeStyle: "short" });
  return { tables, patterns, glues };
};

const lists = (locale) => Object.fromEntries(["conjunction", "disjunction", "unit"].flatMap((type) => ["long", "narrow"].map((style) => {
  const format = new Intl.ListFormat(locale, { type, style });
  const literals = (items) => format.formatToParts(items).filter((part) => part.type === "literal").map(({ value }) => value);
  const [first, second, last] = literals(["a", "b", "c", "d"]);
  return [`${type} ${style}`, [literals(["a", "b"])[0], first, second, last].map((literal) => literal ?? "")];
})));

const FROM = Date.UTC(2000, 0, 1) / 60_000;
const TO = Date.UTC(2038, 0, 1) / 60_000;

/** The offset of a zone in minutes, at a minute since 1970. */
const offsets = (zone) => {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric",
  });
  return (minute) => {
    const parts = Object.fromEntries(format.formatToParts(new Date(minute * 60_000)).map(({ type, value }) => [type, Number(value)]));
    return Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute) / 60_000 - minute;
  };
};

/** `offset minute offset minute offset …`, minutes since 2000, in base 36. */
const transitions = (zone) => {
  const at = offsets(zone);
  const STEP = 5 * 24 * 60;
  const found = [at(FROM).toString(36)];
  for (let minute = FROM, before = at(FROM); minute < TO; ) {
    const next = Math.min(minute + STEP, TO);
    const after = at(next);
    if (after === before) {
      minute = next;
      continue;
    }
    let [low, high] = [minute, next];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (at(middle) === before) low = middle;
      else high = middle;
    }
    before = at(high);
    found.push((high - FROM).toString(36), before.toString(36));
    minute = high;
  }
  return found.join(" ");
};

const zones = () => {
  const byRule = new Map();
  for (const zone of Intl.supportedValuesOf("timeZone")) {
    const rule = transitions(zone);
    byRule.set(rule, [...(byRule.get(rule) ?? []), zone]);
  }
  // Other names that programs use.
  const also = { "Asia/Calcutta": "Asia/Kolkata", "Asia/Saigon": "Asia/Ho_Chi_Minh", "Europe/Kiev": "Europe/Kyiv", "Asia/Katmandu": "Asia/Kathmandu", "America/Buenos_Aires": "America/Argentina/Buenos_Aires" };
  return [...byRule].map(([rule, names]) => {
    const all = new Set(names.flatMap((name) => [name, ...Object.entries(also).filter((pair) => pair.includes(name)).flat()]));
    return [[...all].join(" "), rule];
  });
};

const data = { locales: Object.fromEntries(LOCALES.map((locale) => [locale, { ...numbers(locale), ...dates(locale), lists: lists(locale) }])) };
data.currencies = CURRENCIES.join(" ");
data.zones = zones();
data.icu = process.versions.icu;
process.stdout.write(`${JSON.stringify(data)}\n`);
