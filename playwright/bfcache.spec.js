// A page that is left and comes back by the Back button, as browsers keep it: asleep.
import { expect, expectLog, test } from './fixtures.js';
import { events, expectReport, openLive, publish } from './helpers.js';

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
  expect(await server.report()).toMatchObject({ connections: 1, upgrades: 2 });
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
  expect(await server.report()).toMatchObject({ connections: 1, upgrades: 1 });
});
