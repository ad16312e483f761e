// Several tabs of one browser that share a connection.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from './fixtures.js';
import { openPage, publish, status } from './helpers.js';

/** @typedef {import('@playwright/test').BrowserContext} Context */
/** @typedef {import('@playwright/test').Page} Page */
/** @typedef {import('./fixtures.js').Fixtures['server']} Server */

export const shared = { share: 'demo', identity: '' };

/**
 * Opens a tab that follows streams over the shared connection. It has all that
 * openPage gives it, and the times at which it was live on a new hub as `window.lives`.
 *
 * @param {Context} context
 * @param {string[]} streams
 * @param {Partial<import('../web/types.d.ts').Options>} [options]
 * @param {string} [origin] as that of openPage
 */
export async function openTab(context, streams, options = {}, origin) {
  const page = await context.newPage();
  await openPage(page, origin);
  await connectTab(page, streams, options);
  return page;
}

/**
 * Has a page of openPage connect as openTab does.
 *
 * @param {Page} page
 * @param {string[]} streams
 * @param {Partial<import('../web/types.d.ts').Options>} [options]
 */
export async function connectTab(page, streams, options = {}) {
  await page.evaluate(
    ([names, more]) => {
      window.lives = [];
      let on = '';
      window.follow(names, more).on('state', ({ state, hub }) => {
        if (state !== 'live' || hub === on) return;
        on = hub;
        window.lives.push(Date.now());
      });
    },
    /** @type {const} */ ([streams, { ...shared, ...options }]),
  );
}

/** @param {Page} page */
export async function expectLive(page) {
  await expect.poll(() => page.evaluate(() => window.client.state)).toBe('live');
}

/**
 * Waits until all tabs are live on one hub and follow their streams, and returns
 * which of them it is.
 *
 * @param {Page[]} pages
 * @param {number} [timeout] in ms
 * @returns {Promise<number>}
 */
export async function expectOneHub(pages, timeout = 20_000) {
  let roles = /** @type {string[]} */ ([]);
  await expect
    .poll(
      async () => {
        const all = await Promise.all(pages.map(status));
        roles = all.map(({ role }) => role);
        const streams = all.flatMap((one) => Object.values(one.streams));
        return {
          states: [...new Set(all.map(({ state }) => state))],
          waiting: streams.filter(({ state }) => state !== 'following').length,
          hubs: new Set(all.map(({ hub }) => hub)).size,
          tabs: all.map(({ tabs }) => tabs),
          roles: roles.toSorted(),
        };
      },
      { timeout },
    )
    .toEqual({
      states: ['live'],
      waiting: 0,
      hubs: 1,
      tabs: pages.map(() => pages.length),
      roles: [...pages.slice(1).map(() => 'follower'), 'hub'],
    });
  return roles.indexOf('hub');
}

/**
 * Opens tabs and waits until they share one connection.
 *
 * @param {Context} context
 * @param {number} n
 * @param {string[]} streams
 * @param {Partial<import('../web/types.d.ts').Options>} [options]
 * @param {string} [origin] as that of openPage
 */
export async function openTabs(context, n, streams, options, origin) {
  const pages = [];
  for (let i = 0; i < n; i++) pages.push(await openTab(context, streams, options, origin));
  return { pages, hub: await expectOneHub(pages) };
}

/**
 * Publishes 200 events a second, of those that `events` expects, until it is stopped.
 *
 * @param {Server} server
 * @param {string} stream that has no others
 */
export function publishing(server, stream) {
  let [last, on] = [0, true];
  const loop = (async () => {
    const start = performance.now();
    while (on) {
      await publish(server, stream, last + 1, 10);
      last += 10;
      await delay(Math.max(0, start + last * 5 - performance.now()));
    }
  })();
  loop.catch(() => {}); // stop tells
  return {
    /** Resolves with the number of the last event. */
    async stop() {
      on = false;
      await loop;
      return last;
    },
  };
}

/**
 * Waits until a tab has that event of a stream, and expects it to have had each
 * once and in order, from its first one on.
 *
 * @param {Page} page
 * @param {string} stream
 * @param {number} last
 */
export async function expectUnbroken(page, stream, last) {
  const seen = () =>
    page.evaluate((name) => {
      const numbers = window.log
        .map((line) => new RegExp(`^${name} (\\d+) {"n":\\1}$`).exec(line)?.[1])
        .filter((number) => number !== undefined)
        .map(Number);
      const broken = numbers.filter((number, i) => i > 0 && number !== (numbers[i - 1] ?? 0) + 1);
      const lost = window.log.filter((line) => / (gap|snapshot|refused)|^error/.test(line));
      return { last: numbers.at(-1) ?? 0, broken, lost };
    }, stream);
  await expect.poll(async () => (await seen()).last).toBe(last);
  expect(await seen()).toEqual({ last, broken: [], lost: [] });
}

/**
 * Prints median and highest of times.
 *
 * @param {string} what
 * @param {number[]} times in ms
 */
export function printTimes(what, times) {
  const sorted = times.toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)];
  process.stdout.write(
    `${what}: median ${median} ms, max ${sorted.at(-1)} ms of ${times.length}\n`,
  );
}

/**
 * Has a page believe that nobody looks at it: those of Playwright are always visible.
 *
 * @param {Page} page
 */
export async function hide(page) {
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { value: true });
    Object.defineProperty(document, 'visibilityState', { value: 'hidden' });
    document.dispatchEvent(new Event('visibilitychange'));
  });
}

/**
 * Waits until the last event of a stream is that one, and says which came. Other
 * streams may write to the log meanwhile.
 *
 * @param {Page} page
 * @param {string} stream
 * @param {number} last
 */
export async function received(page, stream, last) {
  const lines = () =>
    page.evaluate(
      (name) => window.log.filter((line) => new RegExp(`^${name} \\d`).test(line)),
      stream,
    );
  await expect.poll(async () => (await lines()).at(-1)).toBe(`${stream} ${last} {"n":${last}}`);
  return lines();
}
