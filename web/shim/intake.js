// @ts-check
// What arrives for the hub of this page. Its messages are read here, once, and the
// payloads of events stay here: the wasm gets in one call what has arrived until now,
// and says in one call whom each frame is for. Crossing that border costs more than
// all else that is done with a message.

import { streamName } from './options.js';

/** @import { Frame } from './stream.js' */

const maxTaken = 256; // messages
const maxTakenChars = 1 << 18;
const tooBig = 4009;

/** @param {unknown} n */
const isNumber = (n) => Number.isSafeInteger(n) && /** @type {number} */ (n) > 0;

/**
 * Stream, first number and count of an event or events frame that is as it should be.
 * @param {Frame | undefined} f
 * @returns {[stream: string, from: number, n: number] | undefined}
 */
const eventsOf = (f) => {
  if (!f) return;
  const { stream = '', t } = f;
  if (stream !== '' && !(typeof stream === 'string' && streamName.test(stream))) return;
  if (t === 'event' && isNumber(f.seq)) return [stream, f.seq, 1];
  if (t === 'events' && isNumber(f.from) && Array.isArray(f.data))
    return [stream, f.from, f.data.length];
  return;
};

export class Intake {
  #deliver;
  #reads; // whether the server may speak a version, whose frames are known
  /** @type {WebSocket | undefined} */ #socket; // what is taken came on
  /** @type {unknown[]} */ #taken = []; // for the wasm
  #chars = 0;
  /** @type {Event | undefined} */ #passing; // what is handed over now
  #marker = new MessageChannel();
  #marked = false;
  #first = 0; // the number of the first frame that is kept
  /** @type {Frame[]} */ #frames = [];
  /** @type {(string | undefined)[]} */ #texts = [];

  /** @param {(frames: Frame[]) => void} deliver @param {boolean} reads */
  constructor(deliver, reads) {
    this.#deliver = deliver;
    this.#reads = reads;
    this.#marker.port1.onmessage = () => {
      this.#marked = false;
      this.#hand();
    };
  }

  /** What the wasm calls. */
  page() {
    return {
      /** @param {string} url @param {number} limit of a message, in bytes */
      socket: (url, limit) => this.#take(new WebSocket(url), limit),
      flush: () => this.#flush(),
      /** @param {string} text @param {number} upto */
      deliver: (text, upto) => {
        /** @type {(number | Frame)[]} */
        const items = JSON.parse(text);
        const frames = items.map((f) => (typeof f === 'number' ? this.#frame(f) : f));
        this.#frames.splice(0, upto - this.#first);
        this.#texts.splice(0, upto - this.#first);
        this.#first = upto;
        this.#deliver(frames);
      },
      /** @param {BroadcastChannel} channel @param {string} head @param {string} numbers */
      post: (channel, head, numbers) => {
        const texts = numbers
          .split(',')
          .map((n) => this.#texts[+n - this.#first] ?? JSON.stringify(this.#frame(+n)));
        channel.postMessage(`${head}[${texts}]}`);
      },
    };
  }

  close() {
    this.#marker.port1.close();
  }

  /** @param {number} n @returns {Frame} */
  #frame(n) {
    return /** @type {Frame} */ (this.#frames[n - this.#first]);
  }

  /**
   * Listens to a socket before anybody else.
   * @param {WebSocket} socket
   * @param {number} limit
   */
  #take(socket, limit) {
    let reads = false;
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('message', (event) => {
      if (event === this.#passing) return;
      event.stopImmediatePropagation();
      const { data } = event;
      const size = data.byteLength ?? data.length;
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
      if (!this.#marked || this.#taken.length >= maxTaken || this.#chars >= maxTakenChars)
        this.#hand();
    });
    socket.addEventListener('close', () => this.#flush());
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
    if (known.length && known.every(Boolean)) {
      for (const [i, of] of known.entries()) {
        this.#taken.push([this.#first + this.#frames.length, i ? 0 : size, ...(of ?? [])]);
        this.#frames.push(/** @type {Frame} */ (frames[i]));
        this.#texts.push(Array.isArray(message) ? undefined : data);
      }
      return true;
    }
    this.#taken.push(data);
    return reads || frames.some((f) => f?.t === 'welcome' && f.v > 0);
  }

  /**
   * Hands over what was taken. All that the browser has by then comes before the
   * marker, and is handed over together.
   */
  #hand() {
    if (!this.#taken.length) return;
    this.#flush();
    if (this.#marked) return;
    this.#marked = true;
    this.#marker.port2.postMessage(0);
  }

  #flush() {
    if (!this.#taken.length) return;
    const data = JSON.stringify(this.#taken);
    this.#taken = [];
    this.#chars = 0;
    this.#passing = new MessageEvent('message', { data });
    this.#socket?.dispatchEvent(this.#passing);
  }
}
