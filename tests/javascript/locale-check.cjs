// Compares the locale support of the sandbox with this node's own: every answer is the same, or an error that says that there is
// none. `node tests/javascript/locale-check.cjs`
"use strict";

const fs = require("node:fs");
const path = require("node:path");

const prelude = path.join(__dirname, "../../crates/guest/src/prelude");
const data = JSON.parse(fs.readFileSync(path.join(prelude, "locale_data.json"), "utf8"));
const methods = (object, extra) => {
  for (const key of Object.keys(extra)) Object.defineProperty(object, key, { value: extra[key], writable: true, configurable: true });
  return object;
};
const p = {
  create: Object.create, defineProperty: Object.defineProperty, keys: Object.keys, slice: (text, from, to) => text.slice(from, to),
};
const locale = (0, eval)(fs.readFileSync(path.join(prelude, "locale.js"), "utf8"))({ p, methods }, data);

const counts = { same: 0, refused: 0, different: 0 };
// ICU writes a narrow space before AM and PM, browsers and the sandbox a plain one.
const plain = (text) => text.replaceAll("\u202f", " ");
const check = (what, ours, theirs) => {
  let answer;
  try {
    answer = ours();
  } catch (error) {
    if (!/is not supported in the sandbox/.test(error.message)) throw new Error(`${what}: ${error.stack}`);
    counts.refused += 1;
    return;
  }
  const expected = theirs();
  // French and others group with the narrow space too, where it is theirs.
  if (answer === expected || plain(answer) === plain(expected)) counts.same += 1;
  else {
    counts.different += 1;
    if (counts.different <= 40) console.error(`${what}: ${JSON.stringify(answer)} instead of ${JSON.stringify(expected)}`);
  }
};

const NUMBERS = [0, -0, 1, -1, 5.5, 1234, -1234.5, 9999.9999, 12345.678, 1234567.891, -98765432.1, 1.005, 0.000001234, 1e21, 1e-9, 0.5, 999999.9995, NaN, Infinity, -Infinity, 123456789012345678n, -5n];
const NUMBER_OPTIONS = [
  {}, { maximumFractionDigits: 0 }, { maximumFractionDigits: 1 }, { minimumFractionDigits: 2 }, { minimumFractionDigits: 2, maximumFractionDigits: 2 },
  { useGrouping: false }, { useGrouping: true }, { minimumIntegerDigits: 4 }, { maximumSignificantDigits: 3 }, { minimumSignificantDigits: 4 },
  { style: "percent" }, { style: "percent", maximumFractionDigits: 1 }, { signDisplay: "always" }, { signDisplay: "exceptZero" }, { signDisplay: "never" },
  ...data.currencies.split(" ").map((currency) => ({ style: "currency", currency })),
  { style: "currency", currency: "EUR", currencyDisplay: "code" }, { style: "currency", currency: "USD", maximumFractionDigits: 0 },
  { style: "currency", currency: "GBP", signDisplay: "always" },
];
for (const tag of [undefined, ...Object.keys(data.locales), "en", "de", "fr", "es", "pt", "zh", "ja"]) {
  for (const options of NUMBER_OPTIONS) for (const number of NUMBERS) {
    const what = `${typeof number === "bigint" ? `${number}n` : Object.is(number, -0) ? "-0" : number} ${tag} ${JSON.stringify(options)}`;
    check(what, () => locale.number(number, tag, options), () => number.toLocaleString(tag ?? "en-US", options));
  }
}

const DATES = [Date.UTC(2024, 1, 29, 0, 5, 9), Date.UTC(2023, 6, 4, 12, 0, 0), Date.UTC(2001, 8, 9, 23, 59, 59), Date.UTC(2025, 0, 1, 3, 30, 0), Date.UTC(2030, 11, 31, 15, 4, 5)];
const DATE_OPTIONS = [
  undefined, { month: "long", day: "numeric", year: "numeric" }, { weekday: "long", year: "numeric", month: "long", day: "numeric" },
  { month: "short", day: "numeric" }, { year: "numeric", month: "2-digit", day: "2-digit" }, { month: "long", year: "numeric" }, { weekday: "short" },
  { weekday: "long" }, { month: "long" }, { year: "2-digit", month: "numeric", day: "numeric" }, { weekday: "short", month: "short", day: "numeric" },
  { dateStyle: "full" }, { dateStyle: "long" }, { dateStyle: "medium" }, { dateStyle: "short" }, { day: "2-digit" }, { year: "numeric" },
];
const TIME_OPTIONS = [
  undefined, { weekday: "long", hour: "numeric" }, { hour: "2-digit", minute: "2-digit" }, { hour: "numeric", minute: "2-digit", hourCycle: "h12" }, { timeStyle: "short" }, { timeStyle: "medium" },
  { hour: "numeric" }, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
];
const BOTH_OPTIONS = [
  undefined, { dateStyle: "medium", timeStyle: "short" }, { dateStyle: "long", timeStyle: "short" }, { dateStyle: "short", timeStyle: "medium" },
  { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }, { year: "numeric", month: "long", day: "numeric", hour: "numeric", minute: "2-digit" },
  { month: "numeric", day: "numeric", hour: "numeric", minute: "2-digit" }, { weekday: "short", hour: "2-digit", minute: "2-digit" },
  { weekday: "long", year: "numeric", month: "long", day: "numeric", hour: "numeric", minute: "2-digit" }, { year: "numeric", hour: "numeric" },
  { weekday: "short", day: "numeric", hour: "numeric", minute: "2-digit" },
];
const ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Sydney", "America/Sao_Paulo", "Asia/Tokyo"];
for (const tag of Object.keys(data.locales)) for (const time of DATES) for (const timeZone of ZONES) {
  const date = new Date(time);
  const kinds = [["date", "date", "toLocaleDateString", DATE_OPTIONS], ["time", "time", "toLocaleTimeString", TIME_OPTIONS], ["any", "all", "toLocaleString", BOTH_OPTIONS]];
  for (const [required, defaults, method, all] of kinds) for (const given of all) {
    const options = { timeZone, ...given };
    const what = `${date.toISOString()}.${method}(${tag}, ${JSON.stringify(options)})`;
    check(what, () => locale.date(time, tag, options, required, defaults), () => date[method](tag, options));
    if (required === "any") {
      check(`Intl ${what}`, () => new locale.Intl.DateTimeFormat(tag, options).format(date), () => new Intl.DateTimeFormat(tag, options).format(date));
      const parts = (all) => JSON.stringify(all.formatToParts(date));
      check(`parts ${what}`, () => parts(new locale.Intl.DateTimeFormat(tag, options)), () => parts(new Intl.DateTimeFormat(tag, options)));
    }
  }
}
for (const zone of Intl.supportedValuesOf("timeZone")) for (let time = Date.UTC(2000, 0, 1, 5); time < Date.UTC(2038, 0, 1); time += 41 * 86_400_000) {
  const options = { timeZone: zone };
  check(`${zone} ${time}`, () => locale.date(time, "sv-SE", options, "any", "all"), () => new Date(time).toLocaleString("sv-SE", options));
}

for (const tag of Object.keys(data.locales)) for (const type of ["conjunction", "disjunction", "unit"]) for (const style of ["long", "narrow"]) {
  for (const list of [[], ["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d", "e"], ["uva", "igloo"], ["a", "Hijo"], ["a", "hielo"], ["a", "b", "hi"], ["a", "oso"], ["a", "b", "Hotel"], ["7", "8"], ["10", "11"], ["1", "110"]]) {
    check(`${tag} ${type} ${style} ${list}`, () => locale.Intl.ListFormat(tag, { type, style }).format(list), () => new Intl.ListFormat(tag, { type, style }).format(list));
  }
}

const WORDS = [
  "a", "B", "ä", "Z", "item 10", "item 9", "item10", "item2", "résumé", "resume", "Resume", "", "1", "10", "2", "_x", "-y", "Zebra", "apple", "Äpfel", "z",
  "Strauß", "Straße", "Strasse", "Stratz", "ß", "ss", "ẞ", "Łódź", "Lodz", "Lublin", "Ørsted", "Orsted", "Oslo", "œuf", "oeuf", "of", "Ægir", "Aegir", "afar", "åre", "äre", "are", "ıgdır", "igdir", "jota",
  "Đuro", "Duro", "þing", "ðe", "de", "don't", "don’t", "dont", "“a”", "«a»", "a – b", "a - b", "10 €", "10 $", "ñ", "n", "o", "č", "ç", "c", "ё", "е", "ж", "й", "и", "ї", "і", "Ґ", "г", "σ", "ς", "ω", "中", "文", "あ", "한", "🚀", "007", "7", "ŧ", "ƀ",
];
for (const tag of ["en-US", "de-DE", "fr-FR", "nl-NL"]) for (const options of [{}, { numeric: true }, { sensitivity: "base" }, { sensitivity: "accent", numeric: true }]) for (const a of WORDS) for (const b of WORDS) {
  const sign = (number) => `${Math.sign(number)}`;
  check(`compare ${a} ${b} ${tag} ${JSON.stringify(options)}`, () => sign(locale.compare(a, b, tag, options)), () => sign(a.localeCompare(b, tag, options)));
}
// Every pair of letters that are used in Latin, Greek and Cyrillic text.
const LETTERS = [];
for (const [from, to] of [[0x20, 0x7f], [0xa1, 0x180], [0x386, 0x3cf], [0x400, 0x460]]) for (let at = from; at < to; at++) LETTERS.push(String.fromCodePoint(at));
for (const a of LETTERS) for (const b of LETTERS) {
  const sign = (number) => `${Math.sign(number)}`;
  check(`compare ${a} ${b}`, () => sign(locale.compare(a, b, "en", {})), () => sign(a.localeCompare(b, "en")));
}
check("localeMatcher", () => locale.number(1, "en", { localeMatcher: "bad" }), () => "an error");

console.log(`locale: ${counts.same} the same, ${counts.refused} refused, ${counts.different} different`);
// Another ICU has other words here and there.
const isComparable = process.versions.icu === data.icu;
if (!isComparable) console.log(`locale: this node has ICU ${process.versions.icu}, the data is of ${data.icu}`);
if ((isComparable && counts.different > 0) || counts.same < 10_000) process.exit(1);
