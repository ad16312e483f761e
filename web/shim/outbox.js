// @ts-check
// The messages of a tab that are not settled. They wait here until the hub is
// connected and has room; what was posted to a hub may have been written.

import { LongwireError } from './errors.js';

/** @import * as Types from '../types.d.ts' */
/** @import { Frame } from './stream.js' */
/**
 * @typedef {object} Message
 * @property {string} id
 * @property {string} body JSON
 * @property {number} expires by performance.now
 * @property {(v: any) => void} resolve
 * @property {(e: Error) => void} reject
 * @property {boolean} [posted] to the hub that is heeded now
 * @property {string} [dedupe] the server's memory of ids at its first post
 * @property {number} [at] when that was
 */

const windowBytes = 256 << 10;
const cancelMs = 1000;

const said = {
  refused: 'was refused',
  'not-sent': 'was not sent',
  unknown: 'may have taken effect',
};

/**
 * The error of a message that comes to nothing.
 * @param {string} code
 * @param {string} reason
 * @param {Types.Outcome} outcome
 * @param {unknown} [cause]
 */
export const failure = (code, reason, outcome, cause) =>
  new LongwireError(
    code,
    `the message ${said[outcome]}: ${[code, reason].filter(Boolean).join(': ')}`,
    { outcome, cause },
  );

export class Outbox {
  /** @type {Map<string, Message>} in the order of the sends */ #all = new Map();
  #post;
  #expiry;
  #most;
  #mostBytes;
  #drops;
  #connected = false; // the hub; else nothing is posted
  #window = 0;
  #dedupe = { id: '', ms: 0 };
  #bytes = 0;
  /** @type {any} */ #timer = 0;

  /**
   * @param {Types.Options} options
   * @param {(text: string) => void} post to the hub
   */
  constructor({ expiryMs, maxPending, maxPendingBytes, overflow }, post) {
    this.#post = post;
    this.#expiry = expiryMs ?? 300_000;
    this.#most = maxPending ?? 1000;
    this.#mostBytes = maxPendingBytes ?? 1 << 20;
    this.#drops = overflow === 'drop-oldest';
  }

  get size() {
    return this.#all.size;
  }

  bodies() {
    return Array.from(this.#all.values(), ({ body }) => JSON.parse(body));
  }

  /** @param {Omit<Message, 'expires'>} message @param {number} [expiryMs] */
  add(message, expiryMs) {
    const { id, body, reject } = message;
    if (body.length > this.#mostBytes) {
      reject(
        failure('too big', `more than the ${this.#mostBytes} bytes that may wait`, 'not-sent'),
      );
      return;
    }
    const full = () => this.#all.size >= this.#most || this.#bytes + body.length > this.#mostBytes;
    if (this.#drops && full()) {
      for (const [old, { at }] of this.#all) {
        if (at === undefined) this.fail(old, 'dropped', 'dropped for a newer message', 'not-sent');
        if (!full()) break;
      }
    }
    if (full()) {
      reject(failure('outbox full', `${this.#all.size} messages are waiting already`, 'not-sent'));
      return;
    }
    this.#bytes += body.length;
    this.#all.set(id, { ...message, expires: performance.now() + (expiryMs ?? this.#expiry) });
    this.#pump();
  }

  /**
   * The hub has a connection.
   * @param {Frame} welcome
   */
  connected({ window = 32, dedupe, session }) {
    const now = performance.now();
    this.#connected = true;
    this.#window = window;
    // A server of the base frames remembers ids as long as the session.
    this.#dedupe = dedupe ?? { id: session, ms: 864e5 };
    for (const [id, { posted, at, dedupe: first }] of this.#all) {
      // What was given to a hub that is gone goes out again only if the server knows it.
      if (posted || at === undefined) continue;
      if (first !== this.#dedupe.id || now - at >= this.#dedupe.ms)
        this.fail(id, 'unknown', 'the hub that had it is gone', 'unknown');
    }
    this.#pump();
  }

  /**
   * The hub has no connection, or nobody knows of one.
   * @param {boolean} [other] there is another hub, or none: what was posted is to be posted again
   */
  disconnected(other) {
    this.#connected = false;
    if (other) for (const m of this.#all.values()) m.posted = false;
  }

  /** @param {Frame} f an ack or a nack */
  settle({ t, id, result, code, reason, outcome }) {
    if (t === 'ack') this.#take(id)?.resolve(result);
    else this.fail(id, code ?? '', reason, outcome ?? 'refused');
    this.#pump();
  }

  /** @param {string} id */
  cancel(id) {
    const m = this.#all.get(id);
    const withdrawn = () => this.fail(id, 'cancelled', 'withdrawn', m?.at ? 'unknown' : 'not-sent');
    if (!m?.posted) return withdrawn();
    this.#post(JSON.stringify({ t: 'cancel', id }));
    setTimeout(withdrawn, cancelMs);
  }

  cancelAll() {
    for (const id of this.#all.keys()) this.cancel(id);
  }

  /**
   * Fails all, or those that were never posted.
   * @param {string} code
   * @param {string} reason
   * @param {boolean} [all]
   */
  end(code, reason, all) {
    for (const [id, { at }] of this.#all) {
      if (at === undefined) this.fail(id, code, reason, 'not-sent');
      else if (all) this.fail(id, code, reason, 'unknown');
    }
  }

  /**
   * @param {string} id
   * @param {string} code
   * @param {string} reason
   * @param {Types.Outcome} outcome
   */
  fail(id, code, reason, outcome) {
    this.#take(id)?.reject(failure(code, reason, outcome));
  }

  /** @param {string} id */
  #take(id) {
    const m = this.#all.get(id);
    if (m) {
      this.#all.delete(id);
      this.#bytes -= m.body.length;
    }
    return m;
  }

  /** Posts what there is room for, in order, and sees to what expires. */
  #pump() {
    const now = performance.now();
    let [n, bytes, next] = [0, 0, Infinity];
    let room = this.#connected;
    for (const [id, m] of this.#all) {
      // The hub has an eye on what it has; without one nobody does.
      const expires = m.posted ? m.expires + 2 * cancelMs : m.expires;
      if (expires <= now) {
        this.fail(id, 'expired', 'not accepted in time', m.at ? 'unknown' : 'not-sent');
        continue;
      }
      next = Math.min(next, expires);
      room &&= n < this.#window && (n === 0 || bytes + m.body.length <= windowBytes);
      if (!m.posted && room) {
        const more = {
          expiry: Math.ceil(m.expires - now),
          dedupe: m.dedupe,
          age: m.at && Math.ceil(now - m.at),
        };
        m.posted = true;
        m.at ??= now;
        m.dedupe ??= this.#dedupe.id;
        this.#post(`{"t":"msg","id":"${id}","body":${m.body},${JSON.stringify(more).slice(1)}`);
      }
      if (m.posted) {
        n++;
        bytes += m.body.length;
      }
    }
    clearTimeout(this.#timer);
    if (next < Infinity) this.#timer = setTimeout(() => this.#pump(), next - now);
  }
}
