// @ts-check
// Where the hub is: in this tab, or in another one that has the lock. Every tab of
// the same name waits for the lock; who gets it loads the wasm and has the
// connection, the others talk to it over a channel.

import { startClock } from './clock.js';
import { LongwireError } from './errors.js';
import { Intake } from './intake.js';
import { load, unload } from './load.js';
import { table } from './states.js';
import { Watch } from './watch.js';

/** @import { Build, Hub } from './load.js' */
/** @import { Frame } from './stream.js' */
/** @import { Happening, State } from './states.js' */
/**
 * @typedef {object} Tab a tab, and what it does with what it hears
 * @property {(frame: Frame) => void} deliver
 * @property {(other: boolean) => void} forget what was asked of the hub is void; other: it is another hub
 * @property {() => Record<string, any>} positions
 * @property {() => Promise<string>} url one to dial
 * @property {(error: Error & { code: string }, posted: boolean) => void} fail
 */

const claimMs = 2000; // of a tab that loads the wasm

/** 128 random bits: unique across tabs and reloads. */
export const randomId = () => crypto.getRandomValues(new Uint32Array(4)).join('-');

const tell = JSON.stringify;

export class Share {
  /** @type {State} */ state = 'starting';
  /** Why the connection is not shared. */ why = '';
  id = randomId();
  rank = { g: 0, h: '' };
  #name = '';
  #tab;
  #build;
  #options;
  /** @type {BroadcastChannel | undefined} */ #channel;
  /** @type {BroadcastChannel | undefined} */ #room; // where the streams are, if not there
  /** @type {Hub | undefined} */ #hub;
  /** @type {AbortController | undefined} */ #wish; // for the lock, held or queued
  #release = () => {};
  #unbind = () => false; // from the end of the wasm
  /** @type {Intake | undefined} */ #intake;
  /** @type {Promise<string> | undefined} */ #url; // of the socket that was made early
  /** @type {(() => void) | undefined} */ #stopClock;
  #watch = new Watch(this);
  /** @type {[EventTarget, string, (e: any) => void][]} */ #listeners = [];

  /** @param {Tab} tab @param {Build} build @param {Record<string, any>} options of the hub */
  constructor(tab, build, options) {
    this.#tab = tab;
    this.#build = build;
    this.#options = options;
  }

  get shared() {
    return !!this.#name && this.state !== 'alone';
  }

  /** @param {Happening} what @returns {boolean} whether it may be */
  #go(what) {
    const next = table[this.state][what];
    if (next) this.state = next;
    return !!next;
  }

  /** @param {string} name of lock and channel @param {string} why there is none */
  start(name, why) {
    this.#name = name;
    this.why = why;
    if (why) {
      void this.#alone();
      return;
    }
    this.#on(window, 'pagehide', () => this.#sleep());
    this.#on(document, 'freeze', () => this.#sleep());
    this.#on(document, 'resume', () => this.#wake());
    this.#on(window, 'pageshow', ({ persisted }) => persisted && this.#wake());
    this.#on(window, 'online', () => this.#kick('online'));
    this.#on(window, 'offline', () => this.#kick('offline'));
    this.#on(document, 'visibilitychange', () => this.#seen());
    this.#join();
  }

  /** @param {EventTarget} target @param {string} name @param {(e: any) => void} fn */
  #on(target, name, fn) {
    target.addEventListener(name, fn);
    this.#listeners.push([target, name, fn]);
  }

  /** @param {string} text a frame for the hub, wherever it is */
  frame(text) {
    if (this.#hub) this.#hub.frame(text);
    else this.#post(text);
  }

  /** @param {string} text */
  #post(text) {
    const { g, h } = this.rank;
    const to = h && `"to":"${h}",`; // of two hubs that hear it one takes it
    this.#channel?.postMessage(`{"g":${g},"i":"${this.id}",${to}"f":${text}}`);
  }

  /** @param {object} [more] */
  here(more) {
    const { g, h } = this.rank;
    const who = { known: g, h: h || undefined, visible: !document.hidden };
    this.frame(tell({ t: 'here', ...who, ...this.#tab.positions(), ...more }));
  }

  #join() {
    if (!this.#go('join')) return;
    this.#listen();
    this.#lock();
    this.here({ ask: true });
  }

  #listen() {
    this.#channel ??= new BroadcastChannel(this.#name);
    this.#channel.onmessage = ({ data }) => this.#hears(data);
    this.#watch.hear(true);
    this.#watch.start();
  }

  /** @param {boolean} [steal] */
  #lock(steal) {
    const wish = new AbortController();
    this.#wish = wish;
    const held = () => {
      if (wish.signal.aborted || !this.#go('granted')) return;
      void this.#claim(wish);
      return new Promise((resolve) => {
        this.#release = () => resolve(undefined);
      });
    };
    const options = steal ? { steal } : { signal: wish.signal };
    navigator.locks.request(this.#name, options, held).catch(() => {
      if (this.#wish === wish && !wish.signal.aborted) this.#deposed('deposed');
    });
  }

  /** Gives the lock up, held or queued. */
  #unlock() {
    this.#wish?.abort();
    this.#wish = undefined;
    this.#release();
  }

  /** @param {AbortController} wish */
  async #claim(wish) {
    const claim = setInterval(() => this.#post('{"t":"claim"}'), claimMs);
    this.#post('{"t":"claim"}');
    try {
      const loading = load(this.#build);
      loading.catch(() => {}); // until it is waited for
      const locks = await navigator.locks.query();
      if (this.#wish !== wish) return;
      const here = [...(locks.held ?? []), ...(locks.pending ?? [])];
      const others = here.filter(({ name }) => name === this.#name).length - 1;
      if (!others) this.#ahead();
      const module = await loading;
      if (this.#wish !== wish) return;
      const { hub } = this.#open(module, {
        channel: this.#name,
        hubId: randomId(),
        tabId: this.id,
        others,
        holds: () => this.#holds(wish),
      });
      this.#go('ready');
      this.#channel?.close();
      this.#channel = undefined;
      this.#follow(0);
      this.here(); // what it knows of the hub before
      hub.frame('{"t":"start"}');
      this.#seen();
    } catch (error) {
      if (this.#wish !== wish || !this.#go('failed')) return;
      this.#leave();
      this.#tab.fail(/** @type {any} */ (error), true);
    } finally {
      clearInterval(claim);
    }
  }

  /** Whether this tab still has the lock. @param {AbortController} wish */
  async #holds(wish) {
    await navigator.locks.query();
    // One that was stolen has made its promise fail by now.
    return this.#wish === wish && this.state === 'hub';
  }

  #takeIn() {
    const { dialect = 'longwire', protocols } = this.#options;
    const deliver = (/** @type {Frame[]} */ frames) => frames.forEach((f) => void this.#own(f));
    this.#intake = new Intake(deliver, dialect === 'longwire', protocols);
    return this.#intake;
  }

  /**
   * Has the first socket made while the wasm loads, unless that may be one to wait
   * with: what comes after a connection of before is for the hub to judge.
   */
  #ahead() {
    const { session, attempt, notBefore } = this.#tab.positions();
    if (session || attempt || notBefore) return;
    const intake = this.#takeIn();
    this.#url = this.#tab.url();
    this.#url.then((url) => this.#intake === intake && intake.open(url)).catch(() => {}); // the hub meets it too
  }

  /** The URL of the socket that was made early, once. */
  takeURL() {
    const url = this.#url;
    this.#url = undefined;
    return url;
  }

  /** @param {import('./load.js').HubModule} module @param {object} [more] */
  #open(module, more) {
    const intake = this.#intake ?? this.#takeIn();
    const hub = module.open({ ...this.#options, ...more }, intake.page());
    if (typeof hub === 'string') throw new LongwireError('options', hub);
    this.#hub = hub;
    const died = () => this.#died();
    module.died.add(died);
    this.#unbind = () => module.died.delete(died);
    return { hub };
  }

  /** Lets go of the hub of this tab. */
  #drop() {
    const hub = this.#hub;
    this.#unbind();
    this.#intake?.close();
    this.#intake = this.#url = undefined;
    this.#hub = undefined;
    return hub;
  }

  /** The wasm has stopped. */
  #died() {
    unload();
    this.#drop();
    if (this.state === 'hub' && this.#watch.mayTry()) {
      this.#deposed('failed');
      return;
    }
    this.why ||= 'the wasm stops again and again';
    if (this.#go('solo')) this.#leave(); // another tab may have more luck
    this.#tab.fail(new LongwireError('hub died', 'the wasm has stopped'), true);
  }

  /** The hub of this tab says something. @param {Frame} f */
  #own(f) {
    if (f.t === 'yield') {
      if (this.#go('yield')) this.#deposed('released');
      return;
    }
    if (f.t === 'hub' && f.h) this.#heed(f.g, f.h);
    this.#tab.deliver(f);
  }

  /** @param {number} g @param {string} h */
  #heed(g, h) {
    if (g === this.rank.g && h === this.rank.h) return;
    const other = h !== this.rank.h;
    this.rank = { g, h };
    this.#tab.forget(other);
  }

  /** @param {string} data */
  #hears(data) {
    /** @type {{ g: number, h?: string, i?: string, to?: string, f: Frame | Frame[] }} */
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      return; // of somebody else: any script of the origin can post here
    }
    const { g, h, to, f: said } = message ?? {};
    const frames = Array.isArray(said) ? said : [said];
    const [f] = frames;
    if (!f) return;
    if (!h) {
      if (f.t === 'claim') this.#watch.hear();
      return;
    }
    const { rank } = this;
    if (g < rank.g || (g === rank.g && h < rank.h)) {
      if (f.t === 'hub') this.here(); // it is to know that there is a higher one
      return;
    }
    const other = h !== rank.h;
    const higher = other || g !== rank.g; // as it is not lower
    this.#watch.hear(other || f.state === 'live' || f.state === 'ended');
    this.#heed(g, h);
    if (f.t === 'hub') this.#follow(f.room ?? 0);
    // Its lock is for this tab: of those that wait any could be next.
    if (f.t === 'yield' && this.state === 'follower' && this.#watch.took) this.#seize();
    if (higher && f.t !== 'hub') this.resume();
    else if (!to || to === this.id) frames.forEach((f) => void this.#tab.deliver(f));
  }

  /** Hears the streams in the room where the hub posts them. @param {number} room */
  #follow(room) {
    const name = room ? `${this.#name}/${room}` : '';
    if (name === (this.#room?.name ?? '')) return;
    this.#room?.close();
    this.#room = name ? new BroadcastChannel(name) : undefined;
    if (this.#room) this.#room.onmessage = ({ data }) => this.#hears(data);
  }

  resume() {
    this.frame(tell({ t: 'resume', ...this.#tab.positions() }));
  }

  /** The hub of this tab is not the hub any more. @param {Happening} what */
  #deposed(what) {
    if (!this.#go(what)) return;
    const hub = this.#drop();
    this.#listen();
    hub?.resign?.();
    this.#tick();
    this.#unlock();
    this.#lock();
    this.here({ ask: true });
  }

  /** Gives up everything that others may need. */
  #leave() {
    const hub = this.#drop();
    if (hub) hub.handOver?.();
    else this.#post('{"t":"bye"}');
    this.#unlock();
    this.#channel?.close();
    this.#channel = undefined;
    this.#follow(0);
    this.#tick();
    this.#watch.close();
  }

  #sleep() {
    if (!this.#go('sleep')) return;
    this.#leave();
    this.rank = { g: 0, h: '' }; // whatever hub it meets next has not heard of it
    this.#tab.forget(true);
  }

  #wake() {
    if (this.#go('wake')) this.#join();
  }

  close() {
    for (const [target, name, fn] of this.#listeners) target.removeEventListener(name, fn);
    if (this.state === 'alone') this.#drop()?.close();
    else this.#leave();
    this.state = 'asleep';
  }

  async #alone() {
    this.#go('solo');
    try {
      this.#ahead();
      const module = await load(this.#build);
      if (this.state !== 'alone') return; // closed meanwhile
      this.#open(module).hub.frame('{"t":"start"}');
    } catch (error) {
      this.#drop();
      this.#tab.fail(/** @type {any} */ (error), true);
    }
  }

  /** Starts a connection that has ended because the wasm did not load. */
  again() {
    if (this.#hub || this.state !== 'alone') return false;
    void this.#alone();
    return true;
  }

  /** @param {string} why */
  #kick(why) {
    if (this.state === 'follower') this.frame(tell({ t: 'kick', why })); // a hub hears it itself
  }

  #seen() {
    this.#tick();
    if (this.state !== 'follower') return;
    this.#watch.start();
    this.here();
    if (!document.hidden) this.#kick('visible');
  }

  /** Runs the clock while a hub is hidden. */
  #tick() {
    if (!this.#hub || !document.hidden) {
      this.#stopClock?.();
      this.#stopClock = undefined;
    } else this.#stopClock ??= startClock(() => this.#hub?.tick?.());
  }

  /** Takes the lock, whoever has it. */
  #seize() {
    this.#wish?.abort();
    this.#lock(true);
  }

  async depose() {
    const { rank } = this;
    // The question alone makes Chromium drop a page that sleeps with the lock.
    await navigator.locks.query();
    if (this.state !== 'follower' || rank !== this.rank || this.#watch.tried) return;
    if (this.#watch.mayTry()) {
      this.#seize();
      return;
    }
    this.#leave();
    this.#tab.forget(true);
    this.why = 'the hub is silent again and again';
    await this.#alone();
  }
}
