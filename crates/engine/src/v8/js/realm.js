// Makes the program's realm like that of QuickJS: the same globals, the same texts of dates and numbers, the same form of
// `stack`. Everything that only V8 has is removed, so that a program behaves alike on both and can migrate.
(function (encode) {
  const { apply, construct, get, ownKeys, getPrototypeOf, setPrototypeOf } = Reflect;
  const { defineProperty, create } = Object;
  const put = (object, key, value) =>
    defineProperty(object, key, { __proto__: null, value, writable: true, enumerable: false, configurable: true });

  const KEPT = {
    __proto__: null, Object, Function, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError,
    AggregateError, SuppressedError, Iterator, Array, parseInt, parseFloat, isNaN, isFinite, decodeURI,
    decodeURIComponent, encodeURI, encodeURIComponent, escape, unescape, Infinity, NaN, undefined, eval, Number, Boolean,
    String, Math, Reflect, Symbol, DisposableStack, globalThis, BigInt, Date, RegExp, JSON, Proxy, Map, Set, WeakMap,
    WeakSet, ArrayBuffer, Uint8ClampedArray, Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array,
    BigInt64Array, BigUint64Array, Float16Array, Float32Array, Float64Array, DataView, Promise, AsyncDisposableStack,
    WeakRef, FinalizationRegistry,
  };
  const names = ownKeys(globalThis);
  for (let at = 0; at < names.length; at++) if (!(names[at] in KEPT)) delete globalThis[names[at]];
  put(globalThis, Symbol.toStringTag, "global");

  // `stack` without the message, and without the stack frames outside the program.
  const place = (site) => {
    const file = site.getFileName();
    if (file === "script") {
      const line = site.getLineNumber();
      const column = site.getColumnNumber() - (line === 1 ? STRICT : 0);
      return `script:${line}:${inBytes(line, column + newBefore(line, column))}`;
    }
    if (site.isEval()) return "<input>";
    return site.isNative() || typeof file !== "string" ? "native" : null;
  };
  const STRICT = '"use strict";'.length;
  // QuickJS reports the position of the constructor's name for `new`.
  let lines = [];
  const { indexOf, slice, split, startsWith } = String.prototype;
  // Columns count bytes in QuickJS and UTF-16 code units here.
  const inBytes = (line, column) => {
    const text = lines[line - 1];
    return text === undefined ? column : encode(apply(slice, text, [0, column - 1])).length + 1;
  };
  const remember = (code) => { lines = apply(split, code, ["\n"]); };
  const newBefore = (line, column) => {
    const text = lines[line - 1];
    return text !== undefined && apply(startsWith, text, ["new ", column - 1]) ? 4 : 0;
  };
  const trace = (_, sites) => {
    let text = "";
    for (let at = 0; at < sites.length; at++) {
      const where = place(sites[at]);
      if (where !== null) text += `    at ${sites[at].getFunctionName() ?? "<anonymous>"} (${where})\n`;
    }
    return text;
  };
  defineProperty(Error, "prepareStackTrace", { __proto__: null, get: () => trace, set() {}, enumerable: false, configurable: false });

  // Texts compare by code point and have letters of no locale; what depends on one is the prelude's.
  const { normalize, toLowerCase, toUpperCase, codePointAt } = String.prototype;
  const none = [];
  const compare = (a, b) => {
    for (let at = 0; at < a.length && at < b.length; at++) {
      const x = apply(codePointAt, a, [at]);
      const y = apply(codePointAt, b, [at]);
      if (x !== y) return x < y ? -1 : 1;
      if (x > 0xffff) at++;
    }
    return a.length === b.length ? 0 : a.length < b.length ? -1 : 1;
  };
  const text = (value) => {
    if (value === null || value === undefined) throw new TypeError("cannot convert null or undefined to a string");
    return `${value}`;
  };
  const strings = {
    localeCompare(other) { return compare(apply(normalize, text(this), none), apply(normalize, `${other}`, none)); },
    toLocaleLowerCase() { return apply(toLowerCase, text(this), none); },
    toLocaleUpperCase() { return apply(toUpperCase, text(this), none); },
  };
  for (const key of ["localeCompare", "toLocaleLowerCase", "toLocaleUpperCase"]) put(String.prototype, key, strings[key]);
  const { toString: dateText, toTimeString: timeText } = Date.prototype;
  const withoutZone = (whole) => {
    const at = apply(indexOf, whole, [" ("]);
    return at < 0 ? whole : apply(slice, whole, [0, at]);
  };
  const dates = {
    toString() { return withoutZone(apply(dateText, this, none)); },
    toTimeString() { return withoutZone(apply(timeText, this, none)); },
  };
  for (const key of ["toString", "toTimeString"]) {
    put(Date.prototype, key, dates[key]);
  }

  class InternalError extends Error {}
  put(InternalError.prototype, "name", "InternalError");
  put(globalThis, "InternalError", InternalError);

  const CODES = { __proto__: null, InvalidCharacterError: 5, DataCloneError: 25 };
  class DOMException extends Error {
    #name;
    #message;
    constructor(message = "", name = "Error") {
      super();
      this.#message = `${message}`;
      this.#name = `${name}`;
    }
    get name() { return this.#name; }
    get message() { return this.#message; }
    get code() { return CODES[this.#name] ?? 0; }
  }
  put(globalThis, "DOMException", DOMException);

  const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const { charCodeAt } = String.prototype;
  const { fromCharCode } = String;
  const unit = (string, at) => apply(charCodeAt, string, [at]);
  const refuse = (message) => { throw new DOMException(message, "InvalidCharacterError"); };
  const base64 = {
    btoa(data) {
      const whole = `${data}`;
      let out = "";
      for (let at = 0; at < whole.length; at += 3) {
        const bytes = [unit(whole, at), unit(whole, at + 1), unit(whole, at + 2)];
        if (bytes[0] > 255 || bytes[1] > 255 || bytes[2] > 255) refuse("String contains an invalid character");
        const bits = (bytes[0] << 16) | (bytes[1] << 8) | bytes[2];
        out += ALPHABET[bits >> 18] + ALPHABET[(bits >> 12) & 63]
          + (at + 1 < whole.length ? ALPHABET[(bits >> 6) & 63] : "=") + (at + 2 < whole.length ? ALPHABET[bits & 63] : "=");
      }
      return out;
    },
    atob(data) {
      let digits = "";
      const whole = `${data}`;
      for (let at = 0; at < whole.length; at++) {
        const c = whole[at];
        if (c !== " " && c !== "\t" && c !== "\n" && c !== "\f" && c !== "\r") digits += c;
      }
      if (digits.length % 4 === 0) {
        if (digits[digits.length - 1] === "=") digits = apply(slice, digits, [0, -1]);
        if (digits.length % 4 === 3 && digits[digits.length - 1] === "=") digits = apply(slice, digits, [0, -1]);
      }
      if (digits.length % 4 === 1) refuse("The string to be decoded is not correctly encoded");
      let out = "";
      let bits = 0;
      for (let at = 0; at < digits.length; at++) {
        const value = apply(indexOf, ALPHABET, [digits[at]]);
        if (value < 0) refuse("The string to be decoded is not correctly encoded");
        bits = ((bits << 6) | value) & 0xffffff;
        if (at % 4 !== 0) out += fromCharCode((bits >> (6 - 2 * (at % 4))) & 255);
      }
      return out;
    },
  };
  put(globalThis, "btoa", base64.btoa);
  put(globalThis, "atob", base64.atob);

  // An error in a job is ignored, as on QuickJS.
  const { then } = Promise.prototype;
  const done = Promise.resolve();
  const forget = () => {};
  put(globalThis, "queueMicrotask", {
    queueMicrotask(job) {
      if (typeof job !== "function") throw new TypeError("queueMicrotask needs a function to call");
      apply(then, apply(then, done, [() => { job(); }]), [undefined, forget]);
    },
  }.queueMicrotask);

  // Global names that are resolved when they are first used.
  const resolveGlobals = (resolve) => {
    const above = getPrototypeOf(globalThis);
    const known = (key) => (typeof key === "string" ? resolve(key) : undefined);
    setPrototypeOf(globalThis, new Proxy(create(above), {
      __proto__: null,
      has: (target, key) => known(key) !== undefined || key in target,
      get: (target, key, receiver) => known(key) ?? get(target, key, receiver),
      getOwnPropertyDescriptor: (_, key) => {
        const value = known(key);
        return value === undefined ? undefined : { value, writable: true, enumerable: true, configurable: true };
      },
    }));
  };
  // Buffers are outside the heap that V8 bounds, and long texts are allocated at once. Both are metered before they are allocated,
  // small ones together. A length beyond V8's own maximum throws by itself.
  //
  // A size is converted to a number here, once, and V8 gets that number: an object whose second conversion gives another number
  // cannot allocate more than was metered.
  const LARGE = 64 * 1024;
  const LONGEST = 0x7fffffff;
  /** @type {any} */
  const Typed = getPrototypeOf(Uint8Array);
  const TYPED_ARRAYS = ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
    "BigInt64Array", "BigUint64Array", "Float16Array", "Float32Array", "Float64Array"];
  const getterOf = (prototype, name) => {
    const { get: getter } = Reflect.getOwnPropertyDescriptor(prototype, name);
    return (object) => apply(getter, object, none);
  };
  const typedName = getterOf(Typed.prototype, Symbol.toStringTag);
  const typedLength = getterOf(Typed.prototype, "length");
  const typedBytes = getterOf(Typed.prototype, "byteLength");
  const bufferBytes = getterOf(ArrayBuffer.prototype, "byteLength");
  const isBuffer = (value) => {
    try {
      bufferBytes(value);
      return true;
    } catch {
      return false;
    }
  };
  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";
  // The length of an array-like object, as ToLength of the standard defines it.
  const { floor, min } = Math;
  const toLength = (claimed) => {
    const number = floor(+claimed);
    return number > 0 ? min(number, Number_MAX_SAFE) : 0;
  };
  const Number_MAX_SAFE = Number.MAX_SAFE_INTEGER;

  const meterMemory = (admit) => {
    let small = 0;
    const ask = (bytes) => {
      if (!(bytes > 0 && bytes <= LONGEST)) return;
      small += bytes;
      if (small < LARGE) return;
      small = 0;
      admit(bytes);
    };
    const replace = (owner, name, make) => {
      const plain = owner[name];
      if (typeof plain !== "function") return;
      const metered = make(plain);
      defineProperty(metered, "length", { __proto__: null, value: plain.length, configurable: true });
      put(owner, name, metered);
    };

    // Texts. `this` is converted to a string first, as the standard requires.
    const meterText = (name, bytesOf) => replace(String.prototype, name, (plain) => ({
      [name](...given) {
        const own = text(this);
        given[0] = +given[0];
        ask(bytesOf(own, given[0]));
        return apply(plain, own, given);
      },
    })[name]);
    meterText("repeat", (own, count) => own.length * count);
    meterText("padStart", (_, length) => length);
    meterText("padEnd", (_, length) => length);

    // Buffers that change their size.
    for (const name of ["resize", "transfer", "transferToFixedLength"]) {
      replace(ArrayBuffer.prototype, name, (plain) => ({
        [name](...given) {
          const before = bufferBytes(this);
          if (given[0] !== undefined) ask((given[0] = +given[0]));
          else if (name !== "resize") ask(before);
          return apply(plain, this, given);
        },
      })[name]);
    }
    // The result of these is at most as large as the object they are called on.
    const meterCopy = (prototype, names, bytesOf) => {
      for (const name of names) {
        replace(prototype, name, (plain) => ({
          [name](...given) {
            ask(bytesOf(this));
            return apply(plain, this, given);
          },
        })[name]);
      }
    };
    meterCopy(ArrayBuffer.prototype, ["slice"], bufferBytes);
    meterCopy(Typed.prototype, ["slice", "map", "filter", "toReversed", "toSorted", "with"], typedBytes);
    for (const name of ["fromBase64", "fromHex"]) {
      replace(Uint8Array, name, (plain) => ({
        [name](...given) {
          if (typeof given[0] === "string") ask(given[0].length);
          return apply(plain, this, given);
        },
      })[name]);
    }

    const meter = (name, make) => {
      const Plain = globalThis[name];
      const Metered = new Proxy(Plain, {
        __proto__: null,
        construct: (target, given, newTarget) => make(target, given, newTarget === Metered ? target : newTarget),
      });
      put(globalThis, name, Metered);
      put(Plain.prototype, "constructor", Metered);
    };
    meter("ArrayBuffer", (target, given, newTarget) => {
      const length = +given[0];
      ask(length);
      const most = isObject(given[1]) ? given[1].maxByteLength : undefined;
      // Memory that is only reserved is metered by `resize`, when it is used.
      const options = most === undefined ? undefined : { __proto__: null, maxByteLength: +most };
      return construct(target, [length, options], newTarget);
    });

    // An array-like object is read here item by item: V8 would allocate for its claimed length.
    const fill = (target, newTarget, size, length, itemAt) => {
      ask(length * size);
      const made = construct(target, [length], newTarget);
      for (let at = 0; at < length; at++) made[at] = itemAt(at);
      return made;
    };
    const listOf = (iterable, iterate) => {
      const items = { __proto__: null, length: 0 };
      const steps = apply(iterate, iterable, none);
      if (!isObject(steps)) throw new TypeError("the iterator is not an object");
      const { next } = steps;
      for (;;) {
        const step = apply(next, steps, none);
        if (!isObject(step)) throw new TypeError("the iterator's result is not an object");
        if (step.done) return items;
        items[items.length++] = step.value;
      }
    };
    for (const name of TYPED_ARRAYS) {
      const size = globalThis[name].BYTES_PER_ELEMENT;
      meter(name, (target, given, newTarget) => {
        const of = given[0];
        if (!isObject(of)) {
          const length = +of;
          ask(length * size);
          return construct(target, [length], newTarget);
        }
        if (isBuffer(of)) return construct(target, given, newTarget);
        if (typedName(of) !== undefined) {
          ask(typedLength(of) * size);
          return construct(target, given, newTarget);
        }
        const iterate = of[Symbol.iterator];
        if (iterate !== undefined && iterate !== null) {
          const items = listOf(of, iterate);
          return fill(target, newTarget, size, items.length, (at) => items[at]);
        }
        return fill(target, newTarget, size, toLength(of.length), (at) => of[at]);
      });
    }
    return ask;
  };

  return { resolveGlobals, remember, meterMemory };
})
