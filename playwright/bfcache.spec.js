// A page that is left and comes back by the Back button, as browsers keep it: asleep.
import { expect, expectLog, socketErrors, test } from './fixtures.js';
import { events, expectLines, expectMessages, expectReport, openLive, publish } from './helpers.js';
import { expectOneHub, openTabs, received } from './tabs.js';

test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors));

// Playwright switches the cache off in Chromium.
test.use({
  launchOptions: [
    async ({ launchOptions }, use) =>
      use({ ...launchOptions, ignoreDefaultArgs: ['--disable-back-forward-cache'] }),
    { scope: 'worker' },
  ],
});

test('a page that comes back by the Back button resumes with what it missed, on one connection', async ({
  page,
  server,
  browserName,
}) => {
  test.skip(browserName === 'firefox', 'Firefox loads a page anew that had a WebSocket');
  await openLive(page, ['test/a']);
  await publish(server, 'test/a', 1, 1);
  await expectLog(page, ['live', ...events('test/a', 1, 1)]);
  await page.goto('/healthz');
  await expectReport(server, { connections: 0 });
  await publish(server, 'test/a', 2, 3);
  await page.evaluate(() => void setTimeout(() => history.back(), 0)); // goBack() hangs
  await expectLog(page, [
    'live',
    ...events('test/a', 1, 1),
    'down 4001 leaving',
    'test/a resumed 3',
    'live',
    ...events('test/a', 2, 3),
  ]);
  await publish(server, 'test/a', 5, 1);
  await expect.poll(() => page.evaluate(() => window.log.at(-1))).toBe('test/a 5 {"n":5}');
  await expectReport(server, { connections: 1, upgrades: 2 });
});

test('a page that stays after all, when asked whether to leave, has never gone', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a']);
  await page.evaluate(() => {
    window.dispatchEvent(new Event('beforeunload', { cancelable: true }));
  });
  await publish(server, 'test/a', 1, 1);
  await expectLog(page, ['live', ...events('test/a', 1, 1)]);
  await expectReport(server, { connections: 1, upgrades: 1 });
});

/** @param {import('@playwright/test').Page} page */
const goBack = (page) => page.evaluate(() => void setTimeout(() => history.back(), 0)); // goBack() hangs

for (const who of ['the tab with the socket', 'another tab']) {
  test(`${who} goes into the cache with nothing that others need, and is a tab again when it returns`, async ({
    context,
    server,
    browserName,
  }) => {
    test.skip(browserName === 'firefox', 'Firefox keeps no page with locks in its cache');
    const { pages, hub } = await openTabs(context, 3, ['test/a']);
    const [cached] = /** @type {[import('@playwright/test').Page]} */ (
      pages.splice(who === 'another tab' ? (hub + 1) % 3 : hub, 1)
    );
    await publish(server, 'test/a', 1, 1);
    for (const page of [cached, ...pages]) await received(page, 'test/a', 1);
    await cached.goto('/healthz');
    await expectOneHub(pages);
    await publish(server, 'test/a', 2, 3);
    for (const page of pages)
      expect(await received(page, 'test/a', 4)).toEqual(events('test/a', 1, 4));
    await expectReport(server, { connections: 1 });
    // The page is still in the cache: what the others said to each other did not
    // throw it out.
    await goBack(cached);
    await expectOneHub([cached, ...pages]);
    await expectLines(cached, [
      'live',
      ...events('test/a', 1, 1),
      'down',
      /^(live|test\/a resumed 3)$/,
      /^(live|test\/a resumed 3)$/,
      ...events('test/a', 2, 3),
    ]);
    await publish(server, 'test/a', 5, 1);
    for (const page of [cached, ...pages])
      expect(await received(page, 'test/a', 5)).toEqual(events('test/a', 1, 5));
    await expectReport(server, { connections: 1, upgrades: who === 'another tab' ? 1 : 2 });
  });
}

test('all tabs are in the cache at once, and each that returns finds its place', async ({
  context,
  server,
  browserName,
}) => {
  test.skip(browserName === 'firefox', 'Firefox keeps no page with locks in its cache');
  const { pages } = await openTabs(context, 2, ['test/a']);
  for (const page of pages) await page.goto('/healthz');
  await expectReport(server, { connections: 0 });
  await publish(server, 'test/a', 1, 3);
  for (const page of pages) {
    await goBack(page);
    expect(await received(page, 'test/a', 3)).toEqual(events('test/a', 1, 3));
  }
  await expectOneHub(pages);
  await expectReport(server, { connections: 1 });
});

test('a message of a tab that is cached with it unanswered has one effect', async ({
  context,
  server,
  browserName,
}) => {
  test.skip(browserName === 'firefox', 'Firefox keeps no page with locks in its cache');
  const { pages, hub } = await openTabs(context, 2, ['test/a']);
  for (const page of pages)
    await page.evaluate(() => void window.say('slow', { echo: 1, delayMs: 1500 }));
  await expectMessages(server, 1);
  const cached = /** @type {import('@playwright/test').Page} */ (pages[hub]);
  await cached.goto('/healthz');
  await goBack(cached);
  for (const page of pages)
    await expect.poll(() => page.evaluate(() => window.log)).toContain('slow acked 1');
  await expectOneHub(pages);
  expect(Object.values((await server.report()).effects)).toEqual([1, 1]);
});
