// The tab with the socket goes, in every way there is, in the midst of events.
import { test as inChromium, setLifecycle } from './chromium.js';
import { expect, socketErrors, test } from './fixtures.js';
import { expectReport, publish } from './helpers.js';
import { expectOneHub, expectUnbroken, openTab, openTabs, printTimes, publishing } from './tabs.js';

/** @typedef {import('@playwright/test').BrowserContext} Context */
/** @typedef {import('@playwright/test').Page} Page */
/** @typedef {import('./fixtures.js').Fixtures['server']} Server */

const quickRounds = 10;
const slowRounds = 3;
const stream = 'test/a';

for (const each of [test, inChromium]) {
  each.skip(({ browserName }) => browserName !== 'chromium', 'it is driven by CDP');
  // What is published while a tab cannot hear is to be there when it can.
  each.use({ serverFlags: ['-log-events', '20000', '-log-bytes', String(16 << 20)] });
  each.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors));
}

/**
 * Waits until a tab is live on a hub that it was not live on before, and says when.
 *
 * @param {Page} page
 * @param {number} before how often it was live so far
 */
async function liveAgain(page, before) {
  await expect
    .poll(() => page.evaluate(() => window.lives.length), { timeout: 60_000 })
    .toBeGreaterThan(before);
  return page.evaluate((n) => window.lives[n] ?? 0, before);
}

/**
 * Lets the tab with the socket of three go, again and again, while events are
 * published, and expects the others to miss nothing.
 *
 * @param {object} run
 * @param {Context} run.context
 * @param {Server} run.server
 * @param {number} run.rounds
 * @param {string} run.what
 * @param {string} [run.origin]
 * @param {(page: Page, pages: Page[]) => Promise<() => Promise<boolean>>} run.go what happens to it; the result is
 *   called when the others are live again, and says whether the tab came back
 */
async function rounds({ context, server, rounds, what, origin, go }) {
  const { pages } = await openTabs(context, 3, [stream], {}, origin);
  const published = publishing(server, stream);
  /** @type {number[]} */
  const times = [];
  for (let round = 0; round < rounds; round++) {
    const hub = await expectOneHub(pages, 30_000);
    const [gone] = pages.splice(hub, 1);
    if (!gone) throw new Error('there is no hub');
    const before = await Promise.all(pages.map((page) => page.evaluate(() => window.lives.length)));
    const death = Date.now();
    const back = await go(gone, pages);
    const lives = await Promise.all(pages.map((page, i) => liveAgain(page, before[i] ?? 0)));
    times.push(...lives.map((live) => live - death));
    pages.push((await back()) ? gone : await openTab(context, [stream], {}, origin));
  }
  await expectOneHub(pages, 30_000);
  const last = await published.stop();
  await publish(server, stream, last + 1, 10); // the newest tab may have had none so far
  for (const page of pages) await expectUnbroken(page, stream, last + 10);
  await expectReport(server, { connections: 1 });
  printTimes(`${what}, from there until the others are live`, times);
}

test('the hub is closed', async ({ context, server }) => {
  test.setTimeout(180_000);
  await rounds({
    ...{ context, server, rounds: quickRounds, what: 'closed' },
    go: async (page) => {
      await page.close();
      return async () => false;
    },
  });
});

test('the hub crashes', async ({ context, server }) => {
  test.setTimeout(180_000);
  await rounds({
    ...{ context, server, rounds: quickRounds, what: 'crashed' },
    go: async (page) => {
      const session = await context.newCDPSession(page);
      const crash = page.waitForEvent('crash');
      session.send('Page.crash').catch(() => {}); // nobody is left to answer
      await crash;
      return async () => {
        await page.close();
        return false;
      };
    },
  });
});

test('the main thread of the hub is blocked for 20 s', async ({ context, server }) => {
  test.setTimeout(300_000);
  await rounds({
    ...{ context, server, rounds: slowRounds, what: 'blocked' },
    go: async (page) => {
      const blocked = page.evaluate(() => {
        const end = performance.now() + 20_000;
        while (performance.now() < end);
      });
      return async () => {
        await blocked;
        return true;
      };
    },
  });
});

inChromium('the hub is frozen', async ({ context, server }) => {
  test.setTimeout(180_000);
  await rounds({
    ...{ context, server, rounds: slowRounds, what: 'frozen', origin: new URL(server.url).origin },
    go: async (page, [other]) => {
      await other?.bringToFront();
      await expect.poll(() => page.evaluate(() => document.hidden)).toBe(true);
      await setLifecycle(page, 'frozen');
      return async () => {
        await setLifecycle(page, 'active');
        return true;
      };
    },
  });
});
