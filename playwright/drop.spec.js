// The connection breaks without a close frame; the server lives and remembers.
import { expect, expectLog, socketErrors, test } from './fixtures.js';
import { events, expectReport, expectStatus, openLive, openPage, publish } from './helpers.js';

test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors));

for (const how of ['fin', 'rst']) {
  test(`100 events published while a connection is gone (${how}) all arrive, once and in order`, async ({
    page,
    server,
  }) => {
    await openLive(page, ['test/a']);
    await publish(server, 'test/a', 1, 5);
    await expectLog(page, ['live', ...events('test/a', 1, 5)]);

    await server.fault('refuse', { status: 503 });
    await server.fault('drop', { how });
    await publish(server, 'test/a', 6, 100);
    await expectStatus(page, { lastClose: { code: 1006, reason: '' } });
    await server.fault('refuse', { status: 'off' });
    const back = [
      'live',
      ...events('test/a', 1, 5),
      'down 1006',
      'test/a resumed 100',
      'live',
      ...events('test/a', 6, 100),
    ];
    await expectLog(page, back);
    await publish(server, 'test/a', 106, 1);
    await expectLog(page, [...back, ...events('test/a', 106, 1)]);
    await expectReport(server, { connections: 1, accepted: 2 });
  });
}

test('a page that has seen no event yet misses none either', async ({ page, server }) => {
  await publish(server, 'test/b', 1, 41);
  await openLive(page, ['test/a', 'test/b']);
  await server.fault('refuse', { status: 503 });
  await server.fault('drop');
  await publish(server, 'test/a', 1, 3);
  await publish(server, 'test/b', 42, 3);
  await expectStatus(page, { lastClose: { code: 1006 } });
  await server.fault('refuse', { status: 'off' });
  await expect.poll(() => page.evaluate(() => window.log.length)).toBe(11);
  const log = await page.evaluate(() => window.log);
  expect(log.slice(0, 2)).toEqual(['live', 'down 1006']);
  expect(log.filter((line) => line.startsWith('test/a'))).toEqual([
    'test/a resumed 3',
    ...events('test/a', 1, 3),
  ]);
  expect(log.filter((line) => line.startsWith('test/b'))).toEqual([
    'test/b resumed 3',
    ...events('test/b', 42, 3),
  ]);
});

test.describe('with more than the network holds at once', () => {
  test.use({ serverFlags: ['-log-bytes', '16000000'] });

  test('a connection that breaks again and again in the midst of what was missed loses nothing', async ({
    page,
    server,
  }) => {
    await openPage(page);
    await page.evaluate(() => {
      const cuts = new Set([1, 37, 80, 100]);
      const client = window.follow([], { stableAfterMs: 1 });
      client.subscribe('test/a', {
        event: (data, { seq }) => {
          window.log.push(`event ${seq} ${/** @type {any} */ (data).n}`);
          if (!cuts.delete(seq)) return;
          // The page stands still until the connection is cut: what the browser has
          // read arrives after that, what it has not is gone.
          const request = new XMLHttpRequest();
          request.open('POST', '/faults/drop?how=rst', false);
          request.send();
        },
        gap: () => window.log.push('gap'),
      });
    });
    await expectStatus(page, { streams: { 'test/a': { state: 'following' } } });
    await server.fault('refuse', { status: 503 });
    await server.fault('drop');
    const filling = 'x'.repeat(60_000);
    for (let n = 1; n <= 100; n++) {
      const body = JSON.stringify({ n, filling });
      await server.get('/faults/publish?stream=test/a', { method: 'POST', body });
    }
    await server.fault('refuse', { status: 'off' });
    await expect.poll(() => page.evaluate(() => window.log)).toContain('event 100 100');
    await expectStatus(page, { state: 'live' });
    const log = await page.evaluate(() => window.log);
    expect(log.filter((line) => !/^(live|down 1006)$/.test(line))).toEqual(
      Array.from({ length: 100 }, (_, i) => `event ${i + 1} ${i + 1}`),
    );
    // The first, the one that was let in again, and at least one after a cut.
    expect((await server.report()).accepted).toBeGreaterThanOrEqual(3);
  });
});

test('after twenty drops there is one connection, and each event is handled once', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a'], { baseMs: 1 });
  const want = ['live'];
  for (let n = 1; n <= 20; n++) {
    await server.fault('refuse', { status: 503 });
    await server.fault('drop');
    await publish(server, 'test/a', n, 1);
    await server.fault('refuse', { status: 'off' });
    await page.evaluate(() => window.client.reconnectNow()); // among the retries
    want.push('down 1006', 'test/a resumed 1', 'live', ...events('test/a', n, 1));
    await expectLog(page, want);
  }
  await publish(server, 'test/a', 21, 1);
  await expectLog(page, [...want, ...events('test/a', 21, 1)]);
  await expectReport(server, { connections: 1, accepted: 21 });
});

test('what a server no longer holds is a gap, and nothing is shown as if it were whole', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a']);
  await publish(server, 'test/a', 1, 1);
  await expectLog(page, ['live', ...events('test/a', 1, 1)]);
  await server.fault('refuse', { status: 503 });
  await server.fault('drop');
  await publish(server, 'test/a', 2, 1001); // the log keeps 1,000
  await expectStatus(page, { lastClose: { code: 1006 } });
  await server.fault('refuse', { status: 'off' });
  const back = ['live', ...events('test/a', 1, 1), 'down 1006', 'live', 'test/a gap'];
  await expectLog(page, back);
  await publish(server, 'test/a', 1003, 1);
  await expectLog(page, [...back, ...events('test/a', 1003, 1)]);
});
