// @ts-check
// What arrives for the hub of this page. Its messages are read here, once, and the
// payloads of events stay here: the wasm gets in one call what has arrived until now,
// and says in one call whom each frame is for. Crossing that border costs more than
// all else that is done with a message.

import { streamName } from './options.js';

/** @import { Frame } from './stream.js' */

const maxTaken = 1 << 16; // characters, and a message
const maxEarlyBytes = 1 << 16; // of a message, before anything was asked
const gathering = 4; // ms between calls for events, while the page is seen
const tooBig = 4009;

const maxEvents = 1 << 16; // of a frame

/**
 * A run of events that stays here.
 * @typedef {object} Kept
 * @property {Frame} frame all of them
 * @property {string[]} texts as they came, none: they were in an array
 * @property {any[]} told number, size, stream, first event and count: what the wasm gets
 */

/**
 * A socket that was made before the wasm was there to ask for one.
 * @typedef {object} Early
 * @property {string} url
 * @property {WebSocket} socket
 * @property {{ limit: number }} of its messages
 * @property {Event} [open] it was opened
 * @property {CloseEvent} [close] it was closed
 */

/** @param {unknown} n */
const isNumber = (n) => Number.isSafeInteger(n) && /** @type {number} */ (n) > 0;

/**
 * An event or events frame as one of events, if it is as it should be.
 * @param {Frame | undefined} f
 * @returns {Frame | undefined}
 */
const eventsOf = (f) => {
  if (!f) return;
  const { t, stream = '', seq, from, data } = f;
  if (stream !== '' && !(typeof stream === 'string' && streamName.test(stream))) return;
  if (t === 'event' && isNumber(seq)) return { t: 'events', stream, from: seq, data: [data] };
  if (t === 'events' && isNumber(from) && Array.isArray(data) && data.length < maxEvents)
    return { t, stream, from, data };
  return;
};

/**
 * Closes a socket. One that is not open yet the browser would call an error.
 * @param {WebSocket | undefined} socket
 */
const leave = (socket) => {
  if (socket?.readyState) socket.close();
  else socket?.addEventListener('open', () => socket.close());
};

export class Intake {
  #deliver;
  #protocols;
  #reads; // whether the server may speak a version, whose frames are known
  /** @type {WebSocket | undefined} */ #socket; // what is taken came on
  /** @type {unknown[]} */ #taken = []; // for the wasm
  #chars = 0;
  /** @type {Event | undefined} */ #passing; // what is handed over now
  #marker = new MessageChannel();
  #gathers = false; // what comes now is handed over later, with more
  #first = 0; // the number of the first of those that are kept
  /** @type {Kept[]} */ #kept = [];
  /** @type {Kept | undefined} */ #last; // what was taken last, if it is kept
  /** @type {Early | undefined} */ #early;

  /**
   * @param {(frames: Frame[]) => void} deliver
   * @param {boolean} reads
   * @param {string | string[]} [protocols] to offer
   */
  constructor(deliver, reads, protocols) {
    this.#deliver = deliver;
    this.#protocols = protocols;
    this.#reads = reads;
    this.#marker.port1.onmessage = this.#gathered;
  }

  /** What the wasm calls. */
  page() {
    return {
      /** @param {string} url @param {number} limit of a message, in bytes */
      socket: (url, limit) => {
        const early = this.#early;
        this.#early = undefined;
        if (early?.url === url) return this.#adopt(early, limit);
        leave(early?.socket);
        return this.#take(this.#make(url), { limit });
      },
      flush: () => this.#flush(),
      /** @param {string} text @param {number} upto */
      deliver: (text, upto) => {
        /** @type {(number | Frame)[]} */
        const items = JSON.parse(text);
        const frames = items.map((f) => (typeof f === 'number' ? this.#at(f).frame : f));
        this.#kept.splice(0, upto - this.#first);
        this.#first = upto;
        this.#deliver(frames);
      },
      /** @param {BroadcastChannel} channel @param {string} head @param {string} numbers */
      post: (channel, head, numbers) => {
        const texts = numbers.split(',').flatMap((n) => {
          const { texts, frame } = this.#at(+n);
          return texts.length ? texts : JSON.stringify(frame);
        });
        channel.postMessage(`${head}[${texts}]}`);
      },
    };
  }

  close() {
    this.#marker.port1.close();
    leave(this.#early?.socket);
  }

  /** @param {string} url */
  #make(url) {
    return new WebSocket(url, this.#protocols);
  }

  /** Makes the socket that the wasm will ask for. @param {string} url */
  open(url) {
    const of = { limit: maxEarlyBytes };
    /** @type {Early} */
    const early = { url, socket: this.#make(url), of };
    this.#early = early;
    early.socket.addEventListener('open', (open) => Object.assign(early, { open }));
    early.socket.addEventListener('close', (close) => Object.assign(early, { close }));
    this.#take(early.socket, of);
  }

  /**
   * Hands over a socket with what it has brought, once those who ask for it listen.
   * @param {Early} early
   * @param {number} limit
   */
  #adopt({ socket, of, open, close }, limit) {
    of.limit = limit;
    queueMicrotask(() => {
      if (open) socket.dispatchEvent(new Event('open'));
      this.#hand();
      if (close) socket.dispatchEvent(new CloseEvent('close', close));
    });
    return socket;
  }

  /** @param {number} n */
  #at(n) {
    return /** @type {Kept} */ (this.#kept[n - this.#first]);
  }

  /**
   * Listens to a socket before anybody else.
   * @param {WebSocket} socket
   * @param {{ limit: number }} of its messages, in bytes
   */
  #take(socket, of) {
    let reads = false;
    let gone = false;
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('message', (event) => {
      if (event === this.#passing) return;
      event.stopImmediatePropagation();
      if (gone) return;
      const { data } = event;
      const size = data.byteLength ?? data.length;
      const { limit } = of;
      if (size > limit || (size * 3 > limit && new Blob([data]).size > limit)) {
        const reason = `message of more than ${limit} bytes`;
        this.#flush();
        socket.close(tooBig, reason);
        socket.dispatchEvent(new CloseEvent('close', { code: tooBig, reason }));
        return;
      }
      if (this.#socket !== socket) this.#flush();
      this.#socket = socket;
      this.#chars += size;
      reads = this.#arrived(data, size, reads);
      const full = this.#chars > maxTaken;
      if (full && this.#early) socket.close(); // it was not asked for anything yet
      if (full || !this.#gathers || !this.#last) this.#hand(); // others than events do not wait
    });
    // Or so it is told: one that was abandoned may be open for long.
    socket.addEventListener('close', () => {
      this.#flush();
      gone = true;
    });
    return socket;
  }

  /**
   * Reads a message.
   * @param {any} data
   * @param {number} size
   * @param {boolean} reads whether frames can be kept
   * @returns {boolean} whether those behind it can
   */
  #arrived(data, size, reads) {
    if (typeof data !== 'string') {
      this.#last = undefined;
      this.#taken.push(size);
      return reads;
    }
    /** @type {Frame | Frame[] | undefined} */
    let message;
    try {
      if (this.#reads) message = JSON.parse(data);
    } catch {}
    const frames = Array.isArray(message) ? message : [message];
    const known = reads ? frames.map(eventsOf) : [];
    if (known[0] && known.every(Boolean)) {
      const texts = message === frames ? [] : [data];
      for (const f of known) this.#keep(/** @type {Frame} */ (f), texts, f === known[0] ? size : 0);
      return true;
    }
    this.#last = undefined;
    this.#taken.push(data);
    return reads || frames.some((f) => f?.t === 'welcome' && f.v > 0);
  }

  /**
   * Keeps the events of a frame, with those before them if they go on from there.
   * @param {Frame} frame
   * @param {string[]} texts
   * @param {number} size
   */
  #keep(frame, texts, size) {
    const { stream, from, data } = frame;
    const last = this.#last;
    if (last && texts.length && last.texts.length && last.told[2] === stream) {
      const [, , , first, n] = last.told;
      if (first + n === from) {
        for (const one of data) last.frame.data.push(one);
        last.texts.push(...texts);
        last.told[1] += size;
        last.told[4] += data.length;
        return;
      }
    }
    const told = [this.#first + this.#kept.length, size, stream, from, data.length];
    this.#last = { frame, texts, told };
    this.#kept.push(this.#last);
    this.#taken.push(told);
  }

  #gathered = () => {
    this.#gathers = false;
    this.#hand();
  };

  /**
   * Hands over what was taken, and gathers what comes next: for a while, or, as a page
   * that is hidden has no such timers, what the browser has already. That comes before
   * the marker.
   */
  #hand() {
    if (!this.#flush() || this.#gathers) return;
    this.#gathers = true;
    if (document.hidden) this.#marker.port2.postMessage(0);
    else setTimeout(this.#gathered, gathering);
  }

  /** Hands over what was taken, if that is anything. */
  #flush() {
    if (!this.#taken.length || this.#early) return false;
    const data = JSON.stringify(this.#taken);
    this.#taken = [];
    this.#last = undefined;
    this.#chars = 0;
    this.#passing = new MessageEvent('message', { data });
    this.#socket?.dispatchEvent(this.#passing);
    return true;
  }
}
