// @ts-check
// What a follower hears of the hub, and what it does about one that is silent, or has
// no connection.

const beatMs = 5000; // of a hub
const lateMs = 2000; // more than that, and the beat is missed
const silenceMs = 3000; // after it was asked for a word
const takeMs = 15_000; // without a connection, and a hidden hub is to let a visible tab try
const stealEveryMs = 30_000;
const stealWindowMs = 600_000;
const maxSteals = 3;

const now = () => performance.now();

/**
 * @typedef {object} Follower a tab, if that is its state
 * @property {string} state
 * @property {(frame: string) => void} frame
 * @property {(more: object) => void} here
 * @property {() => void} depose
 */

export class Watch {
  #heard = 0; // when a hub was, by performance.now, as all times here
  #up = 0; // when a hub was last known to be connected, or new
  #took = -Infinity; // when a hidden hub was asked to give way
  #asked = 0; // since when the hub has been asked for a word, 0: it has not
  #ticked = 0;
  /** @type {number[]} */ #steals = [];
  /** @type {any} */ #timer = 0;
  #follower;

  /** @param {Follower} follower */
  constructor(follower) {
    this.#follower = follower;
  }

  /** Starts, or starts anew; a tab that is hidden leaves it to the others. */
  start() {
    this.close();
    this.#asked = 0;
    this.#ticked = now();
    if (!document.hidden) this.#timer = setInterval(() => this.#look(), 1000);
  }

  /** Somebody speaks for the hub. @param {boolean} [up] it is connected, has ended, or is new */
  hear(up) {
    this.#heard = now();
    if (up) this.#up = this.#heard;
  }

  close() {
    clearInterval(this.#timer);
  }

  /** Whether a hub that gives way does it for this tab. */
  get took() {
    return now() - this.#took < silenceMs;
  }

  /** Whether a hub may be deposed, or replaced after it died, now: not too often. */
  mayTry() {
    this.#steals = this.#steals.filter((t) => now() - t < stealWindowMs);
    return this.#steals.length < maxSteals && !!this.#steals.push(now());
  }

  /** Whether the last time was just now; of no last time the difference is NaN. */
  get tried() {
    return now() - /** @type {number} */ (this.#steals.at(-1)) < stealEveryMs;
  }

  #look() {
    const at = now();
    const late = at - this.#ticked > 2000;
    this.#ticked = at;
    if (this.#follower.state !== 'follower') return;
    if (at - this.#up > takeMs && at - this.#took > stealEveryMs) {
      this.#took = at;
      this.#follower.frame('{"t":"take"}'); // a hub that is visible does not listen
    }
    if (late) this.#heard = at; // a timer that ran late says nothing about the hub
    if (this.#heard > this.#asked) this.#asked = 0;
    if (!this.#asked && at - this.#heard >= beatMs + lateMs) {
      this.#asked = at;
      this.#follower.here({ ask: true });
    } else if (this.#asked && at - this.#asked >= silenceMs) {
      this.#heard = at;
      this.#follower.depose();
    }
  }
}
