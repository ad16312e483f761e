// What an application's own code can do wrong.
import { expect, expectLog, socketErrors, test } from './fixtures.js';
import { expectLines, expectReport, expectStatus, openLive, openPage, publish } from './helpers.js';

test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors));

test('a URL callback that fails in any way is reported and asked again, without a dial', async ({
  page,
  server,
}) => {
  await openPage(page);
  await page.evaluate(() => {
    /** @type {(() => any)[]} */
    const answers = [
      () => {
        throw new Error('no token');
      },
      () => Promise.reject(undefined),
      () => 42,
      () => undefined,
      () => 'gopher://example.com/',
      () => ({
        // biome-ignore lint/suspicious/noThenProperty: that is the point
        get then() {
          throw new Error('a getter');
        },
      }),
      () => new Promise(() => {}), // never
      () => Promise.resolve(new URL('/ws', location.href)),
    ];
    const client = window.follow(['test/a'], {
      baseMs: 1,
      capMs: 1,
      urlTimeoutMs: 2000,
      url: () => answers.shift()?.(),
    });
    client.on('state', ({ state, reason }) => {
      if (state === 'waiting' && /within/.test(reason)) window.log.push(reason);
    });
  });
  await expectLines(page, [
    'error url: longwire: no URL to dial: no token',
    'error url: longwire: no URL to dial: undefined',
    /^error url: longwire: no URL to dial: number is not /,
    /^error url: longwire: no URL to dial: undefined is not /,
    /^error url: longwire: no URL to dial: gopher: is /,
    'error url: longwire: no URL to dial: a getter',
    'the URL callback did not answer within 2s',
    'live',
  ]);
  await expectReport(server, { upgrades: 1 });
});

test('a handler that throws is reported once each time, and everything goes on', async ({
  page,
  server,
  allowedErrors,
}) => {
  allowedErrors.push(/from a state listener/, /from an error listener/);
  await openPage(page);
  await page.evaluate(() => {
    const client = window.follow(['test/b']);
    client.on('state', () => {
      throw new Error('from a state listener');
    });
    client.on('error', () => {
      throw new Error('from an error listener');
    });
    client.subscribe('test/a', {
      event: (_, { seq }) => {
        window.log.push(`event ${seq}`);
        if (seq === 2) throw new Error('two');
        if (seq === 3) throw undefined;
      },
      resumed: () => {
        throw new Error('not today');
      },
    });
  });
  await expectStatus(page, { streams: { 'test/a': { state: 'following' } } });
  await publish(server, 'test/a', 1, 4);
  const before = [
    'live',
    'event 1',
    'event 2',
    'error handler: longwire: the event handler of stream "test/a" threw: two',
    'event 3',
    'error handler: longwire: the event handler of stream "test/a" threw: undefined',
    'event 4',
  ];
  await expectLog(page, before);
  await expectStatus(page, { streams: { 'test/a': { seq: 4 } } });
  await server.fault('drop');
  await expectStatus(page, { state: 'live', lastClose: { code: 1006 } });
  await publish(server, 'test/b', 1, 1);
  await expect.poll(() => page.evaluate(() => window.log.at(-1))).toBe('test/b 1 {"n":1}');
  const after = await page.evaluate((skip) => window.log.slice(skip), before.length);
  expect(after.sort()).toEqual([
    'down 1006',
    'error handler: longwire: the resumed handler of stream "test/a" threw: not today',
    'live',
    'test/b 1 {"n":1}',
    'test/b resumed 0',
  ]);
});

test('a message that is no JSON is refused at once, and those after it are sent', async ({
  page,
  server,
}) => {
  await openLive(page, []);
  await page.evaluate(() => {
    /** @type {any} */
    const cyclic = {};
    cyclic.self = cyclic;
    /** @type {[string, unknown][]} */
    const bodies = [
      ['function', () => {}],
      ['cyclic', cyclic],
      ['undefined', undefined],
      ['bigint', 1n],
      ['symbol', Symbol('s')],
      [
        'throwing',
        {
          toJSON() {
            throw new Error('no');
          },
        },
      ],
      ['fine', { echo: 'fine' }],
    ];
    for (const [label, body] of bodies) void window.say(label, body);
  });
  await expectLog(page, [
    'live',
    'function invalid not-sent',
    'cyclic invalid not-sent',
    'undefined invalid not-sent',
    'bigint invalid not-sent',
    'symbol invalid not-sent',
    'throwing invalid not-sent',
    'fine acked "fine"',
  ]);
  await expectReport(server, { messages: 1 });
});

test('a page without any listener follows and recovers all the same', async ({ page, server }) => {
  await openPage(page);
  await page.evaluate(() => {
    window.client = window.shim.connect({ url: '/ws' });
    window.client.subscribe('test/a', { event: (_, { seq }) => window.log.push(`${seq}`) });
  });
  await expectStatus(page, { state: 'live', streams: { 'test/a': { state: 'following' } } });
  await publish(server, 'test/a', 1, 1);
  await server.fault('forget'); // a new epoch, and nobody who handles the gap
  await expectStatus(page, { lastClose: { code: 1006 }, streams: { 'test/a': { seq: 0 } } });
  await publish(server, 'test/a', 1, 2);
  await expectLog(page, ['1', '1', '2']);
});

for (const how of ['', ', also when tabs share the connection']) {
  test(`every method may be called from within every handler, also before there is a connection${how}`, async ({
    page,
    server,
  }) => {
    await openPage(page);
    await page.evaluate((options) => {
      let calls = 0;
      const everything = () => {
        const { client } = window;
        const n = ++calls;
        client.subscribe(`test/x${n}`, { event: () => {} })();
        void client.send({ echo: n }).then(
          () => window.log.push('sent'),
          (error) => window.log.push(String(error)),
        );
        client.on('state', () => {})();
        client.status();
        client.history();
        client.pending();
        client.reauthorize();
        client.reconnectNow();
      };
      window.client = window.shim.connect({ url: '/ws', ...options });
      everything();
      let left = 20; // what is done makes new states
      window.client.on('state', () => {
        if (left-- > 0) everything();
      });
      window.client.subscribe('test/a', {
        event: (_, { seq }) => {
          everything();
          window.log.push(`event ${seq}`);
          if (seq === 3) window.client.close();
        },
        resumed: everything,
      });
    }, how && { share: 'demo', identity: '' });
    await expectStatus(page, { streams: { 'test/a': { state: 'following' } } });
    await server.fault('drop');
    await expectStatus(page, {
      state: 'live',
      lastClose: { code: 1006 },
      streams: { 'test/a': { state: 'following' } },
    });
    await publish(server, 'test/a', 1, 5);
    await expectStatus(page, { state: 'ended', cause: 'closed', pending: 0 });
    const log = await page.evaluate(() => window.log);
    expect(log.filter((line) => /^event/.test(line))).toEqual(['event 1', 'event 2', 'event 3']);
    expect(log).toContain('sent');
    expect(Object.values((await server.report()).effects)).not.toContain(2);
  });
}
