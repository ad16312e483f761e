// The connection stands, but nothing gets through.
import { expectLog, socketErrors, test } from './fixtures.js';
import { events, expectReport, expectStatus, openLive, publish } from './helpers.js';

test.describe('with a heartbeat', () => {
  test.use({ serverFlags: ['-heartbeat', '600ms'] });

  test('a server that falls silent is left for a new connection, and nothing is lost', async ({
    page,
    server,
  }) => {
    await openLive(page, ['test/a']);
    await publish(server, 'test/a', 1, 2);
    await expectLog(page, ['live', ...events('test/a', 1, 2)]);
    await server.fault('mute', { dir: 'out', which: 'open' });
    await publish(server, 'test/a', 3, 3); // the server believes that they went out
    const back = [
      'live',
      ...events('test/a', 1, 2),
      'down 4408 nothing heard for 1.5s',
      'test/a resumed 3',
      'live',
      ...events('test/a', 3, 3),
    ];
    await expectLog(page, back);
    await expectStatus(page, {
      lastClose: { code: 4408, reason: 'nothing heard for 1.5s' },
      cause: null,
    });
    await publish(server, 'test/a', 6, 1);
    await expectLog(page, [...back, ...events('test/a', 6, 1)]);
    await server.fault('mute', { dir: 'off' });
    await expectReport(server, { connections: 1, accepted: 2 });
  });
});

test('a server that is heard but does not hear is noticed by a message without an answer', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a'], { ackTimeoutMs: 1000 }); // for the answer on the next one, too
  await server.fault('mute', { dir: 'in', which: 'open' });
  await page.evaluate(() => void window.say('one', { echo: 1 }));
  await publish(server, 'test/a', 1, 1);
  const back = [
    'live',
    'test/a 1 {"n":1}',
    'down 4408 no pong within 1s',
    'test/a resumed 0',
    'live',
    'one acked 1',
  ];
  await expectLog(page, back);
  await expectReport(server, { messages: 1, closeCodes: { 4408: 1 } });
});

test('a server that accepts but never answers is given up, and the next attempt gets through', async ({
  page,
  server,
  allowedErrors,
}) => {
  allowedErrors.push(...socketErrors);
  await openLive(page, ['test/a'], { baseMs: 20, dialTimeoutMs: 300, welcomeTimeoutMs: 300 });
  await server.fault('hang', { state: 'on' });
  await server.fault('drop');
  await expectStatus(page, {
    lastClose: { code: 4408, reason: 'the socket did not open within 300ms' },
  });
  await server.fault('mute', { dir: 'out' });
  await server.fault('hang', { state: 'off' });
  await expectStatus(page, { lastClose: { code: 4408, reason: 'no welcome within 300ms' } });
  await publish(server, 'test/a', 1, 1);
  await server.fault('mute', { dir: 'off' });
  await expectLog(page, ['live', 'down 1006', 'test/a resumed 1', 'live', 'test/a 1 {"n":1}']);
});
