// Logins that are refused or run out, and URLs that carry them.
import { expect, expectLog, fetchErrors, socketErrors, test } from './fixtures.js';
import { events, expectReport, expectStatus, openLive, openPage, publish } from './helpers.js';

test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors, ...fetchErrors));

test('a login that is refused ends after three attempts, and a new login revives it', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a'], { baseMs: 20 });
  await server.fault('reset');
  await server.fault('login', { mode: 'refuse' });
  await server.fault('drop');
  await expectLog(page, ['live', 'down 1006', 'ended unauthorized']);
  await expectStatus(page, {
    state: 'ended',
    cause: 'unauthorized',
    reason: 'the probe was answered with 401',
    nextRetryAt: null,
  });
  await expectReport(server, { upgrades: 3, probes: 1, loginsRefused: 4 });

  await publish(server, 'test/a', 1, 1);
  await page.evaluate(() => void window.say('waits', { echo: 'for the login' }));
  await expectStatus(page, { pending: 1 });
  await server.fault('login', { mode: 'accept' });
  await page.evaluate(() => window.client.reauthorize());
  await expectLog(page, [
    'live',
    'down 1006',
    'ended unauthorized',
    'test/a resumed 1',
    'live',
    'test/a 1 {"n":1}',
    'waits acked "for the login"',
  ]);
  await expectReport(server, { upgrades: 4, messages: 1 });
});

test('a page that was never let in says so, and reauthorize lets it in', async ({
  page,
  server,
}) => {
  await server.fault('login', { mode: 'refuse' });
  await openPage(page);
  await page.evaluate(() => void window.follow(['test/a'], { baseMs: 20 }));
  await expectLog(page, ['ended unauthorized']);
  await expectReport(server, { upgrades: 3, probes: 1, connections: 0 });
  await server.fault('login', { mode: 'accept' });
  await page.evaluate(() => window.client.reauthorize());
  await expectLog(page, ['ended unauthorized', 'live']);
});

test('every dial has a URL of its own, whatever it was that asked for it', async ({
  page,
  server,
}) => {
  await openPage(page);
  await page.evaluate(() => {
    let tokens = 0;
    window.follow(['test/a'], {
      baseMs: 20,
      url: async () => {
        const token = ++tokens;
        // Slower than the dial, and never the same time twice.
        for (let i = 0; i < token; i++) await fetch('/healthz');
        window.log.push(`token ${token}`);
        return `/ws?token=${token}`;
      },
    });
  });
  const want = ['token 1', 'live'];
  await expectLog(page, want);
  await server.fault('drop'); // a timer
  want.push('down 1006', 'token 2', 'test/a resumed 0', 'live');
  await expectLog(page, want);
  await server.fault('close', { code: 1013 }); // at least 15 s, but for the call
  await expectStatus(page, { state: 'waiting' });
  await page.evaluate(() => {
    window.client.reconnectNow();
    window.client.reconnectNow();
  });
  want.push('down 1013', 'token 3', 'test/a resumed 0', 'live');
  await expectLog(page, want);
  await server.fault('close', { code: 4401, reason: 'expired' });
  want.push('down 4401 expired', 'token 4', 'test/a resumed 0', 'live');
  await expectLog(page, want);
  await server.fault('refuse', { status: 503, times: 1 }); // and once more
  await server.fault('drop');
  want.push('down 1006', 'token 5', 'token 6', 'test/a resumed 0', 'live');
  await expectLog(page, want);
  const { pathname, host } = new URL('/ws', server.url);
  expect(await page.evaluate(() => window.sockets.map(({ url }) => url))).toEqual(
    [1, 2, 3, 4, 5, 6].map((token) => `ws://${host}${pathname}?token=${token}`),
  );
});

test.describe('with logins of four seconds', () => {
  test.use({ serverFlags: ['-login-life', '4s'] }); // longer than the wasm takes to load

  test('a login that runs out while the page is open is renewed by the URL callback', async ({
    page,
    server,
  }) => {
    await openPage(page);
    await page.evaluate(() => {
      window.follow(['', 'test/a'], {
        baseMs: 20,
        url: async () => {
          const login = { method: 'POST', body: new URLSearchParams({ name: 'ann' }) };
          await fetch('/login', login);
          window.log.push('login');
          return '/ws';
        },
      });
    });
    await expect
      .poll(() => page.evaluate(() => window.log.slice(0, 6)))
      .toEqual([
        'login',
        'live',
        expect.stringMatching(/^down 4401/),
        'login',
        expect.stringMatching(/resumed 0$/),
        expect.stringMatching(/resumed 0$/),
      ]);
    await expectStatus(page, { state: 'live', user: 'ann' });
    await expectReport(server, { connections: 1, probes: 0 });
  });
});

test('a page that belongs to another user is told so and ends', async ({ page, server }) => {
  await openPage(page);
  await page.evaluate(async () => {
    const login = { method: 'POST', body: new URLSearchParams({ name: 'ann' }) };
    await fetch('/login', login);
    window.follow(['test/a'], { identity: 'bob' });
    void window.say('from bob', { echo: 1 });
  });
  await expectLog(page, ['ended forbidden', 'from bob ended not-sent']);
  await expectStatus(page, { cause: 'forbidden', lastClose: { code: 4403 } });
  await expectReport(server, { upgrades: 1, messages: 0 });
});

test('a page whose user logs in as another ends, and keeps what belongs to the first to itself', async ({
  page,
  server,
}) => {
  const loginAs = (/** @type {string} */ name) =>
    page.evaluate(async (user) => {
      await fetch('/login', { method: 'POST', body: new URLSearchParams({ name: user }) });
    }, name);
  await openPage(page);
  await loginAs('ann');
  await page.evaluate(() => void window.follow(['test/a']));
  await expectLog(page, ['live']);
  await publish(server, 'test/a', 1, 1);
  await expectLog(page, ['live', ...events('test/a', 1, 1)]);
  await server.fault('refuse', { status: 503 });
  await server.fault('drop');
  await expectStatus(page, { lastClose: { code: 1006 } });
  await page.evaluate(() => void window.say('from ann', { echo: 1 }));
  await loginAs('bob');
  await server.fault('refuse', { status: 'off' });
  await expectLog(page, [
    'live',
    'test/a 1 {"n":1}',
    'down 1006',
    'ended forbidden',
    'from ann ended not-sent',
  ]);
  await expectReport(server, { messages: 0, connections: 0 });
});
