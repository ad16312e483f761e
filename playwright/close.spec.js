// How the server ends a connection, and what the page makes of it.
import { expect, expectLog, test } from './fixtures.js';
import { events, expectReport, expectStatus, openLive, publish, status } from './helpers.js';

test('a close that asks for time makes the page wait that long, unless it is told to reconnect now', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a']);
  const want = ['live'];
  for (const [i, { code, reason, floor, most }] of [
    { code: 1012, reason: 'deploy €', floor: 5_000, most: 30_000 },
    { code: 1013, reason: 'overloaded', floor: 15_000, most: 30_000 },
    { code: 4429, reason: 'too many', floor: 15_000, most: 30_000 },
    { code: 1012, reason: 'retry=40000-41000', floor: 40_000, most: 41_000 },
  ].entries()) {
    await server.fault('close', { code, reason });
    want.push(`down ${code} ${reason}`);
    await expectLog(page, want);
    await expectStatus(page, {
      state: 'waiting',
      cause: null,
      lastClose: { code, reason },
      reason: `connection closed with ${code}: ${reason}`,
    });
    const { since, nextRetryAt, notBefore } = await status(page);
    expect((notBefore ?? 0) - since).toBe(floor);
    expect((nextRetryAt ?? 0) - since).toBeGreaterThanOrEqual(floor);
    expect((nextRetryAt ?? 0) - since).toBeLessThanOrEqual(most);
    await publish(server, 'test/a', i + 1, 1);
    await page.evaluate(() => window.client.reconnectNow());
    want.push('test/a resumed 1', 'live', ...events('test/a', i + 1, 1));
    await expectLog(page, want);
  }
});

test('a close that names a range is obeyed: the page is back within it, by itself', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a'], { baseMs: 10 });
  await page.evaluate(() => {
    window.client.on('state', ({ state, since, nextRetryAt }) => {
      Object.assign(window, { [state]: { since, nextRetryAt } });
    });
  });
  await server.fault('close', { code: 1013, reason: 'retry=500-600' });
  await expectLog(page, ['live', 'down 1013 retry=500-600', 'test/a resumed 0', 'live']);
  const { waiting, live } = await page.evaluate(() => {
    const { waiting, live } = /** @type {any} */ (window);
    return { waiting, live };
  });
  expect(waiting.nextRetryAt - waiting.since).toBeGreaterThanOrEqual(500);
  expect(waiting.nextRetryAt - waiting.since).toBeLessThanOrEqual(600);
  expect(live.since - waiting.since).toBeGreaterThanOrEqual(500);
});

for (const { code, reason, cause } of [
  { code: 1000, reason: 'that was all', cause: 'finished' },
  { code: 1008, reason: 'against the rules', cause: 'policy' },
  { code: 4403, reason: 'not you', cause: 'forbidden' },
]) {
  test(`a close with ${code} ends the connection as ${cause}, until it is asked to start again`, async ({
    page,
    server,
  }) => {
    await openLive(page, ['test/a']);
    await server.fault('close', { code, reason });
    const down = ['live', `down ${code} ${reason}`, `ended ${cause}`];
    await expectLog(page, down);
    await expectStatus(page, {
      state: 'ended',
      cause,
      reason: `connection closed with ${code}: ${reason}`,
      lastClose: { code, reason },
      nextRetryAt: null,
    });
    await page.evaluate(() => window.client.reauthorize()); // no login was missing
    await page.evaluate(() => void window.say('one', { echo: 1 }));
    await expectLog(page, [...down, 'one ended not-sent']);
    await publish(server, 'test/a', 1, 1);
    await expectReport(server, { upgrades: 1, connections: 0 });
    await page.evaluate(() => window.client.reconnectNow());
    await expectLog(page, [
      ...down,
      'one ended not-sent',
      'test/a resumed 1',
      'live',
      'test/a 1 {"n":1}',
    ]);
  });
}

test('a close with 4401 asks for a new login and connects again', async ({ page, server }) => {
  await openLive(page, ['test/a']);
  await server.fault('close', { code: 4401, reason: 'expired' });
  await expectLog(page, ['live', 'down 4401 expired', 'test/a resumed 0', 'live']);
  await expectStatus(page, { cause: null, lastClose: { code: 4401, reason: 'expired' } });
});

test('closes that mean nothing in particular are retried, and are no errors', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a'], { baseMs: 10 });
  const want = ['live'];
  for (const code of [1001, 1011, 3999, 4999]) {
    await server.fault('close', { code });
    want.push(`down ${code}`, 'test/a resumed 0', 'live');
    await expectLog(page, want);
    await expectStatus(page, { lastClose: { code, reason: '' } });
  }
});

test('the longest reason that a close can have arrives whole', async ({ page, server }) => {
  await openLive(page, []);
  const reason = `${'€'.repeat(40)}xyz`; // 123 bytes
  await server.fault('close', { code: 4000, reason });
  await expectLog(page, ['live', `down 4000 ${reason}`, 'live']);
  await expectReport(server, { connections: 1 });
});
