// Firefox holds new sockets back by itself after some have failed. All other specs
// switch that off; users do not.
import { expect, expectLog, socketErrors, test } from './fixtures.js';
import { events, expectStatus, openLive, publish, status } from './helpers.js';

test.use({
  launchOptions: [
    async ({ launchOptions }, use) =>
      use({
        ...launchOptions,
        firefoxUserPrefs: { 'network.websocket.delay-failed-reconnects': true },
      }),
    { scope: 'worker' },
  ],
});

test('a browser that delays reconnects by itself is back all the same, with all that it missed', async ({
  page,
  server,
  allowedErrors,
  browserName,
}) => {
  test.skip(browserName !== 'firefox', 'only Firefox does');
  allowedErrors.push(...socketErrors);
  await openLive(page, ['test/a'], { baseMs: 20 });
  await server.kill();
  await expectStatus(page, { lastClose: { code: 1006 } });
  await expect.poll(async () => (await status(page)).attempt).toBeGreaterThan(2);
  await server.start();
  await expectLog(page, ['live', 'down 1006', 'live', 'test/a gap']);
  await server.fault('refuse', { status: 503 });
  await server.fault('drop');
  await publish(server, 'test/a', 1, 3);
  await server.fault('refuse', { status: 'off' });
  await expectLog(page, [
    'live',
    'down 1006',
    'live',
    'test/a gap',
    'down 1006',
    'test/a resumed 3',
    'live',
    ...events('test/a', 1, 3),
  ]);
});
