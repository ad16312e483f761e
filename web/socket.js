// @ts-check
// A WebSocket for libraries that take a constructor of one. Such a library makes a new
// socket whenever one was lost; here the next takes over from the lost one what keeps
// clients from storming a server: the count of failures, the wait and its floors. Types
// and documentation: socket.d.ts.
import { connect } from './longwire.js';

/** @import * as Types from './types.d.ts' */
/** @import * as Sockets from './socket.d.ts' */

const parkedMs = 60_000;

/**
 * @typedef {object} User a socket, as its line knows it
 * @property {() => boolean} isOpen
 * @property {() => void} opened
 * @property {(text: string) => void} hear
 * @property {(code: number, reason: string) => void} lost
 */

/** What lost its socket, and waits for the next one to the same place. @type {Set<Line>} */
const parked = new Set();

/** A connection, of which at most one socket at a time is served. */
class Line {
  /** @type {User | undefined} */ #user;
  /** @type {any} */ #timer = 0;
  #dial = () => {};
  #url;

  /** @param {string} url @param {string[]} protocols @param {Sockets.SocketOptions} options */
  constructor(url, protocols, options) {
    this.key = JSON.stringify([url, protocols]);
    this.options = options;
    this.#url = options.url ?? url;
    this.live = connect({
      urlTimeoutMs: 2 * parkedMs,
      ...options,
      url: () => this.#next(),
      protocols,
      dialect: { text: true },
    });
    this.live.on('state', (status) => this.#state(status));
    this.live.subscribe('', { event: (text) => this.#user?.hear(/** @type {string} */ (text)) });
  }

  /** The URL to dial, as soon as there is a socket for it. */
  async #next() {
    if (!this.#user) {
      await new Promise((resolve) => {
        this.#dial = () => resolve(undefined);
      });
    }
    return typeof this.#url === 'function' ? this.#url() : this.#url;
  }

  /** @param {User} user */
  serve(user) {
    clearTimeout(this.#timer);
    parked.delete(this);
    this.#user = user;
    this.#dial();
  }

  /** @param {Types.Status} status */
  #state({ state, lastClose, reason }) {
    const user = this.#user;
    if (!user) return;
    if (state === 'live') user.opened();
    else if (state === 'ended' || user.isOpen()) {
      this.#user = undefined;
      if (state !== 'ended') this.#park();
      this.live.clear(); // what was not written was meant for the socket that is lost
      const { code, reason: said } = lastClose ?? { code: 1006, reason };
      user.lost(code, said);
    }
  }

  #park() {
    parked.add(this);
    this.#timer = setTimeout(() => {
      parked.delete(this);
      this.live.close();
    }, parkedMs);
  }

  /** Leaves the socket at once. */
  close() {
    this.#user = undefined;
    this.live.close();
  }
}

/** @param {string | URL} url */
const absolute = (url) => {
  const { href, protocol, hash } = parsed(url) ?? { protocol: 'what is no URL' };
  if (!href || hash || !/^(http|ws)s?:$/.test(protocol))
    throw new TypeError(`longwire: url: ${hash || protocol} is not for a WebSocket`);
  return href.replace(/^http/, 'ws');
};

/** @param {unknown} url */
const parsed = (url) => {
  try {
    if (typeof url === 'string' || url instanceof URL) return new URL(url, document.baseURI);
  } catch {
    // said by who asks
  }
  return undefined;
};

const encoder = new TextEncoder();

class Socket extends EventTarget {
  static CONNECTING = /** @type {const} */ (0);
  static OPEN = /** @type {const} */ (1);
  static CLOSING = /** @type {const} */ (2);
  static CLOSED = /** @type {const} */ (3);
  CONNECTING = Socket.CONNECTING;
  OPEN = Socket.OPEN;
  CLOSING = Socket.CLOSING;
  CLOSED = Socket.CLOSED;
  /** @type {Sockets.SocketOptions} */ static options = {};

  /** @type {0 | 1 | 2 | 3} */ readyState = Socket.CONNECTING;
  bufferedAmount = 0;
  extensions = '';
  protocol = '';
  /** @type {BinaryType} */ binaryType = 'blob';
  /** @type {((event: any) => void) | null} */ onopen = null;
  /** @type {((event: any) => void) | null} */ onmessage = null;
  /** @type {((event: any) => void) | null} */ onerror = null;
  /** @type {((event: any) => void) | null} */ onclose = null;
  #line;
  #protocols;

  /** @param {string | URL} url @param {string | string[]} [protocols] */
  constructor(url, protocols = []) {
    super();
    for (const type of /** @type {const} */ (['open', 'message', 'error', 'close']))
      this.addEventListener(type, (event) => this[`on${type}`]?.(event));
    this.#protocols = [protocols].flat();
    if (this.#protocols.length > 1)
      throw new TypeError('longwire: protocols: must be one at most: which is picked is not known');
    const { options } = /** @type {typeof Socket} */ (this.constructor);
    this.url = absolute(url);
    const key = JSON.stringify([this.url, this.#protocols]);
    this.#line =
      [...parked].find((line) => line.key === key && line.options === options) ??
      new Line(this.url, this.#protocols, options);
    this.#line.serve({
      isOpen: () => this.readyState === Socket.OPEN,
      opened: () => this.#opened(),
      hear: (text) => this.#hear(text),
      lost: (code, reason) => this.#ended(code, reason, code === 1006),
    });
  }

  /** @param {Sockets.SocketOptions} options */
  static with(options) {
    return class extends Socket {
      /** @override */ static options = options;
    };
  }

  /** @param {unknown} data */
  send(data) {
    if (this.readyState === Socket.CONNECTING)
      throw new DOMException('the socket is still connecting', 'InvalidStateError');
    if (data instanceof Blob || data instanceof ArrayBuffer || ArrayBuffer.isView(data))
      throw new TypeError('longwire: data: must be text');
    const text = String(data);
    const bytes = encoder.encode(text).length;
    this.bufferedAmount += bytes;
    if (this.readyState !== Socket.OPEN) return;
    this.#line.live.send(text).then(
      () => {
        this.bufferedAmount -= bytes;
      },
      ({ message }) => this.#fail(message), // as a browser does when its buffer is full
    );
  }

  /** @param {string} why */
  #fail(why) {
    if (this.readyState !== Socket.OPEN) return;
    this.#line.close();
    this.#ended(1006, why, true);
  }

  /** @param {number} [code] @param {string} [reason] */
  close(code, reason = '') {
    if (code !== undefined && code !== 1000 && !(code >= 3000 && code <= 4999))
      throw new DOMException(
        `the close code ${code} is not 1000 or 3000 to 4999`,
        'InvalidAccessError',
      );
    if (encoder.encode(reason).length > 123)
      throw new DOMException('the reason has more than 123 bytes', 'SyntaxError');
    const { readyState } = this;
    if (readyState >= Socket.CLOSING) return;
    this.readyState = Socket.CLOSING;
    this.#line.close();
    const never = readyState === Socket.CONNECTING;
    queueMicrotask(() => this.#ended(never ? 1006 : (code ?? 1005), reason, never));
  }

  #opened() {
    if (this.readyState !== Socket.CONNECTING) return; // it only goes on
    this.readyState = Socket.OPEN;
    this.protocol = this.#protocols[0] ?? '';
    this.dispatchEvent(new Event('open'));
  }

  /** @param {string} data */
  #hear(data) {
    if (this.readyState !== Socket.OPEN) return;
    this.dispatchEvent(new MessageEvent('message', { data, origin: new URL(this.url).origin }));
  }

  /** @param {number} code @param {string} reason @param {boolean} failed */
  #ended(code, reason, failed) {
    this.readyState = Socket.CLOSED;
    if (failed) this.dispatchEvent(new Event('error'));
    this.dispatchEvent(new CloseEvent('close', { code, reason, wasClean: !failed }));
  }
}

/** @type {typeof Sockets.LongwireSocket} */
export const LongwireSocket = Socket;
