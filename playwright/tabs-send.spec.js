// Messages of several tabs over one connection: each settled once, each with one effect at most.
import { expect, expectLog, socketErrors, test } from './fixtures.js';
import { expectMessages, expectReport, expectStatus } from './helpers.js';
import { expectOneHub, openTab, openTabs, shared } from './tabs.js';

/** @typedef {import('@playwright/test').Page} Page */
/** @typedef {import('./fixtures.js').Fixtures['server']} Server */

test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors));

/** @param {Server} server */
const effects = async (server) => Object.values((await server.report()).effects);

/**
 * Opens two tabs and returns the one with the socket, and the other one.
 *
 * @param {import('@playwright/test').BrowserContext} context
 * @param {Partial<import('../web/types.d.ts').Options>} [options]
 */
async function openTwo(context, options) {
  const pages = [await openTab(context, [], options), await openTab(context, [], options)];
  const i = await expectOneHub(pages);
  return { hub: /** @type {Page} */ (pages[i]), other: /** @type {Page} */ (pages[1 - i]) };
}

/**
 * Breaks the connection and lets nobody back in.
 *
 * @param {Page[]} pages
 * @param {Server} server
 */
async function goDown(pages, server) {
  await server.fault('refuse', { status: 503 });
  await server.fault('drop');
  for (const page of pages) await expectStatus(page, { lastClose: { code: 1006 } });
}

test('the tab with the socket dies with messages of another one waiting, written and accepted', async ({
  context,
  server,
}) => {
  const { hub, other } = await openTwo(context);
  // The server handles one after the other, and four of ten fill the window.
  await other.evaluate(() => {
    for (let i = 0; i < 10; i++) void window.say(`m${i}`, { echo: i, delayMs: 400 });
  });
  await expect
    .poll(() => other.evaluate(() => window.log.filter((line) => /acked/.test(line)).length))
    .toBeGreaterThanOrEqual(2);
  await hub.close();
  await expect
    .poll(() => other.evaluate(() => window.log.filter((line) => /^m/.test(line))), {
      timeout: 20_000,
    })
    .toEqual(Array.from({ length: 10 }, (_, i) => `m${i} acked ${i}`));
  expect(await effects(server)).toEqual(Array(10).fill(1));
  await expectStatus(other, { pending: 0, role: 'hub' });
});

test('two hundred messages of each of three tabs arrive in order, each once', async ({
  context,
  server,
}) => {
  const { pages } = await openTabs(context, 3, []);
  await Promise.all(
    pages.map((page, tab) =>
      page.evaluate((name) => {
        for (let i = 0; i < 200; i++) void window.say(`${name}-${i}`, { echo: i });
      }, tab),
    ),
  );
  for (const [tab, page] of pages.entries()) {
    await expect
      .poll(() => page.evaluate(() => window.log.filter((line) => / /.test(line))), {
        timeout: 20_000,
      })
      .toEqual(Array.from({ length: 200 }, (_, i) => `${tab}-${i} acked ${i}`));
  }
  const all = await effects(server);
  expect(all).toHaveLength(600);
  expect(new Set(all)).toEqual(new Set([1]));
  await expectReport(server, { connections: 1, upgrades: 1 });
});

test('a message of a tab without the socket is withdrawn, and it is said whether it may have gone', async ({
  context,
  server,
}) => {
  const { hub, other } = await openTwo(context);
  await other.evaluate(() => {
    const abort = new AbortController();
    void window.say('written', { echo: 1, delayMs: 2000 }, { signal: abort.signal });
    Object.assign(window, { abort });
  });
  await expectReport(server, { messages: 1 });
  await other.evaluate(() => /** @type {any} */ (window).abort.abort());
  await expectLog(other, ['live', 'written cancelled unknown']);
  await server.fault('reset');
  await goDown([hub, other], server);
  await other.evaluate(() => {
    const abort = new AbortController();
    void window.say('waiting', { echo: 2 }, { signal: abort.signal });
    void window.say('kept', { echo: 3 });
    abort.abort();
  });
  await server.fault('refuse', { status: 'off' });
  await expectLog(other, [
    'live',
    'written cancelled unknown',
    'down 1006',
    'waiting cancelled not-sent',
    'live',
    'kept acked 3',
  ]);
  expect(await effects(server)).toEqual([1]);
  await expectLog(hub, ['live', 'down 1006', 'live']);
});

test('a server that has lost its memory never gets a message of a tab a second time', async ({
  context,
  server,
}) => {
  const { hub, other } = await openTwo(context);
  await server.fault('mute', { dir: 'out', which: 'open' });
  await other.evaluate(() => {
    void window.say('one', { chat: 'one' });
    void window.say('two', { chat: 'two' });
  });
  await expectReport(server, { messages: 2 });
  await server.fault('forget');
  await expectLog(other, [
    'live',
    'down 1006',
    'live',
    'one unknown unknown',
    'two unknown unknown',
  ]);
  await expectOneHub([hub, other]);
  await other.evaluate(() => window.say('three', { echo: 3 }));
  expect(await effects(server)).toEqual([1, 1, 1]);
});

test('a server that has lost its memory with the tab that had the socket gone as well', async ({
  context,
  server,
}) => {
  const { hub, other } = await openTwo(context);
  await server.fault('mute', { dir: 'out', which: 'open' });
  await other.evaluate(() => void window.say('one', { chat: 'one' }));
  await expectReport(server, { messages: 1 });
  await goDown([hub, other], server);
  await hub.close();
  await expectStatus(other, { role: 'hub' });
  await server.fault('forget');
  await server.fault('refuse', { status: 'off' });
  await expect
    .poll(() => other.evaluate(() => window.log.filter((line) => /^one/.test(line))))
    .toEqual(['one unknown unknown']);
  await expectOneHub([other]);
  expect(await effects(server)).toEqual([1]);
});

test('a tab without the socket keeps its own limits while the connection is down', async ({
  context,
  server,
}) => {
  const { hub, other: small } = await openTwo(context, { maxPending: 2 });
  const dropping = await openTab(context, [], { maxPending: 2, overflow: 'drop-oldest' });
  await expectOneHub([hub, small, dropping]);
  await goDown([hub, small, dropping], server);
  for (const page of [small, dropping]) {
    await page.evaluate(() => {
      for (const word of ['one', 'two', 'three']) void window.say(word, { echo: word });
      void window.say('short', { echo: 'short' }, { expiryMs: 50 });
    });
  }
  await expectLog(small, [
    'live',
    'down 1006',
    'three outbox full not-sent',
    'short outbox full not-sent',
  ]);
  await expectLog(dropping, [
    'live',
    'down 1006',
    'one dropped not-sent',
    'two dropped not-sent',
    'short expired not-sent',
  ]);
  await expectStatus(small, { pending: 2 });
  expect(await dropping.evaluate(() => window.client.pending())).toEqual([{ echo: 'three' }]);
  await server.fault('refuse', { status: 'off' });
  await expect.poll(() => small.evaluate(() => window.log.at(-1))).toBe('two acked "two"');
  await expect.poll(() => dropping.evaluate(() => window.log.at(-1))).toBe('three acked "three"');
  expect(await effects(server)).toEqual([1, 1, 1]);
});

test('close() in the tab with the socket settles its own messages, those of others go on', async ({
  context,
  server,
}) => {
  const { hub, other } = await openTwo(context);
  for (const page of [hub, other])
    await page.evaluate(() => void window.say('slow', { echo: 1, delayMs: 1500 }));
  await expectMessages(server, 1);
  await hub.evaluate(() => window.client.close());
  await expectLog(hub, ['live', 'ended closed', 'slow ended unknown']);
  await expect.poll(() => other.evaluate(() => window.log.at(-1))).toBe('slow acked 1');
  // What the tab that closed had given away by then took effect once, or not at all.
  for (const n of await effects(server)) expect(n).toBe(1);
  await expectOneHub([other]);
});

test('messages of before there is any hub are kept by the tab and sent in order', async ({
  context,
  server,
}) => {
  const hub = await openTab(context, []);
  await expectOneHub([hub]);
  const late = await openTab(context, []);
  await late.evaluate((options) => {
    window.client.close();
    window.log = [];
    window.follow([], options);
    for (const word of ['one', 'two', 'three']) void window.say(word, { echo: word });
  }, shared);
  await expectLog(late, ['live', 'one acked "one"', 'two acked "two"', 'three acked "three"']);
  expect(await effects(server)).toEqual([1, 1, 1]);
});
