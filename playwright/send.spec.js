// Messages: each settled once, and with at most one effect.
import { expect, expectLog, socketErrors, test } from './fixtures.js';
import { expectMessages, expectReport, expectStatus, openLive } from './helpers.js';

/** @typedef {import('./helpers.js').Server} Server */

test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors));

/**
 * How often each message took effect, whatever its id.
 *
 * @param {Server} server
 */
const effects = async (server) => Object.values((await server.report()).effects);

/**
 * Breaks the connection and lets nobody back in.
 *
 * @param {import('@playwright/test').Page} page
 * @param {Server} server
 */
async function goDown(page, server) {
  await server.fault('refuse', { status: 503 });
  await server.fault('drop');
  await expectStatus(page, { lastClose: { code: 1006 } });
}

test('what is sent while the connection is down is accepted once after, in order', async ({
  page,
  server,
}) => {
  await openLive(page, []);
  await goDown(page, server);
  await page.evaluate(() => {
    for (const word of ['one', 'two', 'three', 'four']) void window.say(word, { chat: word });
  });
  await expectStatus(page, { pending: 4 });
  await server.fault('refuse', { status: 'off' });
  const want = ['live', 'down 1006', 'live', 'one acked 1', 'two acked 2', 'three acked 3'];
  await expectLog(page, [...want, 'four acked 4']);
  await expectStatus(page, { pending: 0 });
  expect(await effects(server)).toEqual([1, 1, 1, 1]);
});

test('what is sent before the page is connected goes out when it is', async ({ page, server }) => {
  await openLive(page, []);
  await page.evaluate(() => {
    window.client.close();
    window.log = [];
    window.follow([]);
    void window.say('early', { echo: [1, { two: 'drei €' }, null] });
  });
  await expectLog(page, ['live', 'early acked [1,{"two":"drei €"},null]']);
  expect(await effects(server)).toEqual([1]);
});

test('a message whose answer is lost has one effect, and is answered after the reconnect', async ({
  page,
  server,
}) => {
  await openLive(page, []);
  await server.fault('mute', { dir: 'out', which: 'open' });
  await page.evaluate(() => void window.say('one', { chat: 'one' }));
  await expectReport(server, { messages: 1 });
  await server.fault('drop');
  await expectLog(page, ['live', 'down 1006', 'live', 'one acked 1']);
  expect(await effects(server)).toEqual([1]);
  await page.evaluate(() => window.say('two', { chat: 'two' }));
  await expectLog(page, ['live', 'down 1006', 'live', 'one acked 1', 'two acked 2']);
});

test('a message whose connection breaks while it is handled is not handled again', async ({
  page,
  server,
}) => {
  await openLive(page, []);
  await page.evaluate(() => void window.say('slow', { echo: 'done', delayMs: 1500 }));
  await expectReport(server, { messages: 1 });
  await server.fault('drop');
  await expectLog(page, ['live', 'down 1006', 'live', 'slow acked "done"']);
  expect(await effects(server)).toEqual([1]);
});

test('a message sent into a connection that is closing goes out on the next one', async ({
  page,
  server,
}) => {
  await openLive(page, [], { baseMs: 100 });
  await server.fault('stall', { state: 'on' }); // nobody reads the answer to the close
  await server.fault('close', { code: 1012, reason: 'retry=10-20' });
  await page.waitForFunction(() => window.sockets[0]?.readyState !== WebSocket.OPEN);
  await page.evaluate(() => void window.say('late', { echo: 1 }));
  await server.fault('stall', { state: 'off' });
  await expectLog(page, ['live', 'down 1012 retry=10-20', 'live', 'late acked 1']);
  expect(await effects(server)).toEqual([1]);
});

test('a message that the server refuses is rejected with its code, and later ones go on', async ({
  page,
  server,
}) => {
  await openLive(page, []);
  const message = await page.evaluate(async () => {
    void window.say('fine', { echo: 1 });
    void window.say('bad', { refuse: { code: 'no', reason: 'because' } });
    void window.say('odd', { something: 'else' });
    void window.say('after', { echo: 2 });
    return window.client.send({ refuse: { code: 'no', reason: 'because' } }).catch(String);
  });
  expect(message).toBe('LongwireError: longwire: the message was refused: no: because');
  await expectLog(page, [
    'live',
    'fine acked 1',
    'bad no refused',
    'odd bad-request refused',
    'after acked 2',
  ]);
  expect(await effects(server)).toEqual([1, 1, 1, 1, 1]);
});

test('a message that the server cannot take now is sent again, and those after it wait', async ({
  page,
  server,
}) => {
  await openLive(page, []);
  await page.evaluate(() => {
    const abort = new AbortController();
    const busy = { refuse: { code: 'busy', reason: 'later', retryMs: 100 } };
    void window.say('busy', busy, { signal: abort.signal });
    void window.say('after', { echo: 1 });
    Object.assign(window, { abort });
  });
  await expect.poll(async () => Math.max(...(await effects(server)))).toBeGreaterThan(2);
  expect(await effects(server)).toHaveLength(1);
  await page.evaluate(() => /** @type {any} */ (window).abort.abort());
  // A second connection frees what the server holds back. The end of the first, by
  // 4409, may come before the welcome of the second, and is then seen.
  await expect
    .poll(() => page.evaluate(() => window.log.filter((line) => !/^(live|down 4409)/.test(line))))
    .toEqual([
      // It may be on its way once more at the moment of the abort.
      expect.stringMatching(/^busy cancelled (not-sent|unknown)$/),
      'after acked 1',
    ]);
});

test('a message is withdrawn by its signal, and it is said whether it may have gone', async ({
  page,
  server,
}) => {
  await openLive(page, []);
  await page.evaluate(() => {
    const abort = new AbortController();
    void window.say('written', { echo: 1, delayMs: 2000 }, { signal: abort.signal });
    Object.assign(window, { abort });
  });
  await expectReport(server, { messages: 1 });
  await page.evaluate(() => /** @type {any} */ (window).abort.abort());
  await expectLog(page, ['live', 'written cancelled unknown']);
  await server.fault('reset');
  await goDown(page, server);
  await page.evaluate(() => {
    const abort = new AbortController();
    void window.say('waiting', { echo: 2 }, { signal: abort.signal });
    void window.say('kept', { echo: 3 });
    abort.abort();
    void window.say('never', { echo: 4 }, { signal: AbortSignal.abort() });
  });
  await server.fault('refuse', { status: 'off' });
  await expectLog(page, [
    'live',
    'written cancelled unknown',
    'down 1006',
    'waiting cancelled not-sent',
    'never cancelled not-sent',
    'live',
    'kept acked 3',
  ]);
  expect(await effects(server)).toEqual([1]);
});

test('close() settles what is pending, and says what may have been sent', async ({
  page,
  server,
}) => {
  await openLive(page, [], { maxPending: 2 });
  await page.evaluate(() => {
    void window.say('written', { echo: 1, delayMs: 2000 });
    void window.say('one more', { echo: 2, delayMs: 2000 });
    void window.say('too many', { echo: 3 });
  });
  await expectMessages(server, 1);
  await expectLog(page, ['live', 'too many outbox full not-sent']);
  await page.evaluate(() => {
    window.client.close();
    window.client.close();
    void window.say('after', { echo: 4 });
  });
  await expect.poll(() => page.evaluate(() => window.log)).toHaveLength(6);
  expect((await page.evaluate(() => window.log)).slice(2).sort()).toEqual([
    'after ended not-sent',
    'ended closed',
    'one more ended unknown',
    'written ended unknown',
  ]);
  await expectReport(server, { connections: 0, closeCodes: { 1000: 1 } });
});

test('close() while the connection is down settles what never went out as not sent', async ({
  page,
  server,
}) => {
  await openLive(page, []);
  await goDown(page, server);
  await page.evaluate(() => {
    void window.say('waiting', { echo: 1 });
    // Nobody looks at this one: no unhandled rejection may come of it.
    void window.client.send({ echo: 2 });
    window.client.close();
  });
  await expectLog(page, ['live', 'down 1006', 'ended closed', 'waiting ended not-sent']);
  await server.fault('refuse', { status: 'off' });
  await expectReport(server, { messages: 0, connections: 0 });
});
