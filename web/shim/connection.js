// @ts-check
// One connection of a page: it owns what must survive the hub, and talks to it in
// frames.

import { LongwireError, textOf } from './errors.js';
import { load, unload } from './load.js';
import { hubOptions, socketURL } from './options.js';
import { Stream } from './stream.js';

/** @import * as Types from '../types.d.ts' */
/** @import { Build, Hub, HubModule } from './load.js' */
/** @import { Frame } from './stream.js' */

const streamName = /^[\w.:/-]{1,128}$/;

/** 128 random bits: ids of messages are unique across tabs and reloads. */
const randomId = () => crypto.getRandomValues(new Uint32Array(4)).join('-');

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

/** @implements {Types.Connection} */
export class Connection {
  #build;
  #url;
  #options;
  /** @type {Hub | undefined} */ #hub;
  #closed = false;
  #state = /** @type {Frame} */ ({ t: 'hub' }); // said by #load before anybody can ask
  /** @type {Map<string, Stream>} */ #streams = new Map();
  /** @type {Map<string, { frame: string, resolve(v: any): void, reject(e: Error): void }>} */ #pending =
    new Map();
  /** @type {Map<string, Set<(value: any) => void>>} */ #listeners = new Map();
  /** @type {Record<string, number>} */ #counts = {};
  /** @type {Types.Status[]} */ #history = [];
  #id = randomId();
  #sent = 0;

  /** @param {Types.Options} options @param {Build} build */
  constructor(options, build) {
    this.#build = build;
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
      if (this.#streams.get(stream) !== s) return;
      s.mode = 'refused'; // nothing is delivered any more
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
    if (signal?.aborted) return refuse('cancelled', 'aborted before');
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
    for (const stream of this.#streams.values()) stream.mode = 'refused';
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
    load(this.#build).then(
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
      unload();
      const reason = 'the wasm has stopped';
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
        unknown: 'may have taken effect',
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
