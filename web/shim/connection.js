// @ts-check
// One connection of a page: it owns what must survive the hub, and talks to it in
// frames.

import { LongwireError, textOf } from './errors.js';
import {
  checkOptions,
  checkStream,
  hubOptions,
  isObject,
  positive,
  scopeOf,
  socketURL,
  stoppedBy,
  wrong,
} from './options.js';
import { failure, Outbox } from './outbox.js';
import { randomId, Share } from './share.js';
import { Stream } from './stream.js';

/** @import * as Types from '../types.d.ts' */
/** @import { Build } from './load.js' */
/** @import { Frame } from './stream.js' */

/** @implements {Types.Connection} */
export class Connection extends EventTarget {
  #url;
  #share;
  #outbox;
  #closed = false;
  #state = /** @type {Frame} */ ({ t: 'hub' }); // said before anybody can ask
  /** @type {Map<string, Stream>} */ #streams = new Map();
  /** @type {Record<string, number>} */ #counts = {};
  /** @type {Types.Status[]} */ #history = [];
  #id = randomId();
  #sent = 0;
  #gen = 0; // of the connection under which a position moved last
  #session = '';
  #live = false; // what the hub said last

  /** @param {Types.Options} options @param {Build} build */
  constructor(options, build) {
    super();
    const hub = hubOptions(options);
    this.#url = options.url;
    this.#share = new Share(
      {
        deliver: (frame) => {
          try {
            this.#deliver(frame);
          } catch (error) {
            reportError(error); // others that came with it are whole
          }
        },
        forget: (other) => this.#forget(other),
        positions: () => this.#positions(),
        url: () => this.#dialled(),
        fail: (error, posted) => this.#fail(error, posted),
      },
      build,
      hub,
    );
    this.#outbox = new Outbox(options, (text) => this.#share.frame(text));
    this.#load();
    scopeOf(options).then(
      ([name, why]) => {
        if (!this.#closed) this.#share.start(name, why);
      },
      (error) => this.#fail(error, false),
    );
    stoppedBy(options.signal, () => this.close());
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
      staleMs: s.stale ?? 0,
      rttMs: s.rtt ? s.rtt / 1000 : null,
      session: s.session ?? '',
      user: s.user ?? '',
      pending: this.#outbox.size,
      totals: { ...s.totals, ...this.#counts },
      streams,
      shared: this.#share.shared,
      notShared: this.#share.why,
      role: this.#share.state,
      hub: this.#share.rank.h,
      tabs: s.tabs ?? 1,
    };
  }

  history() {
    return [...this.#history];
  }

  /** @param {string} what @param {number} [n] */
  count(what, n = 1) {
    this.#counts[what] = (this.#counts[what] ?? 0) + n;
  }

  /** @type {Types.Connection['on']} */
  on(
    /** @type {string} */ name,
    /** @type {(value: any) => void} */ fn,
    /** @type {Types.ListenOptions} */ options = {},
  ) {
    if (name !== 'state' && name !== 'error') wrong('name', `there is no event "${textOf(name)}"`);
    if (typeof fn !== 'function') wrong('fn', 'must be a function');
    checkOptions(options);
    const listener = (/** @type {Event} */ event) => {
      event.preventDefault(); // an error that somebody takes is not reported
      fn(/** @type {CustomEvent} */ (event).detail);
    };
    this.addEventListener(name, listener);
    return stoppedBy(options.signal, () => this.removeEventListener(name, listener));
  }

  /** @type {Types.Connection['subscribe']} */
  subscribe(stream, handlers, options = {}) {
    checkStream(stream, options);
    if (!isObject(handlers)) wrong('handlers', 'must be an object');
    for (const name of ['event', 'snapshot', 'gap', 'resumed', 'error']) {
      const handler = /** @type {any} */ (handlers)[name];
      if (handler !== undefined && typeof handler !== 'function')
        wrong(`handlers.${name}`, 'must be a function');
    }
    if (this.#streams.has(stream)) {
      throw new LongwireError('subscribed', `stream "${stream}" has a subscription`);
    }
    const { from, signal } = options;
    const at = from ? { seq: from.seq, epoch: from.epoch } : null;
    const s = new Stream(this, stream, handlers, at);
    this.#streams.set(stream, s);
    s.ask();
    return stoppedBy(signal, () => {
      if (this.#streams.get(stream) !== s) return;
      s.mode = 'refused'; // nothing is delivered any more
      this.#streams.delete(stream);
      this.post({ t: 'unsub', stream: stream || undefined });
    });
  }

  /** @param {string} stream @param {Types.IterateOptions} [options] */
  async *stream(stream, options) {
    const { iterate } = await import('../iterate.js'); // few pages want it
    yield* iterate(this, stream, options);
  }

  /** @type {Types.Connection['send']} */
  send(body, options = {}) {
    let settled = () => {};
    const promise = new Promise((resolve, reject) => {
      /** @param {string} code @param {string} message @param {unknown} [cause] */
      const refuse = (code, message, cause) => reject(failure(code, message, 'not-sent', cause));
      let text;
      try {
        checkOptions(options);
        const { expiryMs = 1 } = options;
        const problem = positive(expiryMs);
        if (problem) wrong('expiryMs', problem);
        text = JSON.stringify(body) ?? wrong('body', `is not JSON: ${typeof body}`);
      } catch (cause) {
        return refuse('invalid', textOf(cause), cause);
      }
      const { signal, expiryMs } = options;
      if (signal?.aborted) return refuse('cancelled', 'aborted before');
      if (this.state === 'ended' && this.#state.cause !== 'unauthorized')
        return refuse('ended', `the connection has ended: ${this.#state.cause}`);
      const id = `${this.#id}-${(++this.#sent).toString(36)}`;
      // To cancel what is settled does nothing.
      settled = stoppedBy(signal, () => this.#outbox.cancel(id));
      this.#outbox.add({ id, body: text, resolve, reject }, expiryMs);
    });
    promise.then(settled, settled); // who ignores it has no unhandled rejection
    return promise;
  }

  pending() {
    return this.#outbox.bodies();
  }

  clear() {
    this.#outbox.cancelAll();
  }

  reconnectNow() {
    if (this.#closed) return;
    if (this.state === 'ended' && this.#share.again()) this.#load();
    else this.post({ t: 'kick', why: 'now' });
  }

  reauthorize() {
    this.post({ t: 'reauthorize' });
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    for (const stream of this.#streams.values()) stream.mode = 'refused';
    this.#streams.clear();
    // A hub of our own settles what it has: it knows what was written.
    const own = this.#share.state === 'alone';
    this.#end('closed', 'closed by the application', !own);
    this.#share.close();
    this.#outbox.end('ended', 'closed by the application', true);
  }

  /** @param {Frame} frame */
  post(frame) {
    this.#share.frame(JSON.stringify(frame));
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
  }

  /** @param {Error & { code: string }} error @param {boolean} posted whether that is settled too */
  #fail(error, posted) {
    if (this.#closed) return;
    const known = new LongwireError(error.code, error.message.replace(/^longwire: /, ''), {
      cause: error.cause,
    });
    this.#end(known.code, known.message, posted);
    if (!this.#emit('error', known)) reportError(known);
  }

  /** @param {string} cause @param {string} reason @param {boolean} posted whether what was posted is settled too */
  #end(cause, reason, posted) {
    this.#outbox.end('ended', reason, posted);
    this.#outbox.disconnected();
    const since = Date.now();
    this.#become({ ...this.#state, nextRetry: undefined, state: 'ended', cause, reason, since });
  }

  /** What a hub is told of this tab. */
  #positions() {
    /** @type {Record<string, object>} */
    const subs = {};
    for (const [name, s] of this.#streams) if (name) subs[name] = s.want();
    const own = this.#streams.get('');
    const { attempt, notBefore } = this.#state;
    return {
      gen: this.#gen,
      session: this.#session || undefined,
      user: this.#state.user || undefined,
      own: !!own,
      ...own?.want(),
      subs,
      attempt,
      notBefore,
      live: this.#live,
    };
  }

  /** What was asked is void. @param {boolean} other the hub is another one */
  #forget(other) {
    for (const s of this.#streams.values()) s.mode = 'asking';
    if (!other || this.#closed) return;
    this.#outbox.disconnected(true);
    if (this.state !== 'ended')
      this.#become({
        ...this.#state,
        state: 'connecting',
        reason: 'waiting for the hub',
        since: Date.now(),
      });
  }

  /** @param {Frame} f */
  #deliver(f) {
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
        return this.#outbox.settle(f);
      case 'hub':
        return this.#hubState(f);
      case 'yield':
        return this.#forget(true);
      case 'need':
        return void this.#need(f.n);
      case 'problem':
        return this.problem('protocol', f.text);
    }
  }

  /** @param {Frame} f */
  #welcome(f) {
    this.#gen = f.gen ?? 0;
    this.#session = f.session;
    this.#outbox.connected(f);
    for (const [name, stream] of this.#streams) {
      const answer = name ? f.subs?.[name] : f;
      if (answer) stream.answer(answer);
    }
  }

  /** @param {Frame} f */
  #hubState(f) {
    if (this.#closed) return;
    this.#live = f.state === 'live';
    if (!this.#live) {
      for (const s of this.#streams.values()) s.mode = 'asking';
      this.#outbox.disconnected();
    }
    if (f.state === 'ended')
      this.#outbox.end('ended', `the connection has ended: ${f.cause}`, false);
    // An attempt that is only announced has its state said next.
    if (!f.resume || f.beat || f.state === 'live') this.#become(f);
    for (const [name, at] of Object.entries(f.quiet ?? {})) this.#streams.get(name)?.quiet(at);
    if (f.resume) this.#share.resume();
    if (f.beat) this.#share.here(); // a resume does not say whether the tab is visible
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

  async #dialled() {
    return socketURL(typeof this.#url === 'function' ? await this.#url() : this.#url);
  }

  /** @param {number} n */
  async #need(n) {
    try {
      const url = await (this.#share.takeURL() ?? this.#dialled());
      this.post({ t: 'have', n, url });
    } catch (cause) {
      this.problem('url', `no URL to dial: ${textOf(cause)}`, cause);
      this.post({ t: 'have', n, error: textOf(cause).slice(0, 200) || 'the url callback failed' });
    }
  }

  /** @param {string} name @param {unknown} detail @returns {boolean} whether anybody took it */
  #emit(name, detail) {
    return !this.dispatchEvent(new CustomEvent(name, { detail, cancelable: true }));
  }
}
