// The small part of the web platform that programs over data expect.
(function ({ native, p, methods }) {
  // Where the bytes of a view are, by the getters of the built-ins: a program may define properties of the same names.
  const Bytes = Uint8Array;
  const { isView } = ArrayBuffer;
  const typedArray = p.prototypeOf(Bytes.prototype);
  const setBytes = p.uncurry(typedArray.set);
  const getters = (prototype) => {
    const getter = (name) => p.uncurry(p.descriptor(prototype, name).get);
    return { buffer: getter("buffer"), offset: getter("byteOffset"), length: getter("byteLength") };
  };
  const ofTypedArray = getters(typedArray);
  const ofDataView = getters(DataView.prototype);
  const typedArrayName = p.uncurry(p.descriptor(typedArray, Symbol.toStringTag).get);
  const bytesOfView = (view) => {
    const { buffer, offset, length } = typedArrayName(view) === undefined ? ofDataView : ofTypedArray;
    return new Bytes(buffer(view), offset(view), length(view));
  };
  const byteLength = ofTypedArray.length;
  const bufferLength = p.uncurry(p.descriptor(ArrayBuffer.prototype, "byteLength").get);
  // The getter throws for everything but a buffer; of a list or a number the constructor would make bytes.
  const bytesOfBuffer = (buffer) => new Bytes(buffer, 0, bufferLength(buffer));

  class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return native.encodeUtf8(p.toWellFormed(`${text}`)); }
    encodeInto(text, target) {
      const whole = p.toWellFormed(`${text}`);
      if (typedArrayName(target) !== "Uint8Array") throw new p.TypeError("encodeInto needs a Uint8Array to write to");
      const room = byteLength(target);
      let [read, written] = [0, 0];
      for (const char of whole) {
        const bytes = native.encodeUtf8(char);
        const length = byteLength(bytes);
        if (written + length > room) break;
        setBytes(target, bytes, written);
        written += length;
        read += char.length;
      }
      return { read, written };
    }
  }

  class TextDecoder {
    #fatal;
    #ignoreBom;
    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      const name = `${label}`.trim().toLowerCase();
      if (name !== "utf-8" && name !== "utf8") {
        throw new p.RangeError(`TextDecoder knows utf-8 only, not ${p.slice(name, 0, 40)}`);
      }
      this.#fatal = !!fatal;
      this.#ignoreBom = !!ignoreBOM;
    }
    get encoding() { return "utf-8"; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBom; }
    decode(input = new Bytes(0)) {
      const view = isView(input) ? bytesOfView(input) : bytesOfBuffer(input);
      const text = native.decodeUtf8(view, this.#fatal);
      if (text === undefined) throw new p.TypeError("the bytes are not valid UTF-8");
      return !this.#ignoreBom && p.charCodeAt(text, 0) === 0xfeff ? p.slice(text, 1) : text;
    }
  }

  // The list of pairs behind a query string; tells its URL, if it has one, when it changes.
  class URLSearchParams {
    #pairs = [];
    #changed = null;
    /** @param {any} init */
    constructor(init = "") {
      if (typeof init === "object" && init !== null) {
        if (typeof init[Symbol.iterator] === "function") {
          for (const pair of init) {
            const [name, value, ...more] = pair;
            if (value === undefined || more.length > 0) throw new p.TypeError("each pair must be [name, value]");
            p.push(this.#pairs, [`${name}`, `${value}`]);
          }
        } else {
          for (const key of p.keys(init)) p.push(this.#pairs, [key, `${init[key]}`]);
        }
      } else {
        this.#parse(`${init}`);
      }
    }
    static bind(params, changed) { params.#changed = changed; return params; }
    static reload(params, query) { params.#pairs = []; params.#parse(query); }
    #parse(query) {
      const pairs = native.parseQuery(p.toWellFormed(p.charCodeAt(query, 0) === 63 ? p.slice(query, 1) : query));
      this.#pairs = p.parseJson(pairs);
    }
    #notify() { if (this.#changed !== null) this.#changed(this.toString()); }
    get size() { return this.#pairs.length; }
    append(name, value) { p.push(this.#pairs, [`${name}`, `${value}`]); this.#notify(); }
    delete(name, value) {
      this.#pairs = this.#pairs.filter(([n, v]) => n !== `${name}` || (value !== undefined && v !== `${value}`));
      this.#notify();
    }
    get(name) { return this.#pairs.find(([n]) => n === `${name}`)?.[1] ?? null; }
    getAll(name) { return this.#pairs.filter(([n]) => n === `${name}`).map(([, v]) => v); }
    has(name, value) {
      return this.#pairs.some(([n, v]) => n === `${name}` && (value === undefined || v === `${value}`));
    }
    set(name, value) {
      const at = this.#pairs.findIndex(([n]) => n === `${name}`);
      if (at < 0) return this.append(name, value);
      this.#pairs = this.#pairs.filter(([n], i) => i <= at || n !== `${name}`);
      this.#pairs[at][1] = `${value}`;
      this.#notify();
    }
    sort() { this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); this.#notify(); }
    forEach(callback, self) { for (const [n, v] of this) p.apply(callback, self, [v, n, this]); }
    *entries() { for (const [n, v] of this.#pairs) yield [n, v]; }
    *keys() { for (const [n] of this.#pairs) yield n; }
    *values() { for (const [, v] of this.#pairs) yield v; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return native.writeQuery(native.stringify(this.#pairs)); }
    get [Symbol.toStringTag]() { return "URLSearchParams"; }
  }
  const bindParams = URLSearchParams.bind;
  const reloadParams = URLSearchParams.reload;
  delete URLSearchParams.bind;
  delete URLSearchParams.reload;

  const parts = ["href", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];

  class URL {
    #parts;
    #params = null;
    constructor(input, base) {
      const found = native.parseUrl(p.toWellFormed(`${input}`), base === undefined ? null : p.toWellFormed(`${base}`));
      if (found === undefined) throw new p.TypeError(`Invalid URL: ${p.slice(`${input}`, 0, 200)}`);
      this.#parts = p.parseJson(found);
    }
    static canParse(input, base) {
      return native.parseUrl(p.toWellFormed(`${input}`), base === undefined ? null : p.toWellFormed(`${base}`)) !== undefined;
    }
    static parse(input, base) { return URL.canParse(input, base) ? new URL(input, base) : null; }
    static read(url, part) { return url.#parts[part]; }
    static write(url, part, value) {
      const found = native.setUrl(url.#parts.href, part, p.toWellFormed(`${value}`));
      if (found === undefined) {
        if (part === "href") throw new p.TypeError(`Invalid URL: ${p.slice(`${value}`, 0, 200)}`);
        return;
      }
      url.#parts = p.parseJson(found);
      if (url.#params !== null && (part === "href" || part === "search")) reloadParams(url.#params, url.#parts.search);
    }
    get origin() { return this.#parts.origin; }
    get searchParams() {
      if (this.#params === null) {
        this.#params = bindParams(new URLSearchParams(this.#parts.search), (query) => {
          this.#parts = p.parseJson(native.setUrl(this.#parts.href, "search", query));
        });
      }
      return this.#params;
    }
    toString() { return this.#parts.href; }
    toJSON() { return this.#parts.href; }
    get [Symbol.toStringTag]() { return "URL"; }
  }
  const { read, write } = URL;
  delete URL.read;
  delete URL.write;
  for (const part of parts) {
    p.defineProperty(URL.prototype, part, {
      get() { return read(this, part); },
      set(value) { write(this, part, value); },
      enumerable: true,
      configurable: true,
    });
  }

  const { MAX_RANDOM_BYTES } = native.constants.limits;
  const hex = (byte) => (byte < 16 ? "0" : "") + byte.toString(16);
  const crypto = methods({}, {
    getRandomValues(array) {
      if (!isView(array)) throw new p.TypeError("getRandomValues needs a typed array to fill");
      const bytes = bytesOfView(array);
      const length = byteLength(bytes);
      if (length > MAX_RANDOM_BYTES) throw new p.RangeError("getRandomValues fills at most 65,536 bytes");
      setBytes(bytes, native.randomBytes(length));
      return array;
    },
    randomUUID() {
      const bytes = native.randomBytes(16);
      bytes[6] = (bytes[6] & 15) | 64;
      bytes[8] = (bytes[8] & 63) | 128;
      let text = "";
      for (let i = 0; i < 16; i++) text += (i === 4 || i === 6 || i === 8 || i === 10 ? "-" : "") + hex(bytes[i]);
      return text;
    },
  });

  return { web: { TextEncoder, TextDecoder, URL, URLSearchParams, crypto } };
})
