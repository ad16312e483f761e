// The server is stopped and started as in a deploy, with what it knew in a file.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, expectLog, fetchErrors, socketErrors, test } from './fixtures.js';
import { events, expectLines, expectReport, openLive, publish, status } from './helpers.js';

const folder = mkdtempSync(join(tmpdir(), 'longwire-'));
test.afterAll(() => rmSync(folder, { recursive: true }));
test.use({ serverFlags: ['-state', join(folder, 'state'), '-restart-time', '500ms'] });
test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors, ...fetchErrors));

test('a planned restart costs a page nothing: not an event, not a snapshot, not a message', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a']);
  await publish(server, 'test/a', 1, 3);
  await page.evaluate(() => void window.say('once', { chat: 'once' }));
  const before = ['live', ...events('test/a', 1, 3), 'once acked 1'];
  await expectLog(page, before);
  const { session } = await status(page);

  await server.stop();
  await server.start();
  await expectLines(page, [...before, /^down 1012 retry=/, 'test/a resumed 0', 'live']);
  expect((await status(page)).session).toBe(session);

  const log = await page.evaluate(() => window.log);
  await publish(server, 'test/a', 4, 2);
  await expectLog(page, [...log, ...events('test/a', 4, 2)]);
  await expectReport(server, { connections: 1 });
});
