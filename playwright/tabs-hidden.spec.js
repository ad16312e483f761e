// Tabs that nobody looks at: their timers are throttled, they are frozen, their process
// is stopped. In a Chromium that does all that, unlike the one of other specs.
import { processOf, setLifecycle, test } from './chromium.js';
import { expect, fetchErrors, socketErrors } from './fixtures.js';
import { expectMessages, expectReport, openPage, publish, status } from './helpers.js';
import {
  connectTab,
  expectOneHub,
  expectUnbroken,
  openTab,
  openTabs,
  printTimes,
  publishing,
} from './tabs.js';

/** @typedef {import('@playwright/test').Page} Page */
/** @typedef {import('@playwright/test').BrowserContext} Context */
/** @typedef {import('./fixtures.js').Fixtures['server']} Server */

const stream = 'test/a';
const hiddenMs = 80_000; // Chromium lets timers go off once a minute by then
const stoppedMs = 20_000;

test.skip(({ browserName }) => browserName !== 'chromium', 'it is driven by CDP');
test.use({ serverFlags: ['-log-events', '20000', '-log-bytes', String(16 << 20)] });
test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors, ...fetchErrors));

/**
 * Opens a tab that becomes the hub, and one before it.
 *
 * @param {Context} context
 * @param {Server} server
 * @param {Partial<import('../web/types.d.ts').Options>} [options]
 */
async function openHidden(context, server, options) {
  const { origin } = new URL(server.url);
  const { pages, hub } = await openTabs(context, 2, [stream], options, origin);
  const [hidden, visible] = /** @type {[Page, Page]} */ (hub ? pages.toReversed() : pages);
  await visible.bringToFront();
  await expect.poll(() => hidden.evaluate(() => document.hidden)).toBe(true);
  expect(await visible.evaluate(() => document.hidden)).toBe(false);
  return { hidden, visible };
}

/**
 * Writes to the log of a page when it falls asleep and wakes.
 *
 * @param {Page} page
 */
async function logSleep(page) {
  await page.evaluate(() => {
    for (const name of ['freeze', 'resume']) {
      document.addEventListener(name, () => window.log.push(name));
    }
  });
}

test('a hidden hub serves a visible tab for long, and has a new connection soon after the old one', async ({
  context,
  server,
}) => {
  test.setTimeout(2 * hiddenMs + 160_000);
  const { hidden, visible } = await openHidden(context, server, {
    ...{ baseMs: 20, capMs: 100, dialTimeoutMs: 200 },
  });
  await hidden.evaluate(() => {
    let [last, longest] = [performance.now(), 0];
    const since = () => {
      longest = Math.max(longest, performance.now() - last);
      return longest;
    };
    setInterval(() => {
      since();
      last = performance.now();
    }, 250);
    Object.assign(window, { since });
  });
  const published = publishing(server, stream);
  const end = Date.now() + hiddenMs;
  let [n, slowest, longest] = [0, 0, 0];
  await expect
    .poll(
      async () => {
        const asked = Date.now();
        await visible.evaluate((i) => window.say(`m${i}`, { echo: i }), ++n);
        slowest = Math.max(slowest, Date.now() - asked);
        if (Date.now() > end)
          longest = await hidden.evaluate(() => /** @type {any} */ (window).since());
        return longest;
      },
      {
        message: 'ms between ticks of a timer of the hidden page',
        timeout: 2 * hiddenMs,
        intervals: [1000],
      },
    )
    .toBeGreaterThan(2000);
  const last = await published.stop();
  for (const page of [hidden, visible]) await expectUnbroken(page, stream, last);
  const answers = await visible.evaluate(() => window.log.filter((line) => /^m/.test(line)));
  expect(answers).toEqual(Array.from({ length: n }, (_, i) => `m${i + 1} acked ${i + 1}`));
  process.stdout.write(
    `hidden: a timer of 250 ms waited ${Math.round(longest)} ms, a message at most ${slowest} ms\n`,
  );

  // Nothing but timers makes these attempts. Without the hub's own clock they take three
  // times as long, and would take a minute each if no visible tab asked after the hub.
  expect((await status(hidden)).role).toBe('hub');
  await server.fault('hang', { state: 'on' });
  const dropped = Date.now();
  await server.fault('drop');
  await expect
    .poll(async () => (await status(visible)).attempt, { timeout: 60_000 })
    .toBeGreaterThanOrEqual(10);
  printTimes('hidden, from a drop to the tenth attempt', [Date.now() - dropped]);
  await server.fault('hang', { state: 'off' });
  await expectOneHub([hidden, visible], 20_000);
  await publish(server, stream, last + 1, 10);
  for (const page of [hidden, visible]) await expectUnbroken(page, stream, last + 10);
});

test('a hub that is frozen has given up the socket before, and follows when it is thawed', async ({
  context,
  server,
}) => {
  test.setTimeout(180_000);
  const { hidden, visible } = await openHidden(context, server);
  await logSleep(hidden);
  const published = publishing(server, stream);
  await hidden.evaluate(() => {
    for (let i = 0; i < 5; i++) void window.say(`m${i}`, { echo: i, delayMs: 300 });
  });
  await expectMessages(server, 1);
  await setLifecycle(hidden, 'frozen');
  await expect.poll(async () => (await status(visible)).role).toBe('hub');
  await expectReport(server, { connections: 1, closeCodes: { 4001: 1 } });
  expect(await hidden.evaluate(() => window.log.at(-1))).toBe('freeze');
  const before = await visible.evaluate(() => window.client.status().totals.delivered);
  await expect
    .poll(() => visible.evaluate(() => window.client.status().totals.delivered))
    .toBeGreaterThan(Number(before));
  await setLifecycle(hidden, 'active');
  await expect.poll(() => hidden.evaluate(() => window.log)).toContain('resume');
  expect(await expectOneHub([hidden, visible])).toBe(1);
  const last = await published.stop();
  for (const page of [hidden, visible]) await expectUnbroken(page, stream, last);
  const want = ['freeze', 'resume', ...Array.from({ length: 5 }, (_, i) => `m${i} acked ${i}`)];
  const words = () =>
    hidden.evaluate(() => window.log.filter((line) => /^(m|freeze|resume$)/.test(line)).toSorted());
  await expect.poll(words).toEqual(want.toSorted());
  expect(Object.values((await server.report()).effects)).toEqual(Array(5).fill(1));
  await expectReport(server, { connections: 1 });
});

test('a hub whose process is stopped is replaced, and is not heeded when it goes on', async ({
  context,
  server,
}) => {
  test.setTimeout(180_000);
  const { hidden, visible } = await openHidden(context, server);
  const pid = await processOf(hidden);
  expect(await processOf(visible)).not.toBe(pid);
  const other = await openTab(context, [stream], {}, new URL(server.url).origin);
  await visible.bringToFront();
  const pages = [hidden, visible, other];
  const stopped = await expectOneHub(pages);
  expect(stopped).toBe(0);
  const { hub } = await status(hidden);
  const published = publishing(server, stream);
  const lives = await visible.evaluate(() => window.lives.length);
  process.kill(pid, 'SIGSTOP');
  const since = Date.now();
  try {
    await expect
      .poll(() => visible.evaluate(() => window.lives.length), { timeout: 60_000 })
      .toBe(lives + 1);
    const live = await visible.evaluate(() => window.lives.at(-1) ?? 0);
    printTimes('stopped, from there until live', [live - since]);
    await expect.poll(() => Date.now() - since, { timeout: 60_000 }).toBeGreaterThan(stoppedMs);
  } finally {
    process.kill(pid, 'SIGCONT');
  }
  const now = await expectOneHub(pages, 30_000);
  expect(now, 'the new hub').not.toBe(0);
  const last = await published.stop();
  for (const page of pages) await expectUnbroken(page, stream, last);
  for (const page of [visible, other]) {
    const heeded = await page.evaluate(() => window.client.history().map((s) => s.hub));
    expect(heeded.lastIndexOf(hub), 'the old hub').toBeLessThan(
      heeded.indexOf((await status(page)).hub),
    );
  }
  await expectReport(server, { connections: 1 });
});

test('a tab that must depose hubs again and again gives up sharing, and says so', async ({
  context,
  server,
}) => {
  test.setTimeout(180_000);
  const origin = new URL(server.url).origin;
  const rogue = await context.newPage();
  await rogue.goto(`${origin}/blank`);
  const page = await context.newPage();
  await page.clock.install();
  await openPage(page, origin);
  await connectTab(page, [stream]);
  await expect.poll(() => tickUntil(page, async () => (await status(page)).state)).toBe('live');
  // Somebody else takes the lock and says nothing.
  await rogue.evaluate(async () => {
    const [lock] = (await navigator.locks.query()).held ?? [];
    const take = () => {
      const deposed = () => window.log.push('deposed');
      navigator.locks
        .request(lock?.name ?? '', { steal: true }, () => new Promise(() => {}))
        .catch(deposed);
    };
    Object.assign(window, { take });
  });
  for (let round = 1; round <= 3; round++) {
    await rogue.evaluate(() => /** @type {any} */ (window).take());
    await expect
      .poll(() => tickUntil(page, () => rogue.evaluate(() => window.log.length)), {
        timeout: 60_000,
      })
      .toBe(round);
    await expect.poll(() => tickUntil(page, async () => (await status(page)).state)).toBe('live');
  }
  await rogue.evaluate(() => /** @type {any} */ (window).take());
  await expect
    .poll(() => tickUntil(page, () => status(page)), { timeout: 60_000 })
    .toMatchObject({
      role: 'alone',
      state: 'live',
      shared: false,
      notShared: 'the hub is silent again and again',
    });
  expect(await rogue.evaluate(() => window.log)).toEqual(['deposed', 'deposed', 'deposed']);
  await publish(server, stream, 1, 5);
  await expectUnbroken(page, stream, 5);
  await expectReport(server, { connections: 1 });
});

/**
 * Lets a second pass in a page with a clock of the test, then looks.
 *
 * @template T
 * @param {Page} page
 * @param {() => Promise<T>} look
 */
async function tickUntil(page, look) {
  await page.clock.runFor(1000);
  return look();
}
