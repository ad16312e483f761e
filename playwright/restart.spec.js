// The server dies and comes back on the same port, remembering nothing.
import { expect, expectLog, fetchErrors, socketErrors, test } from './fixtures.js';
import {
  events,
  expectReport,
  expectStatus,
  openLive,
  openPage,
  publish,
  status,
} from './helpers.js';

test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors, ...fetchErrors));

test('a page outlives the crash of its server: one gap with the new state, then live again', async ({
  page,
  server,
}) => {
  await openPage(page);
  await page.evaluate(() => void window.follow(['chat']));
  await expectLog(page, ['live', 'chat snapshot 0 []']);
  await server.fault('publish', { stream: 'chat', data: '{"text":"before"}' });
  const before = ['live', 'chat snapshot 0 []', 'chat 1 "before"'];
  await expectLog(page, before);
  const { session, streams } = await status(page);

  await server.kill();
  await expectStatus(page, { lastClose: { code: 1006, reason: '' } });
  await server.start();
  const back = [...before, 'down 1006', 'live', 'chat gap snapshot', 'chat snapshot 0 []'];
  await expectLog(page, back);

  await server.fault('publish', { stream: 'chat', data: '{"text":"after"}' });
  await expectLog(page, [...back, 'chat 1 "after"']);
  const now = await status(page);
  expect(now.session).not.toBe(session);
  expect(now.streams.chat?.epoch).not.toBe(streams.chat?.epoch);
  await expectReport(server, { connections: 1, accepted: 1 });
});

test('a crash in the midst of events shows each of them at most once, then a gap', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a']);
  const published = (async () => {
    for (let n = 1; ; n += 100) await publish(server, 'test/a', n, 100);
  })().catch(() => {});
  await expect.poll(() => page.evaluate(() => window.log.length)).toBeGreaterThan(500);
  await server.restart();
  await published;
  await expect.poll(() => page.evaluate(() => window.log)).toContain('test/a gap');
  const seen = await page.evaluate(() => window.log.indexOf('down 1006') - 1);
  const back = ['live', ...events('test/a', 1, seen), 'down 1006', 'live', 'test/a gap'];
  await expectLog(page, back);
  await publish(server, 'test/a', 1, 2);
  await expectLog(page, [...back, ...events('test/a', 1, 2)]);
});

test('of a message that was under way in a crash the page is told that nobody knows', async ({
  page,
  server,
}) => {
  await openLive(page, []);
  await page.evaluate(() => void window.say('slow', { echo: 1, delayMs: 10_000 }));
  await expectReport(server, { messages: 1 });
  await server.kill();
  await expectStatus(page, { lastClose: { code: 1006 } });
  await page.evaluate(() => void window.say('later', { echo: 2 }));
  await server.start();
  await expectLog(page, ['live', 'down 1006', 'live', 'slow unknown unknown', 'later acked 2']);
  expect(Object.values((await server.report()).effects)).toEqual([1]);
});

test('a server that is down for long is found again soon after it is back', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a'], { baseMs: 20 });
  await server.kill();
  await expect.poll(async () => (await status(page)).attempt).toBeGreaterThan(4);
  await expectStatus(page, { hint: expect.stringContaining('unreachable') });
  await server.start();
  await expectLog(page, ['live', 'down 1006', 'live', 'test/a gap']);
  await expectStatus(page, { state: 'live', hint: '', cause: null, nextRetryAt: null });
});
