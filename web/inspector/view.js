// @ts-check
// What the inspector shows. Made once; then only what has changed is written.

import { brief } from './report.js';
import { bytes, closeWords, closing, duration, latency, recovery, roles } from './words.js';

/** @import { Status } from '../types.d.ts' */
/** @import { Moved } from './report.js' */

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} [className]
 * @param {...(string | Node)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
const make = (tag, className = '', ...children) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
};

/** @param {Node} node @param {string} text */
const write = (node, text) => {
  if (node.textContent !== text) node.textContent = text; // else a selection in it would go
};

/** @param {string} title @param {...Node} children */
const section = (title, ...children) => make('section', '', make('h3', '', title), ...children);

/** A name, and what it is. @typedef {[name: string, say: (s: Status) => string]} Fact */

/** What is so now. @type {Fact[]} */
const facts = [
  ['in this state for', ({ since }) => (since ? duration(Date.now() - since) : '–')],
  ['attempt', ({ attempt }) => (attempt ? String(attempt) : '–')],
  ['not before', ({ notBefore }) => (notBefore ? `in ${duration(notBefore - Date.now())}` : '–')],
  ['latency', ({ rttMs }) => latency(rttMs)],
  ['outbox', ({ pending }) => (pending ? `${pending} not settled` : 'empty')],
  ['session', ({ session }) => (session ? brief(session) : '–')],
  ['user', ({ user }) => user || 'anonymous'],
  ['this tab', ({ role }) => roles[role]],
  [
    'tabs',
    ({ shared, notShared, tabs, hub }) => {
      if (!shared) return `not shared${notShared && `: ${notShared}`}`;
      return `${tabs}${hub && `, hub ${brief(hub)}`}`;
    },
  ],
  [
    'last close',
    ({ lastClose: c }) =>
      c ? `${c.code}${c.reason && ` ${c.reason}`}: ${closeWords(c.code)}` : 'none',
  ],
];

/** The same, of all that has happened. @type {Fact[]} */
const sums = [
  ['lost', ({ totals }) => recovery(totals.recovery)],
  ['events', ({ totals: t }) => `${t.delivered ?? 0}, ${t.replayed ?? 0} of them replayed`],
  ['gaps', ({ totals: t }) => `${t.gaps ?? 0}, snapshots ${t.snapshots ?? 0}`],
  [
    'traffic',
    ({ totals: t }) => `${bytes(Number(t.bytesIn ?? 0))} in, ${bytes(Number(t.bytesOut ?? 0))} out`,
  ],
];

const columns = ['stream', 'position', 'epoch', 'state', 'quiet for'];
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

/** @param {Status} status */
const line = (status) => {
  const { state, since, cause, reason } = status;
  const time = make('time', '', clock.format(since));
  time.dateTime = new Date(since).toISOString();
  const words = make('span', '', [cause, reason].filter(Boolean).join(': '));
  const meaning = closing(status);
  if (meaning) words.append(make('small', '', meaning));
  return make('li', '', time, make('b', state, state), words);
};

export class View {
  #top = make('div', 'top');
  #state = make('b');
  #reason = make('span');
  #retry = make('div', 'retry');
  #left = make('b');
  #wait = make('progress');
  #stale = make('p', 'stale');
  #said = make('p', 'said');
  #text = make('textarea');
  #body = make('div', 'body');
  /** @type {{ value: Node, say: Fact[1] }[]} */ #facts = [];
  #rows = make('tbody');
  #list = make('ol');
  #shown = /** @type {Status | undefined} */ (undefined); // the last line of the list
  #until = 0;
  ask = make('button');
  copy = make('button', '', 'Copy report');

  /** @param {ShadowRoot} root */
  constructor(root) {
    this.#wait.setAttribute('aria-label', 'time until the next attempt');
    this.#retry.append('next attempt in', this.#left, this.#wait);
    this.ask.type = this.copy.type = 'button';
    this.#said.setAttribute('aria-live', 'polite');
    this.#text.readOnly = true;
    this.#text.setAttribute('aria-label', 'report');
    this.#list.tabIndex = 0; // what scrolls must be reachable by keyboard
    this.#list.setAttribute('aria-label', 'timeline');

    const list = (/** @type {Fact[]} */ of) => {
      const all = of.map(([name, say]) => {
        const value = make('dd');
        this.#facts.push({ value, say });
        return make('div', '', make('dt', '', name), value);
      });
      return make('dl', '', ...all);
    };
    const heads = columns.map((name) => {
      const cell = make('th', '', name);
      cell.scope = 'col';
      return cell;
    });
    const table = make('table', '', make('thead', '', make('tr', '', ...heads)), this.#rows);
    table.setAttribute('aria-label', 'streams');
    const timeline = section('Timeline', this.#list);
    timeline.className = 'wide';

    this.#top.append(
      make('div', 'state', this.#state, this.#reason),
      this.#retry,
      make('div', 'buttons', this.ask, this.copy),
    );
    const streams = make('div', '', section('Streams', table), section('So far', list(sums)));
    this.#body.append(section('Connection', list(facts)), streams, timeline);
    root.append(this.#top, this.#stale, this.#said, this.#text, this.#body);
    this.none();
  }

  /** There is no connection. */
  none() {
    this.#top.dataset.state = 'none';
    write(this.#state, 'no connection');
    write(this.#reason, 'nothing was given to inspect');
    this.#retry.hidden = this.#stale.hidden = this.#body.hidden = true;
    this.ask.hidden = true;
    this.copy.disabled = true;
    this.say('');
    this.#shown = undefined;
  }

  /**
   * @param {Status} status
   * @param {readonly Status[]} history
   * @param {Moved} moved
   */
  show(status, history, moved) {
    const { state, cause, reason, hint, staleMs, nextRetryAt } = status;
    this.#top.dataset.state = state;
    write(this.#state, state);
    write(this.#reason, [cause, reason, hint].filter(Boolean).join(' – '));
    this.#body.hidden = false;
    this.copy.disabled = false;
    this.ask.hidden = state === 'connecting' || cause === 'closed';
    write(this.ask, state === 'live' ? 'Ping' : 'Try now');
    this.#stale.hidden = !staleMs;
    write(
      this.#stale,
      `The server has not heard from its store for ${duration(staleMs)}: until it does nothing new can come.`,
    );
    this.#countdown(nextRetryAt);
    for (const { value, say } of this.#facts) write(value, say(status));
    this.#streams(status, moved);
    this.#timeline(history);
  }

  /** @param {number | null} at */
  #countdown(at) {
    this.#retry.hidden = at === null;
    if (at === null) return;
    const left = Math.max(0, at - Date.now());
    if (at !== this.#until) {
      this.#until = at;
      this.#wait.max = Math.max(1, left);
    }
    this.#wait.value = left;
    write(this.#left, `${(left / 1000).toFixed(1)} s`);
  }

  /** @param {Status} status @param {Moved} moved */
  #streams({ streams }, moved) {
    const all = Object.entries(streams);
    while (this.#rows.rows.length > Math.max(1, all.length)) this.#rows.deleteRow(-1);
    if (!all.length) this.#row(0, ['none yet', '', '', '', '']);
    for (const [i, [name, { state, seq, epoch, error }]] of all.entries()) {
      const last = moved.get(name);
      this.#row(i, [
        name || '(own)',
        seq === null ? '–' : String(seq),
        epoch ? brief(epoch) : '–',
        error ? `${state}: ${error}` : state,
        last === undefined || seq === null ? '–' : duration(Date.now() - last),
      ]);
    }
  }

  /** @param {number} i @param {string[]} cells */
  #row(i, cells) {
    const row = this.#rows.rows[i] ?? this.#rows.insertRow();
    for (const [j, text] of cells.entries()) write(row.cells[j] ?? row.insertCell(), text);
  }

  /** @param {readonly Status[]} history the newest is shown first */
  #timeline(history) {
    const from = this.#shown ? history.lastIndexOf(this.#shown) : -1;
    if (from < 0) this.#list.replaceChildren();
    for (const status of history.slice(from + 1)) this.#list.prepend(line(status));
    while (this.#list.children.length > history.length) this.#list.lastChild?.remove();
    this.#shown = history.at(-1);
  }

  /** Tells what came of the copy. @param {string} text @param {string} [report] to be copied by hand */
  say(text, report = '') {
    write(this.#said, text);
    this.#text.hidden = !report;
    this.#text.value = report;
    if (report) this.#text.select();
  }
}
