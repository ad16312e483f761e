// A stream as an async iterator.
import { expect, expectLog, socketErrors, test } from './fixtures.js';
import { expectStatus, openLive, openPage, publish } from './helpers.js';

test.skip(({ browserName }) => browserName !== 'chromium', 'shown in Chromium');
test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors));

test('a loop has every entry in order across a cut, and ends with close', async ({
  page,
  server,
}) => {
  await openLive(page, []);
  await page.evaluate(async () => {
    void (async () => {
      for await (const entry of window.client.stream('test/a')) {
        window.log.push(JSON.stringify(entry.type === 'event' ? [entry.seq, entry.data] : entry));
      }
      window.log.push('over');
    })();
  });
  await expectStatus(page, { streams: { 'test/a': { state: 'following' } } });
  await publish(server, 'test/a', 1, 2);
  await server.fault('drop');
  await publish(server, 'test/a', 3, 1);
  const log = () => page.evaluate(() => window.log.filter((line) => !/^(live|down)/.test(line)));
  await expect.poll(log).toEqual(['[1,{"n":1}]', '[2,{"n":2}]', '[3,{"n":3}]']);
  await server.fault('forget');
  const gap = { type: 'gap', stream: 'test/a', snapshot: false, reason: expect.any(String) };
  await expect.poll(async () => (await log()).slice(3)).toHaveLength(1);
  expect(JSON.parse((await log())[3] ?? '')).toEqual(gap);
  await page.evaluate(() => window.client.close());
  await expect.poll(async () => (await log()).slice(4)).toEqual(['ended closed', 'over']);
});

test('a slow loop leaves its stream at the limit, and goes on from there without a loss', async ({
  page,
  server,
}) => {
  await openLive(page, []);
  await page.evaluate(() => {
    const entries = window.client.stream('test/a', { limit: 3 });
    const take = async () => {
      const { value } = await entries.next();
      window.log.push(value?.type === 'event' ? `${value.seq}` : JSON.stringify(value));
    };
    Object.assign(window, { take });
    void take();
  });
  const take = () => page.evaluate(() => /** @type {any} */ (window).take());
  const follows = (/** @type {object} */ streams) =>
    expect.poll(() => page.evaluate(() => window.client.status().streams)).toEqual(streams);
  const at = (/** @type {number} */ seq) => ({
    'test/a': { state: 'following', seq, epoch: expect.any(String), error: null },
  });
  await follows(at(0));
  await publish(server, 'test/a', 1, 1);
  await expectLog(page, ['live', '1']);
  await publish(server, 'test/a', 2, 2);
  await follows(at(3)); // two wait
  await publish(server, 'test/a', 4, 4);
  await follows({}); // with the third it was left
  for (let i = 0; i < 3; i++) await take();
  void take();
  await expectLog(page, ['live', '1', '2', '3', '4', '5']); // asked for again
  await take();
  await take();
  void take();
  await follows(at(7));
  await publish(server, 'test/a', 8, 1);
  await expectLog(page, ['live', '1', '2', '3', '4', '5', '6', '7', '8']);
});

test('a loop ends as what ended it says, and takes nothing with it', async ({ page }) => {
  await openPage(page);
  await page.evaluate(async () => {
    const client = window.follow(['test/b']);
    const all = async (
      /** @type {string} */ label,
      /** @type {AsyncIterable<unknown>} */ entries,
    ) => {
      try {
        for await (const _ of entries);
        window.log.push(`${label}: over`);
      } catch (error) {
        window.log.push(`${label}: ${error}`);
      }
    };
    const stop = new AbortController();
    const aborted = all('aborted', client.stream('test/a', { signal: stop.signal }));
    stop.abort(new Error('enough'));
    await aborted;
    await all('aborted before', client.stream('test/a', { signal: stop.signal }));
    await all('followed already', client.stream('test/b'));
    await all('refused', client.stream('private/ann'));

    const left = client.stream('test/a');
    const first = left.next();
    while (!client.status().streams['test/a']) await new Promise((then) => setTimeout(then));
    client.close();
    window.log.push(`left: ${(await first).done}`);
    await all('closed before', client.stream('test/a'));

    const lost = () => {
      throw new Error('no URL');
    };
    const other = window.shim.connect({ url: lost, maxAttempts: 1 });
    other.on('error', () => {});
    await all('ended', other.stream('test/a'));
  });
  // When the connection is live has nothing to do with the first three.
  await expect
    .poll(() => page.evaluate(() => window.log.filter((line) => line !== 'live')))
    .toEqual([
      'aborted: Error: enough',
      'aborted before: Error: enough',
      'followed already: LongwireError: longwire: stream "test/b" has a subscription',
      expect.stringMatching(/^refused: LongwireError: longwire: stream "private\/ann": forbidden/),
      'ended closed',
      'left: true',
      'closed before: over',
      expect.stringMatching(/^ended: LongwireError: longwire: .*no URL/),
    ]);
});
