// @ts-check
// Longwire: one WebSocket, alive and lossless. This is the part that every tab
// runs. It owns what must survive the connection: positions, unsettled messages,
// subscriptions and callbacks. The hub (Go, as wasm) owns the connection; the two
// speak the frames of docs/PROTOCOL.md. Types and documentation: types.d.ts.

// The build replaces this line.
const BUILD = { version: 'dev', wasm: './longwire.wasm', exec: './wasm_exec.js' };

/** @import * as Types from './types.d.ts' */
/** @typedef {{ version: string, open(options: object, deliver: (text: string) => void): Hub | string, ended: Promise<void> }} HubModule */
/** @typedef {{ frame(text: string): void, close(): void }} Hub */
/** @typedef {{ seq: number, epoch: string }} Position */
/** @typedef {Types.StreamStatus['state']} Mode */
/** @typedef {Record<string, any> & { t: string }} Frame */

export const version = BUILD.version;

/** @type {typeof Types.LongwireError} */
export const LongwireError = class extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ outcome?: Types.Outcome, cause?: unknown }} [more]
   */
  constructor(code, message, more = {}) {
    super(`longwire: ${message}`, { cause: more.cause });
    this.name = 'LongwireError';
    this.code = code;
    /** @type {Types.Outcome | null} */
    this.outcome = more.outcome ?? null;
  }
};

// ---- Loading the hub: once per page, whatever the number of connections. ----

/** @type {Promise<HubModule> | undefined} */
let loading;

/** @returns {Promise<HubModule>} */
const load = () => {
  loading ??= start().catch((cause) => {
    loading = undefined; // so that the next call tries again
    throw new LongwireError('load failed', `the wasm cannot be loaded: ${textOf(cause)}`, {
      cause,
    });
  });
  return loading;
};

/** @returns {Promise<HubModule>} */
const start = async () => {
  const here = import.meta.url;
  const wasm = new URL(BUILD.wasm, here).href;
  const [response] = await Promise.all([fetch(wasm), script(new URL(BUILD.exec, here).href)]);
  if (!response.ok) throw new Error(`${wasm} was answered with ${response.status}`);
  const page = /** @type {any} */ (globalThis);
  const go = new page.Go();
  // Streaming compiles during the download, but insists on the right type.
  const streams = response.headers.get('Content-Type')?.startsWith('application/wasm');
  const { instance } = streams
    ? await WebAssembly.instantiateStreaming(response, go.importObject)
    : await WebAssembly.instantiate(await response.arrayBuffer(), go.importObject);
  /** @type {HubModule | undefined} */
  let hub;
  page.longwireReady = (/** @type {HubModule} */ exports) => {
    hub = exports;
  };
  // Calls longwireReady before it returns; rejects when this is not a Go program.
  const ended = go.run(instance).catch(() => {});
  delete page.longwireReady;
  if (!hub) throw new Error(`${wasm} is not a Longwire hub`);
  if (hub.version !== BUILD.version) {
    throw new Error(
      `the shim is version ${BUILD.version}, the wasm ${hub.version}: deploy both together`,
    );
  }
  return { ...hub, ended };
};

/** @param {string} src */
const script = (src) => {
  const element = document.createElement('script');
  return new Promise((resolve, reject) => {
    element.onload = resolve;
    element.onerror = () => reject(new Error(`${src} did not load`));
    element.src = src;
    document.head.append(element);
  }).finally(() => element.remove());
};

// ---- Small helpers. ----

/** @param {unknown} error */
const textOf = (error) => {
  try {
    const { message } = /** @type {Error} */ (error ?? {});
    return String(message ?? error);
  } catch {
    return 'unprintable';
  }
};

const streamName = /^[\w.:/-]{1,128}$/;

/** 128 random bits: ids of messages are unique across tabs and reloads. */
const randomId = () => crypto.getRandomValues(new Uint32Array(4)).join('-');

/** @param {string | URL} url */
const socketURL = (url) => {
  if (typeof url !== 'string' && !(url instanceof URL))
    throw new Error(`url: ${typeof url} is not a string or URL`);
  const parsed = new URL(url, document.baseURI);
  parsed.protocol = parsed.protocol.replace(/^http/, 'ws');
  if (!/^wss?:$/.test(parsed.protocol))
    throw new Error(`url: ${parsed.protocol} is none of http, https, ws, wss`);
  if (parsed.hash || parsed.username || parsed.password)
    throw new Error('url: must hold no fragment and no credentials');
  return parsed.href;
};

const texts = ['identity', 'jitter', 'overflow'];
const numbers = (
  'baseMs capMs stableAfterMs urlTimeoutMs dialTimeoutMs welcomeTimeoutMs probeTimeoutMs ' +
  'idleTimeoutMs pingTimeoutMs ackTimeoutMs maxElapsedMs calmAfterMs expiryMs ' +
  'maxPending maxPendingBytes maxMessage maxAttempts'
).split(' ');

/**
 * Checks the options of connect and returns those that the hub wants.
 * @param {Types.Options} options
 */
const hubOptions = (options) => {
  /** @param {string} name @param {string} problem */
  const wrong = (name, problem) => {
    throw new TypeError(`longwire: option ${name}: ${problem}`);
  };
  if (!options || typeof options !== 'object')
    throw new TypeError('longwire: connect takes an object of options');
  /** @type {Record<string, unknown>} */
  const out = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (numbers.includes(name)) {
      if (typeof value !== 'number' || !(value > 0 && value < 2 ** 40))
        wrong(name, 'must be a positive number');
    } else if (texts.includes(name)) {
      if (typeof value !== 'string') wrong(name, 'must be a string');
    } else if (!['url', 'probe', 'closeCodes', 'dialect'].includes(name))
      wrong(name, 'there is no such option');
    out[name] = value;
  }
  const { url, probe } = options;
  try {
    if (typeof url !== 'function') socketURL(url);
  } catch (error) {
    wrong('url', textOf(error).replace(/^url: /, ''));
  }
  delete out.url;
  if (probe !== undefined) {
    try {
      out.probe = new URL(probe, document.baseURI).href;
    } catch {
      wrong('probe', 'is not a URL');
    }
  }
  return out;
};

// ---- One stream: the rules for positions. ----

class Stream {
  /** @type {Mode} */ mode = 'asking';
  /** @type {Position | null} */ pos;
  error = '';
  active = true;
  /** @type {Position | null} */ #asked = null;
  #lost = false; // a resync was told, and what follows is not here yet

  /**
   * @param {Connection} tab
   * @param {string} name
   * @param {Types.Handlers} handlers
   * @param {Position | null} from
   */
  constructor(tab, name, handlers, from) {
    this.tab = tab;
    this.name = name;
    this.handlers = handlers;
    this.pos = from;
  }

  /** What a resume or a sub says of this stream. */
  want() {
    // Beside a connection that drains, events may move the position on until the
    // answer comes: that is judged by what was asked.
    this.#asked = this.pos && { ...this.pos };
    return this.pos ? { after: this.pos.seq, epoch: this.pos.epoch } : {};
  }

  ask() {
    this.mode = 'asking';
    this.tab.post({ t: 'sub', stream: this.name || undefined, ...this.want() });
  }

  /** @param {keyof Types.Handlers} what @param {...any} args */
  #call(what, ...args) {
    try {
      /** @type {any} */ (this.handlers)[what]?.(...args);
    } catch (cause) {
      this.tab.problem(
        'handler',
        `the ${what} handler of stream "${this.name}" threw: ${textOf(cause)}`,
        cause,
      );
    }
  }

  /** @param {Frame} a what a welcome or a subbed says */
  answer(a) {
    if (a.error) {
      if (a.error === 'busy') return; // the hub asks again
      this.mode = 'refused';
      this.error = a.error;
      this.#call(
        'error',
        new LongwireError(a.error, `stream "${this.name}" is refused: ${a.error}`),
      );
    } else if (a.resync) {
      this.#lost ||= this.pos !== null;
      this.pos = null;
      this.mode = 'resyncing';
    } else if (!this.pos || !this.#asked) {
      this.pos ??= { seq: a.seq, epoch: a.epoch };
      this.mode = 'following';
    } else if (
      this.#asked.epoch === a.epoch &&
      a.first <= this.#asked.seq &&
      this.#asked.seq <= a.seq
    ) {
      this.mode = 'following';
      const missed = Math.max(0, a.seq - this.pos.seq);
      this.tab.count('resumed');
      this.tab.count('replayed', missed);
      this.#call('resumed', { stream: this.name, missed });
    } else {
      this.gap({ seq: a.seq, epoch: a.epoch, reason: 'not covered' });
    }
  }

  /** @param {number} from @param {unknown[]} data */
  events(from, data) {
    for (let i = 0; i < data.length; i++) {
      // A handler may have unsubscribed, or a hole may have been found.
      if (!this.active || this.mode !== 'following' || !this.pos) return;
      const seq = from + i;
      if (seq <= this.pos.seq) {
        this.tab.count('duplicates');
        continue;
      }
      if (seq > this.pos.seq + 1) {
        this.tab.problem(
          'hole',
          `stream "${this.name}": got ${seq} instead of ${this.pos.seq + 1}`,
        );
        this.ask();
        return;
      }
      this.#call('event', data[i], { stream: this.name, seq, epoch: this.pos.epoch });
      this.pos.seq = seq;
      this.tab.count('delivered');
    }
  }

  /** @param {Frame} f */
  snapshot(f) {
    if (this.mode !== 'resyncing') return; // meant for somebody else
    if (this.#lost) this.#said({ snapshot: true, reason: 'no longer there' });
    this.pos = { seq: f.seq, epoch: f.epoch };
    this.mode = 'following';
    this.tab.count('snapshots');
    this.#call('snapshot', f.state, { stream: this.name, ...this.pos });
  }

  /** @param {{ snapshot?: boolean, reason?: string }} gap */
  #said({ snapshot, reason }) {
    this.#lost = false;
    this.tab.count('gaps');
    this.#call('gap', { stream: this.name, snapshot: !!snapshot, reason: reason ?? '' });
  }

  /** @param {Record<string, any>} f a reset */
  gap(f) {
    this.pos = f.snapshot ? null : { seq: f.seq, epoch: f.epoch };
    this.mode = f.snapshot ? 'resyncing' : 'following';
    this.#said(f);
  }
}

// ---- One connection. ----

/** @implements {Types.Connection} */
class Connection {
  #url;
  #options;
  /** @type {Hub | undefined} */ #hub;
  #closed = false;
  #state = /** @type {Frame} */ ({
    t: 'hub',
    state: 'connecting',
    reason: 'loading the wasm',
    since: Date.now(),
  });
  /** @type {Map<string, Stream>} */ #streams = new Map();
  /** @type {Map<string, { frame: string, resolve(v: any): void, reject(e: Error): void }>} */ #pending =
    new Map();
  /** @type {Map<string, Set<(value: any) => void>>} */ #listeners = new Map();
  /** @type {Record<string, number>} */ #counts = {};
  /** @type {Types.Status[]} */ #history = [];
  #id = randomId();
  #sent = 0;

  /** @param {Types.Options} options */
  constructor(options) {
    this.#options = hubOptions(options);
    this.#url = options.url;
    this.#load();
  }

  get state() {
    return this.#state.state;
  }

  /** @returns {Types.Status} */
  status() {
    const s = this.#state;
    /** @type {Types.Status['streams']} */
    const streams = {};
    for (const [name, { mode, pos, error }] of this.#streams) {
      streams[name] = {
        state: mode,
        seq: pos?.seq ?? null,
        epoch: pos?.epoch ?? null,
        error: error || null,
      };
    }
    return {
      state: s.state,
      cause: s.cause ?? null,
      reason: s.reason ?? '',
      hint: s.hint ?? '',
      since: s.since,
      attempt: s.attempt ?? 0,
      nextRetryAt: s.nextRetry ?? null,
      notBefore: s.notBefore ?? null,
      lastClose: 'code' in s ? { code: s.code, reason: s.closed } : null,
      interrupted: !!s.interrupted,
      session: s.session ?? '',
      user: s.user ?? '',
      pending: this.#pending.size,
      totals: { ...s.totals, ...this.#counts },
      streams,
    };
  }

  history() {
    return this.#history;
  }

  /** @param {string} what @param {number} [n] */
  count(what, n = 1) {
    this.#counts[what] = (this.#counts[what] ?? 0) + n;
  }

  /** @param {'state' | 'error'} name @param {(value: any) => void} fn */
  on(name, fn) {
    if (name !== 'state' && name !== 'error')
      throw new TypeError(`longwire: there is no event "${name}"`);
    if (typeof fn !== 'function') throw new TypeError('longwire: on takes a function');
    const set = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, set.add(fn));
    return () => void set.delete(fn);
  }

  /** @type {Types.Connection['subscribe']} */
  subscribe(stream, handlers, { from } = {}) {
    if (stream !== '' && !(typeof stream === 'string' && streamName.test(stream))) {
      throw new TypeError(
        'longwire: a stream name has 1 to 128 characters of A-Z a-z 0-9 . _ : / -',
      );
    }
    if (!handlers || typeof handlers !== 'object')
      throw new TypeError('longwire: subscribe takes an object of handlers');
    if (
      from &&
      !(Number.isSafeInteger(from.seq) && from.seq >= 0 && typeof from.epoch === 'string')
    ) {
      throw new TypeError('longwire: from takes { seq, epoch }');
    }
    if (this.#streams.has(stream)) {
      throw new LongwireError('subscribed', `stream "${stream}" has a subscription`);
    }
    const s = new Stream(
      this,
      stream,
      handlers,
      from ? { seq: from.seq, epoch: from.epoch } : null,
    );
    this.#streams.set(stream, s);
    s.ask();
    return () => {
      if (!s.active) return;
      s.active = false;
      this.#streams.delete(stream);
      this.post({ t: 'unsub', stream: stream || undefined });
    };
  }

  /** @type {Types.Connection['send']} */
  send(body, { signal, expiryMs } = {}) {
    const { promise, resolve, reject } = deferred();
    /** @param {string} code @param {string} message @param {unknown} [cause] */
    const refuse = (code, message, cause) => {
      reject(new LongwireError(code, message, { outcome: 'not-sent', cause }));
      return promise;
    };
    let text;
    try {
      text = JSON.stringify(body);
    } catch (cause) {
      return refuse('invalid', `it is not JSON: ${textOf(cause)}`, cause);
    }
    if (text === undefined) return refuse('invalid', `it is not JSON: ${typeof body}`);
    if (signal?.aborted) return refuse('cancelled', 'the signal was aborted before');
    if (this.state === 'ended' && this.#state.cause !== 'unauthorized') {
      return refuse('ended', `the connection has ended: ${this.#state.cause}`);
    }
    if (expiryMs !== undefined && !(expiryMs >= 1)) return refuse('invalid', 'expiryMs is below 1');
    const id = `${this.#id}-${(++this.#sent).toString(36)}`;
    const frame = `{"t":"msg","id":"${id}","body":${text}${expiryMs ? `,"expiry":${Math.round(expiryMs)}` : ''}}`;
    this.#pending.set(id, { frame, resolve, reject });
    signal?.addEventListener('abort', () => this.#cancel(id), { once: true });
    this.#hub?.frame(frame);
    return promise;
  }

  pending() {
    return Array.from(this.#pending.values(), ({ frame }) => JSON.parse(frame).body);
  }

  clear() {
    for (const id of this.#pending.keys()) this.#cancel(id);
  }

  reconnectNow() {
    if (this.#hub) this.post({ t: 'kick', why: 'now' });
    else if (!this.#closed && this.state === 'ended') this.#load();
  }

  reauthorize() {
    this.post({ t: 'reauthorize' });
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    for (const stream of this.#streams.values()) stream.active = false;
    this.#streams.clear();
    const hub = this.#hub;
    this.#hub = undefined;
    this.#end('closed', 'closed by the application', hub ? undefined : 'not-sent');
    hub?.close(); // it settles what is pending: it knows what was written
  }

  /** @param {Frame} frame */
  post(frame) {
    this.#hub?.frame(JSON.stringify(frame));
  }

  /**
   * Tells the application of something that was coped with.
   * @param {string} code
   * @param {string} message
   * @param {unknown} [cause]
   */
  problem(code, message, cause) {
    const error = new LongwireError(code, message, { cause });
    if (!this.#emit('error', error)) reportError(cause ?? error);
  }

  #load() {
    this.#become({ t: 'hub', state: 'connecting', reason: 'loading the wasm', since: Date.now() });
    load().then(
      (module) => this.#open(module),
      (error) => this.#fail(error),
    );
  }

  /** @param {HubModule} module */
  #open(module) {
    if (this.#closed) return;
    const hub = module.open(this.#options, (text) => this.#deliver(text));
    if (typeof hub === 'string') {
      this.#fail(new LongwireError('options', hub));
      return;
    }
    this.#hub = hub;
    module.ended.finally(() => {
      if (this.#hub !== hub) return;
      this.#hub = undefined;
      loading = undefined;
      const reason = 'the wasm has stopped: reconnectNow() loads it again';
      this.#fail(new LongwireError('hub died', reason), 'unknown');
    });
    for (const { frame } of this.#pending.values()) hub.frame(frame);
    this.post({ t: 'start' });
  }

  /** @param {Error & { code: string }} error @param {Types.Outcome} [outcome] of what is pending */
  #fail(error, outcome = 'not-sent') {
    if (this.#closed) return;
    this.#end(error.code, error.message, outcome);
    if (!this.#emit('error', error)) reportError(error);
  }

  /** @param {string} cause @param {string} reason @param {Types.Outcome} [outcome] of what is pending */
  #end(cause, reason, outcome) {
    for (const id of outcome ? this.#pending.keys() : []) {
      this.#settle({ t: 'nack', id, code: 'ended', reason, outcome });
    }
    const since = Date.now();
    this.#become({ ...this.#state, nextRetry: undefined, state: 'ended', cause, reason, since });
  }

  /** @param {string} text */
  #deliver(text) {
    /** @type {Frame} */
    const f = JSON.parse(text);
    const stream = this.#streams.get(f.stream ?? '');
    switch (f.t) {
      case 'event':
        return stream?.events(f.seq, [f.data]);
      case 'events':
        return stream?.events(f.from, f.data);
      case 'snapshot':
        return stream?.snapshot(f);
      case 'reset':
        return stream?.gap(f);
      case 'subbed':
        return stream?.answer(f);
      case 'welcome':
        return this.#welcome(f);
      case 'ack':
      case 'nack':
        return this.#settle(f);
      case 'hub':
        return this.#hubState(f);
      case 'need':
        return void this.#need(f.n);
      case 'problem':
        return this.problem('protocol', f.text);
    }
  }

  /** @param {Frame} f */
  #welcome(f) {
    for (const [name, stream] of this.#streams) {
      const answer = name ? f.subs?.[name] : f;
      if (answer) stream.answer(answer);
    }
  }

  /** @param {Frame} f an ack or a nack */
  #settle(f) {
    const message = this.#pending.get(f.id);
    if (!message) return;
    this.#pending.delete(f.id);
    if (f.t === 'ack') message.resolve(f.result);
    else {
      const outcome = f.outcome ?? 'refused';
      const text = {
        refused: 'was refused',
        'not-sent': 'was not sent',
        unknown: 'may or may not have taken effect',
      };
      const why = [f.code, f.reason].filter(Boolean).join(': ');
      message.reject(
        new LongwireError(
          f.code ?? '',
          `the message ${text[/** @type {Types.Outcome} */ (outcome)]}: ${why}`,
          { outcome },
        ),
      );
    }
  }

  /** @param {Frame} f */
  #hubState(f) {
    if (this.#closed) return;
    if (f.state !== 'live') for (const s of this.#streams.values()) s.mode = 'asking';
    if (!f.resume) return this.#become(f);
    /** @type {Record<string, object>} */
    const subs = {};
    for (const [name, s] of this.#streams) if (name) subs[name] = s.want();
    this.post({ t: 'resume', v: 1, subs, ...this.#streams.get('')?.want() });
  }

  /** @param {Frame} state */
  #become(state) {
    this.#state = state;
    const status = this.status();
    if (status.state !== this.#history.at(-1)?.state) {
      this.#history.push(status);
      if (this.#history.length > 200) this.#history.shift();
    }
    this.#emit('state', status);
  }

  /** @param {number} n */
  async #need(n) {
    try {
      const url = typeof this.#url === 'function' ? await this.#url() : this.#url;
      this.post({ t: 'have', n, url: socketURL(url) });
    } catch (cause) {
      this.problem('url', `no URL to dial: ${textOf(cause)}`, cause);
      this.post({ t: 'have', n, error: textOf(cause).slice(0, 200) || 'the url callback failed' });
    }
  }

  /** @param {string} id */
  #cancel(id) {
    if (!this.#pending.has(id)) return;
    if (this.#hub) this.post({ t: 'cancel', id });
    else
      this.#settle({ t: 'nack', id, code: 'cancelled', reason: 'withdrawn', outcome: 'not-sent' });
  }

  /** @param {string} name @param {unknown} value @returns {boolean} whether anybody listens */
  #emit(name, value) {
    const set = this.#listeners.get(name);
    for (const fn of set ?? []) {
      try {
        fn(value);
      } catch (error) {
        reportError(error);
      }
    }
    return !!set?.size;
  }
}

/** A promise that a page may ignore without an unhandled rejection. */
const deferred = () => {
  /** @type {(v: any) => void} */ let resolve = () => {};
  /** @type {(e: Error) => void} */ let reject = () => {};
  const promise = new Promise((a, b) => {
    resolve = a;
    reject = b;
  });
  promise.catch(() => {});
  return { promise, resolve, reject };
};

/** @type {typeof Types.connect} */
export const connect = (options) => new Connection(options);
