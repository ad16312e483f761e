// @ts-check
// <longwire-inspector>: shows where a connection stands. One file when it is built,
// loaded only by who wants it. Types and documentation: types.inspector.d.ts.
import { report } from './inspector/report.js';
import { css } from './inspector/style.js';
import { View } from './inspector/view.js';

// The build replaces this line.
const VERSION = 'dev';

/** @import * as Types from './types.d.ts' */
/** @import * as Own from './types.inspector.d.ts' */

const everyMs = 200; // the countdown, and how long streams have been quiet

/** @type {CSSStyleSheet | undefined} */
let sheet;

const style = () => {
  sheet ??= new CSSStyleSheet();
  if (!sheet.cssRules.length) sheet.replaceSync(css);
  return sheet;
};

/** @param {any} value @returns {value is Types.Connection} */
const isConnection = (value) =>
  ['status', 'history', 'on', 'reconnectNow'].every((name) => typeof value?.[name] === 'function');

// Where there is no DOM it can be imported too.
const Base = /** @type {typeof HTMLElement} */ (globalThis.HTMLElement ?? class {});

/** @implements {Own.LongwireInspector} */
export class LongwireInspector extends Base {
  /** @type {Types.Connection | null} */ #connection = null;
  #view;
  /** @type {ReturnType<typeof setInterval> | undefined} */ #timer;
  #off = () => {};
  /** @type {import('./inspector/report.js').Moved} */ #moved = new Map();
  /** @type {Map<string, string>} */ #places = new Map();
  #measured = ''; // the session of which the latency was asked

  constructor() {
    super();
    const root = this.attachShadow({ mode: 'open' });
    root.adoptedStyleSheets = [style()];
    this.#view = new View(root);
    this.#view.ask.addEventListener('click', () => this.#connection?.reconnectNow());
    this.#view.copy.addEventListener('click', () => void this.#copy());
  }

  get connection() {
    return this.#connection;
  }

  set connection(connection) {
    if (connection != null && !isConnection(connection))
      throw new TypeError(
        'longwire: connection of longwire-inspector takes what connect() returns, or null',
      );
    if (connection === this.#connection) return;
    this.#stop();
    this.#connection = connection ?? null;
    this.#moved.clear();
    this.#places.clear();
    this.#measured = '';
    this.#view.none();
    if (this.isConnected) this.#start();
  }

  connectedCallback() {
    // It was set while this class was not loaded yet.
    if (Object.hasOwn(this, 'connection')) {
      const { connection } = this;
      // @ts-expect-error: the property of the element, not the accessor
      delete this.connection;
      this.connection = connection;
    }
    this.#start();
  }

  disconnectedCallback() {
    this.#stop();
  }

  report() {
    const lw = this.#connection;
    return lw ? report(VERSION, lw.status(), lw.history(), this.#moved) : '';
  }

  #start() {
    this.#stop();
    if (!this.#connection) return;
    // Not to errors: the page would no longer hear of those that nobody listens to.
    this.#off = this.#connection.on('state', () => this.#look());
    this.#timer = setInterval(() => this.#look(), everyMs);
    this.#look();
  }

  #stop() {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#off();
    this.#off = () => {};
  }

  #look() {
    const lw = this.#connection;
    if (!lw) return;
    const status = lw.status();
    this.#watch(status);
    this.#measure(lw, status);
    if (!document.hidden) this.#view.show(status, lw.history(), this.#moved);
  }

  /** Notes which streams have moved. @param {Types.Status} status */
  #watch({ streams }) {
    for (const [name, { seq, epoch }] of Object.entries(streams)) {
      const place = `${seq} ${epoch}`;
      if (this.#places.get(name) === place) continue;
      this.#places.set(name, place);
      this.#moved.set(name, Date.now());
    }
  }

  /** Asks for the latency, once in each session. @param {Types.Connection} lw @param {Types.Status} status */
  #measure(lw, { state, session, since, rttMs }) {
    const key = `${session} ${since}`;
    if (state !== 'live' || rttMs !== null || this.#measured === key) return;
    this.#measured = key;
    lw.reconnectNow(); // a live link is verified by a ping
  }

  async #copy() {
    const text = this.report();
    try {
      await navigator.clipboard.writeText(text);
      this.#view.say('The report is in the clipboard.');
    } catch {
      this.#view.say('Copying is not allowed here. This is the report:', text);
    }
  }
}

if (globalThis.customElements && !customElements.get('longwire-inspector'))
  customElements.define('longwire-inspector', LongwireInspector);
