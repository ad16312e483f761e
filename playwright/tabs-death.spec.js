// The tab with the socket goes, in every way there is, in the midst of events.
import { test as inChromium, setLifecycle } from './chromium.js';
import { expect, socketErrors, test } from './fixtures.js';
import { expectReport, publish } from './helpers.js';
import { expectOneHub, expectUnbroken, openTab, openTabs, printTimes, publishing } from './tabs.js';

/** @typedef {import('@playwright/test').BrowserContext} Context */
/** @typedef {import('@playwright/test').Page} Page */
/** @typedef {import('./fixtures.js').Fixtures['server']} Server */

const times = 10;
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
 * @param {string} run.what
 * @param {string} [run.origin]
 * @param {(page: Page, pages: Page[]) => Promise<() => Promise<boolean>>} run.go what happens to it; the result is
 *   called when the others are live again, and says whether the tab came back
 */
async function rounds({ context, server, what, origin, go }) {
  const { pages } = await openTabs(context, 3, [stream], {}, origin);
  const published = publishing(server, stream);
  /** @type {number[]} */
  const took = [];
  for (let round = 0; round < times; round++) {
    const hub = await expectOneHub(pages, 30_000);
    const [gone] = pages.splice(hub, 1);
    if (!gone) throw new Error('there is no hub');
    const before = await Promise.all(pages.map((page) => page.evaluate(() => window.lives.length)));
    const death = Date.now();
    const back = await go(gone, pages);
    const lives = await Promise.all(pages.map((page, i) => liveAgain(page, before[i] ?? 0)));
    took.push(...lives.map((live) => live - death));
    pages.push((await back()) ? gone : await openTab(context, [stream], {}, origin));
  }
  await expectOneHub(pages, 30_000);
  const last = await published.stop();
  await publish(server, stream, last + 1, 10); // the newest tab may have had none so far
  for (const page of pages) await expectUnbroken(page, stream, last + 10);
  await expectReport(server, { connections: 1 });
  printTimes(`${what}, from there until the others are live`, took);
}

test('the hub is closed', async ({ context, server }) => {
  test.setTimeout(180_000);
  await rounds({
    ...{ context, server, what: 'closed' },
    go: async (page) => {
      await page.close();
      return async () => false;
    },
  });
});

test('the hub crashes', async ({ context, server }) => {
  test.setTimeout(180_000);
  await rounds({
    ...{ context, server, what: 'crashed' },
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
    ...{ context, server, what: 'blocked' },
    go: async (page) => {
      const before = await page.evaluate(() => window.lives.length);
      const blocked = page.evaluate(() => {
        const end = performance.now() + 20_000;
        while (performance.now() < end);
      });
      return async () => {
        await blocked;
        // It finds the other hub by itself. But a tab deposes only three hubs in ten
        // minutes; so the one that was deposed, which deposed the last, makes room.
        await liveAgain(page, before);
        await page.close();
        return false;
      };
    },
  });
});

inChromium('the hub is frozen', async ({ context, server }) => {
  test.setTimeout(180_000);
  await rounds({
    ...{ context, server, what: 'frozen', origin: new URL(server.url).origin },
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
