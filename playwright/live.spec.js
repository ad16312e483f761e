import { expect, expectLog, socketErrors, test } from './fixtures.js';
import { events, expectReport, expectStatus, openLive, openPage, publish } from './helpers.js';

test('a page that opens follows a stream live, each event once and in order', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a']);
  await publish(server, 'test/a', 1, 3);
  await publish(server, 'test/a', 4, 200);
  await publish(server, 'test/a', 204, 1);
  await expectLog(page, ['live', ...events('test/a', 1, 204)]);
  await expectStatus(page, {
    state: 'live',
    cause: null,
    lastClose: null,
    nextRetryAt: null,
    pending: 0,
    streams: { 'test/a': { state: 'following', seq: 204, error: null } },
  });
  await expectReport(server, { upgrades: 1, connections: 1, probes: 0 });
});

test('a stream that has a state starts with it, and what happens later follows', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/warm-up']);
  await page.evaluate(async () => {
    await window.say('one', { chat: 'first' });
    await window.say('two', { chat: 'second' });
  });
  await page.reload();
  await openPage(page);
  await page.evaluate(() => void window.follow(['chat']));
  await expectLog(page, ['live', 'chat snapshot 2 ["first","second"]']);
  await server.fault('publish', { stream: 'chat', data: '{"text":"third"}' });
  await expectLog(page, ['live', 'chat snapshot 2 ["first","second"]', 'chat 3 "third"']);
});

test('several streams of one page keep their own counts, whatever comes first', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a', 'test/b']);
  await publish(server, 'test/a', 1, 2);
  await publish(server, 'test/b', 1, 1);
  await expect.poll(() => page.evaluate(() => window.log.length)).toBe(4);
  await page.evaluate(() => {
    window.log = [];
    window.client.subscribe('test/c', {
      event: (data) => window.log.push(`test/c ${JSON.stringify(data)}`),
    });
  });
  await expectStatus(page, { streams: { 'test/c': { state: 'following', seq: 0 } } });
  await publish(server, 'test/c', 1, 1);
  await expectLog(page, ['test/c {"n":1}']);
  await expectStatus(page, { streams: { 'test/a': { seq: 2 }, 'test/b': { seq: 1 } } });
});

test('a page that stops following a stream hears no more of it, and can start again where it was', async ({
  page,
  server,
}) => {
  await openPage(page);
  await page.evaluate(() => {
    window.follow(['test/b']);
    const a = window.client.subscribe('test/a', {
      event: (data, { seq, epoch }) => {
        window.log.push(`test/a ${seq} ${JSON.stringify(data)}`);
        if (seq !== 1) return;
        a();
        a(); // twice is no error
        Object.assign(window, { left: { seq, epoch } });
      },
    });
  });
  await expectStatus(page, { streams: { 'test/a': { state: 'following' } } });
  await publish(server, 'test/a', 1, 3);
  await publish(server, 'test/b', 1, 1);
  await expectLog(page, ['live', 'test/a 1 {"n":1}', 'test/b 1 {"n":1}']);
  await page.evaluate(() => {
    const from = /** @type {any} */ (window).left;
    window.client.subscribe(
      'test/a',
      {
        resumed: ({ missed }) => window.log.push(`resumed ${missed}`),
        event: (_, { seq }) => window.log.push(`again ${seq}`),
      },
      { from },
    );
  });
  await expectLog(page, [
    'live',
    'test/a 1 {"n":1}',
    'test/b 1 {"n":1}',
    'resumed 2',
    'again 2',
    'again 3',
  ]);
});

test('a stream that the user may not see is refused by name, and the others go on', async ({
  page,
  server,
}) => {
  await openPage(page);
  await page.evaluate(() => void window.follow(['secret', 'test/a']));
  await expectLog(page, ['secret refused forbidden', 'live']);
  await publish(server, 'test/a', 1, 1);
  await expectLog(page, ['secret refused forbidden', 'live', 'test/a 1 {"n":1}']);
  await expectStatus(page, {
    state: 'live',
    streams: { secret: { state: 'refused', error: 'forbidden' }, 'test/a': { state: 'following' } },
  });
});

test('what is meant for one user reaches that user alone, also after a drop', async ({
  page,
  server,
  allowedErrors,
}) => {
  allowedErrors.push(...socketErrors);
  await openPage(page);
  await page.evaluate(async () => {
    const login = { method: 'POST', body: new URLSearchParams({ name: 'ann' }) };
    await fetch('/login', login);
    window.follow(['']);
  });
  await expectLog(page, ['live']);
  await expectStatus(page, { user: 'ann', streams: { '': { state: 'following', seq: 0 } } });
  expect(await server.fault('publish-to', { user: 'bob', data: '"for bob"' })).toMatchObject({
    sessions: 0,
  });
  await server.fault('publish-to', { user: 'ann', data: '"for ann"' });
  await expectLog(page, ['live', ' 1 "for ann"']);
  await server.fault('refuse', { status: 503 });
  await server.fault('drop');
  await server.fault('publish-to', { user: 'ann', data: '"while away"' });
  await server.fault('refuse', { status: 'off' });
  await expectLog(page, [
    'live',
    ' 1 "for ann"',
    'down 1006',
    ' resumed 1',
    'live',
    ' 2 "while away"',
  ]);
});
