// @ts-check
// What each tab has received: every tab tells the others, apart from the connection
// that they share, so that the strips are a check on it.
import { windowMs } from './demo.charts.js';
import { byId, make } from './demo.dom.js';

/** @import { Status } from './types.d.ts' */
/** @import { Sample } from './demo.charts.js' */

/** How an item came. @typedef {'live' | 'replayed' | 'snapshot'} How */
/**
 * @typedef {object} Report of a tab, posted to all others
 * @property {string} id
 * @property {number} born in ms since 1970
 * @property {Status['role']} role
 * @property {boolean} live
 * @property {[t: number, how: How][]} items of the last minute, by the clock of the server
 * @property {number} events
 * @property {number} twice
 * @property {number} missing events that were jumped over, without a word
 */

const reportMs = 2000;
const forgetMs = 70_000; // browsers let hidden pages do something once a minute
const width = 600;
const more = 3;

/** @type {How[]} */
const hows = ['live', 'replayed', 'snapshot'];

/** @param {number} n */
const none = (n) => (n === 0 ? 'none' : String(n));

/** @type {Record<Status['role'], string>} */
const roles = {
  starting: 'starts',
  follower: 'through the tab that has it',
  claiming: 'takes the connection over',
  hub: 'has the connection',
  'handing over': 'hands the connection over',
  asleep: 'asleep',
  alone: 'has a connection of its own',
};

/** A strip of one minute. @param {Report} tab @param {number} end */
function strip({ items }, end) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', `0 0 ${width} 10`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true'); // the words before it say what counts
  for (const how of hows) {
    const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    path.setAttribute('class', how);
    const at = items.filter((item) => item[1] === how && end - item[0] < windowMs);
    path.setAttribute(
      'd',
      at
        .map(([t]) => `M${((1 - (end - t) / windowMs) * width - 8).toFixed(1)} 0h7.5v10h-7.5z`)
        .join(''),
    );
    svg.append(path);
  }
  return svg;
}

/**
 * Starts it. The result takes what happens to the stream `host`.
 *
 * @param {object} page
 * @param {() => number} page.now the time by the clock of the server
 * @param {(user: string) => void} page.login another tab has logged in
 */
export function startTabs({ now, login }) {
  const channel = new BroadcastChannel('longwire-demo');
  /** @type {Report} */
  const own = {
    id: crypto.getRandomValues(new Uint32Array(2)).join('-'),
    born: performance.timeOrigin,
    role: 'starting',
    live: false,
    items: [],
    events: 0,
    twice: 0,
    missing: 0,
  };
  /** @type {Map<string, { tab: Report, at: number }>} */
  const others = new Map();
  let place = { seq: 0, epoch: '' };
  let replaying = 0; // events that follow a resume
  let left = false; // the page is closed, or kept for the way back

  const show = () => {
    if (document.hidden) {
      return;
    }
    for (const [id, { at }] of others) {
      if (Date.now() - at > forgetMs) {
        others.delete(id);
      }
    }
    const all = [own, ...[...others.values()].map(({ tab }) => tab)];
    all.sort((a, b) => a.born - b.born || (a.id < b.id ? -1 : 1));
    const rows = all.map((tab, i) => {
      const name = make('b', '', `Tab ${i + 1}`, ...(tab === own ? [' (this one)'] : []));
      const role = make('span', tab.role === 'hub' ? 'hub' : '', roles[tab.role]);
      const { events, twice, missing } = tab;
      const got = `${events} ${events === 1 ? 'event' : 'events'}, ${none(twice)} twice, ${none(missing)} missing`;
      return make('li', '', name, role, make('span', 'got', got), strip(tab, now()));
    });
    byId('tabs', HTMLOListElement).replaceChildren(...rows);
  };
  const tell = () => {
    if (left) {
      return;
    }
    own.items = own.items.filter(([t]) => now() - t < windowMs);
    channel.postMessage({ tab: own });
    show();
  };

  channel.onmessage = ({ data }) => {
    if (data?.tab) {
      others.set(data.tab.id, { tab: data.tab, at: Date.now() });
    } else if (data?.bye) {
      others.delete(data.bye);
    } else if (data?.ask) {
      tell();
    } else if (typeof data?.user === 'string') {
      login(data.user);
    }
    show();
  };
  channel.postMessage({ ask: true });
  setInterval(tell, reportMs);
  document.addEventListener('visibilitychange', show);
  window.addEventListener('pagehide', () => {
    left = true; // what the connection still says is not to bring it back
    channel.postMessage({ bye: own.id });
  });
  window.addEventListener('pageshow', () => {
    left = false;
    tell();
  });
  byId('more', HTMLButtonElement).addEventListener('click', openMore);

  return {
    /** @param {Status} status */
    status({ role, state }) {
      if (own.role === role && own.live === (state === 'live')) {
        return;
      }
      own.role = role;
      own.live = state === 'live';
      tell();
    },
    /** @param {string} user */
    login(user) {
      channel.postMessage({ user });
    },
    /** @param {Sample} sample @param {{ seq: number, epoch: string }} meta */
    event({ t }, { seq, epoch }) {
      own.events++;
      if (epoch === place.epoch) {
        own.twice += Number(seq <= place.seq);
        own.missing += Math.max(0, seq - place.seq - 1);
      }
      place = { seq, epoch };
      own.items.push([t, replaying > 0 ? 'replayed' : 'live']);
      replaying = Math.max(0, replaying - 1);
      tell();
    },
    /** @param {Sample[]} samples @param {{ seq: number, epoch: string }} meta */
    snapshot(samples, { seq, epoch }) {
      const had = new Set(own.items.map(([t]) => t));
      for (const { t } of samples) {
        if (!had.has(t)) {
          own.items.push([t, 'snapshot']);
        }
      }
      place = { seq, epoch };
      replaying = 0;
      tell();
    },
    /** What was missed is gone, and that was said. */
    gap() {
      place = { seq: 0, epoch: '' };
    },
    /** @param {number} missed */
    resumed(missed) {
      replaying = missed;
    },
  };
}

/** Opens more tabs, as far as the browser lets a page do that. */
function openMore() {
  let opened = 0;
  while (opened < more && window.open(location.href)) {
    opened++;
  }
  byId('opened', HTMLElement).textContent =
    opened === more
      ? `Opened ${more} tabs. They use the connection that is there.`
      : `The browser let ${opened} of ${more} open: allow pop-ups for this page, or press again.`;
}
