// @ts-check
// One stream of a page: the rules for its position.

import { LongwireError, textOf } from './errors.js';

/** @import * as Types from '../types.d.ts' */
/** @import { Connection } from './connection.js' */
/** @typedef {{ seq: number, epoch: string }} Position */
/** @typedef {Types.StreamStatus['state']} Mode */
/** @typedef {Record<string, any> & { t: string }} Frame */

/**
 * Whether what an answer says of the log reaches back to the position.
 * @param {Record<string, any>} answer
 * @param {Position | null} at
 */
const covers = ({ epoch, first, seq }, at) =>
  at?.epoch === /** @type {string} */ (epoch) && first <= at.seq && at.seq <= seq;

export class Stream {
  /** @type {Mode} */ mode = 'asking';
  /** @type {Position | null} */ pos; // another object when it moves
  error = '';
  /** @type {Position | null} */ #asked = null;
  #kept = false; // the last answer voided a position that it covers, which was asked from again
  #lost = 0; // what was missed is: 1 not said yet, 2 said, and its snapshot is not here yet

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
    this.#asked = this.pos;
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
      this.#call('error', new LongwireError(a.error, `stream "${this.name}": ${a.error}`));
    } else if (a.resync) {
      // A position that was voided together with those of other tabs is kept, and asked
      // from once more: the log still covers it.
      this.#kept = !this.#kept && covers(a, this.pos);
      if (this.#kept) return this.ask();
      if (this.pos) this.#lost ||= 1;
      this.pos = null;
      this.mode = 'resyncing';
    } else if (!this.#asked && !this.#lost) {
      this.pos ??= { seq: a.seq, epoch: a.epoch };
      this.mode = 'following';
    } else if (this.pos && covers(a, this.#asked)) {
      this.mode = 'following';
      this.#kept = false;
      const missed = Math.max(0, a.seq - this.pos.seq);
      this.tab.count('resumed');
      this.tab.count('replayed', missed);
      this.#call('resumed', { stream: this.name, missed });
    } else {
      this.gap({ seq: a.seq, epoch: a.epoch, reason: 'not covered' });
    }
  }

  /** The hub says where a stream stands that has gone quiet. @param {[number, string]} at */
  quiet([seq, epoch]) {
    if (this.mode === 'following' && !covers({ epoch, first: seq, seq: 1 / 0 }, this.pos))
      this.ask();
  }

  /** @param {number} from @param {unknown[]} data */
  events(from, data) {
    for (let i = 0; i < data.length; i++) {
      // A handler may have unsubscribed, or a hole may have been found.
      const { pos } = this;
      if (this.mode !== 'following' || !pos) return;
      const seq = from + i;
      if (seq <= pos.seq) {
        this.tab.count('duplicates');
        continue;
      }
      if (seq > pos.seq + 1) {
        this.tab.problem('hole', `stream "${this.name}": got ${seq} instead of ${pos.seq + 1}`);
        this.ask();
        return;
      }
      this.#call('event', data[i], { stream: this.name, seq, epoch: pos.epoch });
      this.pos = { seq, epoch: pos.epoch };
      this.tab.count('delivered');
    }
  }

  /** @param {Frame} f */
  snapshot(f) {
    if (this.mode !== 'resyncing') return; // meant for somebody else
    if (this.#lost === 1) this.#said({ snapshot: true, reason: 'no longer there' });
    this.#lost = 0;
    this.pos = { seq: f.seq, epoch: f.epoch };
    this.mode = 'following';
    this.tab.count('snapshots');
    this.#call('snapshot', f.state, { stream: this.name, ...this.pos });
  }

  /** @param {{ snapshot?: boolean, reason?: string }} gap */
  #said({ snapshot, reason }) {
    if (snapshot && this.#lost === 2) return; // and its snapshot is still to come
    this.#lost = snapshot ? 2 : 0;
    this.tab.count('gaps');
    this.#call('gap', { stream: this.name, snapshot: !!snapshot, reason: reason ?? '' });
  }

  /** @param {Record<string, any>} f a reset */
  gap(f) {
    if (covers(f, this.pos)) {
      // It is owed to an earlier question, or to another tab: nothing is lost. After the
      // answer the rest follows, if nothing came since.
      if (this.pos !== this.#asked) this.ask();
    } else {
      this.pos = f.snapshot ? null : { seq: f.seq, epoch: f.epoch };
      this.mode = f.snapshot ? 'resyncing' : 'following';
      this.#said(f);
    }
  }
}
