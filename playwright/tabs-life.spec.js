// Tabs come, go, return and change hands: what that is to the others, and to the server.
import { expect, expectLog, socketErrors, test } from './fixtures.js';
import { events, expectReport, expectStatus, openPage, publish, status } from './helpers.js';
import { expectLive, expectOneHub, openTab, openTabs, received, shared } from './tabs.js';

/** @typedef {import('@playwright/test').Page} Page */
/** @typedef {import('./fixtures.js').Fixtures['server']} Server */

test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors));

/**
 * Opens tabs and returns them as the one with the socket and the others.
 *
 * @param {import('@playwright/test').BrowserContext} context
 * @param {number} n
 * @param {string[]} streams
 */
async function openRoles(context, n, streams) {
  const { pages, hub } = await openTabs(context, n, streams);
  const [first] = pages.splice(hub, 1);
  return { hub: /** @type {Page} */ (first), others: pages };
}

/**
 * Of these streams, those whose events the server writes to somebody: one event of
 * each is published, and one of test/mark, which somebody has to follow.
 *
 * @param {Server} server
 * @param {string[]} streams
 */
async function followed(server, streams) {
  const written = async () => {
    const text = await (await server.get('/metrics')).text();
    return Number(/^longwire_events_written_total (\d+)/m.exec(text)?.[1]);
  };
  const result = [];
  for (const stream of streams) {
    const before = await written();
    await server.fault('publish', { stream, data: '"probe"' });
    await server.fault('publish', { stream: 'test/mark', data: '"mark"' });
    await expect.poll(written).toBeGreaterThan(before);
    if ((await written()) > before + 1) result.push(stream);
  }
  return result;
}

test('a tab that opens late is live and follows before anything else happens', async ({
  context,
  server,
}) => {
  const { pages } = await openTabs(context, 2, ['test/a']);
  await publish(server, 'test/a', 1, 5);
  for (const page of pages) await received(page, 'test/a', 5);
  const late = await openTab(context, ['test/a']);
  await expectStatus(late, { streams: { 'test/a': { state: 'following' } } });
  await publish(server, 'test/a', 6, 5);
  await expectLog(late, ['live', ...events('test/a', 6, 5)]);
  expect((await late.evaluate(() => window.client.history())).map(({ state }) => state)).toEqual([
    'connecting',
    'live',
  ]);
  await late.evaluate(() => {
    window.client.subscribe('chat', {
      snapshot: (state, { seq }) => window.log.push(`chat ${seq} ${JSON.stringify(state)}`),
    });
  });
  await expect.poll(() => late.evaluate(() => window.log.at(-1))).toBe('chat 0 []');
  for (const page of pages) await expectLog(page, ['live', ...events('test/a', 1, 10)]);
  await expectReport(server, { connections: 1, upgrades: 1 });
});

test('a tab that is reloaded, be it the one with the socket, counts once and goes on', async ({
  context,
  server,
}) => {
  const { hub, others } = await openRoles(context, 3, ['test/a']);
  const [kept, reloaded] = /** @type {[Page, Page]} */ (others);
  await publish(server, 'test/a', 1, 3);
  for (const page of [hub, ...others]) await received(page, 'test/a', 3);
  for (const page of [reloaded, hub]) {
    await page.reload();
    await openPage(page);
    await page.evaluate((options) => void window.follow(['test/a'], options), shared);
    await expectOneHub([hub, kept, reloaded]);
  }
  await publish(server, 'test/a', 4, 3);
  expect(await received(kept, 'test/a', 6)).toEqual(events('test/a', 1, 6));
  for (const page of [hub, reloaded])
    expect(await received(page, 'test/a', 6)).toEqual(events('test/a', 4, 3));
  await expectReport(server, { connections: 1, upgrades: 2 });
});

test('all tabs are closed, and one that is opened later starts anew', async ({
  context,
  server,
}) => {
  const { pages } = await openTabs(context, 3, ['test/a']);
  await Promise.all(pages.map((page) => page.close()));
  await expectReport(server, { connections: 0 });
  const page = await openTab(context, ['test/a']);
  await expectOneHub([page]);
  await publish(server, 'test/a', 1, 1);
  await expectLog(page, ['live', ...events('test/a', 1, 1)]);
  await expectReport(server, { connections: 1 });
});

test('close() in the tab with the socket hands it over, close() in another disturbs nobody', async ({
  context,
  server,
}) => {
  const { hub, others } = await openRoles(context, 4, ['test/a']);
  await publish(server, 'test/a', 1, 2);
  for (const page of [hub, ...others]) await received(page, 'test/a', 2);

  const quiet = /** @type {Page} */ (others.pop());
  await quiet.evaluate(() => window.client.close());
  await expectOneHub([hub, ...others]);
  await publish(server, 'test/a', 3, 2);
  for (const page of [hub, ...others]) {
    expect(await received(page, 'test/a', 4)).toEqual(events('test/a', 1, 4));
    await expectLog(page, ['live', ...events('test/a', 1, 4)]);
  }
  await expectReport(server, { connections: 1, upgrades: 1, closeCodes: {} });

  await hub.evaluate(() => window.client.close());
  await expectOneHub(others);
  await publish(server, 'test/a', 5, 2);
  for (const page of others) {
    expect(await received(page, 'test/a', 6)).toEqual(events('test/a', 1, 6));
    await expectStatus(page, { state: 'live', cause: null });
  }
  for (const page of [quiet, hub]) {
    expect(await page.evaluate(() => window.log.at(-1))).toBe('ended closed');
    await expectStatus(page, { state: 'ended', cause: 'closed' });
  }
  await expectReport(server, { connections: 1, upgrades: 2, closeCodes: { 4001: 1 } });
});

test('who takes over from a tab that was connected dials at once, also soon after a loss', async ({
  context,
  server,
}) => {
  const pages = [];
  // Another failure would be one too many to wait for.
  const slow = { baseMs: 30_000, capMs: 30_000, stableAfterMs: 3_600_000 };
  for (let i = 0; i < 2; i++) pages.push(await openTab(context, ['test/a'], slow));
  const hub = await expectOneHub(pages);
  const other = /** @type {Page} */ (pages[1 - hub]);
  await server.fault('drop');
  await expectReport(server, { upgrades: 2 });
  await expectOneHub(pages);
  await expect.poll(async () => (await status(other)).attempt).toBeGreaterThan(0);
  await pages[hub]?.evaluate(() => window.client.close());
  await expectOneHub([other]);
  const reasons = await other.evaluate(() => window.client.history().map(({ reason }) => reason));
  expect(reasons).not.toContain('the hub before this one was waiting');
  await expectReport(server, { connections: 1, upgrades: 3 });
});

test('two connections in one tab are to each other what two tabs are', async ({
  context,
  server,
}) => {
  const page = await openTab(context, ['test/a']);
  await expectLive(page);
  await page.evaluate((options) => {
    Object.assign(window, { first: window.client });
    window.follow(['test/a'], options);
  }, shared);
  const roles = () =>
    page.evaluate(() =>
      [/** @type {any} */ (window).first, window.client].map((client) => {
        const { state, role, tabs } = client.status();
        return `${state} ${role} ${tabs}`;
      }),
    );
  await expect.poll(roles).toEqual(['live hub 2', 'live follower 2']);
  await expectStatus(page, { streams: { 'test/a': { state: 'following' } } });
  await publish(server, 'test/a', 1, 1);
  await expectLog(page, ['live', 'live', 'test/a 1 {"n":1}', 'test/a 1 {"n":1}']);
  await page.evaluate(() => void window.say('second', { echo: 2 }));
  await expect.poll(() => page.evaluate(() => window.log.at(-1))).toBe('second acked 2');
  await expectReport(server, { connections: 1, upgrades: 1, messages: 1 });
  await page.evaluate(() => /** @type {any} */ (window).first.close());
  await expect.poll(() => page.evaluate(() => window.client.status().role)).toBe('hub');
  await expectStatus(page, { state: 'live', tabs: 1 });
  await publish(server, 'test/a', 2, 1);
  await expect.poll(() => page.evaluate(() => window.log.at(-1))).toBe('test/a 2 {"n":2}');
  expect(
    await page.evaluate(() => window.log.filter((line) => line === 'test/a 2 {"n":2}').length),
  ).toBe(1);
  await expectReport(server, { connections: 1 });
});

test('a page that mounts, unmounts and mounts fifty times shares one connection in the end', async ({
  context,
  server,
}) => {
  const other = await openTab(context, ['test/a']);
  await expectLive(other);
  const page = await context.newPage();
  await openPage(page);
  await page.evaluate((options) => {
    for (let i = 0; i < 50; i++) {
      const client = window.shim.connect({ url: '/ws', ...options });
      client.subscribe('test/a', { event: () => window.log.push('from a closed one') });
      client.close();
    }
    window.follow(['test/a'], options);
  }, shared);
  expect(await expectOneHub([other, page])).toBe(0);
  await publish(server, 'test/a', 1, 1);
  for (const tab of [other, page]) await expectLog(tab, ['live', ...events('test/a', 1, 1)]);
  // The other one leaves, and nothing of the fifty is before this one in the queue.
  await other.evaluate(() => window.client.close());
  await expectOneHub([page]);
  await expectReport(server, { connections: 1, upgrades: 2 });
});

test('what cannot be sent from a tab without the socket is rejected, and nothing else happens', async ({
  context,
  server,
}) => {
  const { hub, others } = await openRoles(context, 2, ['test/a']);
  const follower = /** @type {Page} */ (others[0]);
  await follower.evaluate(() => {
    /** @type {any} */
    const cyclic = {};
    cyclic.self = cyclic;
    void window.say('function', () => {});
    void window.say('cyclic', cyclic);
    void window.say('symbol', Symbol('s'));
    void window.say('bigint', 1n);
    void window.say('5 MB', { echo: 'x'.repeat(5e6) });
    void window.say('100 kB', { echo: 'x'.repeat(1e5) });
    void window.say('element', { echo: document.body });
    void window.say('quotes', { echo: '"}\u2028\ud800{"to":"x"' });
    void window.say('fine', { echo: 'ü€😀' });
  });
  await expectLog(follower, [
    'live',
    'function invalid not-sent',
    'cyclic invalid not-sent',
    'symbol invalid not-sent',
    'bigint invalid not-sent',
    '5 MB too big not-sent',
    '100 kB too big not-sent',
    'element acked {}',
    `quotes acked ${JSON.stringify('"}\u2028\ud800{"to":"x"')}`,
    'fine acked "ü€😀"',
  ]);
  await expectLog(hub, ['live']);
  await expectStatus(follower, { pending: 0 });
  await expectReport(server, { connections: 1, upgrades: 1, messages: 3 });
});

test('a handler that throws in one tab is reported there, and every tab goes on', async ({
  context,
  server,
}) => {
  const { hub, others } = await openRoles(context, 2, ['test/a']);
  const pages = [hub, .../** @type {[Page]} */ (others)];
  for (const page of pages) {
    await page.evaluate(() => {
      window.client.subscribe('test/b', {
        event: (_, { seq }) => {
          window.log.push(`b ${seq}`);
          if (seq === 1) throw new Error('one');
        },
      });
    });
    await expectStatus(page, { streams: { 'test/b': { state: 'following' } } });
  }
  await publish(server, 'test/b', 1, 2);
  for (const page of pages) {
    await expectLog(page, [
      'live',
      'b 1',
      'error handler: longwire: the event handler of stream "test/b" threw: one',
      'b 2',
    ]);
  }
  await expectOneHub(pages);
});

test('a stream is followed at the server while a tab wants it, and no longer', async ({
  context,
  server,
}) => {
  const { hub, others } = await openRoles(context, 3, ['test/mark']);
  const [one, two] = /** @type {[Page, Page]} */ (others);
  const names = ['test/a', 'test/b', 'test/c'];
  const subscribe = async (/** @type {Page} */ page, /** @type {string} */ name) => {
    await page.evaluate((stream) => {
      const stop = window.client.subscribe(stream, { event: () => {} });
      Object.assign(window, { [`stop ${stream}`]: stop });
    }, name);
    await expectStatus(page, { streams: { [name]: { state: 'following' } } });
  };
  const stop = (/** @type {Page} */ page, /** @type {string} */ name) =>
    page.evaluate((stream) => /** @type {any} */ (window)[`stop ${stream}`](), name);
  const expectFollowed = (/** @type {string[]} */ want) =>
    expect.poll(() => followed(server, names)).toEqual(want);

  await expectFollowed([]);
  await subscribe(one, 'test/a');
  await subscribe(two, 'test/a');
  await subscribe(hub, 'test/b');
  await expectFollowed(['test/a', 'test/b']);
  await stop(one, 'test/a');
  await expectFollowed(['test/a', 'test/b']);
  await stop(two, 'test/a');
  await expectFollowed(['test/b']);
  await subscribe(two, 'test/b');
  await stop(hub, 'test/b');
  await subscribe(one, 'test/c');
  await expectFollowed(['test/b', 'test/c']);
  await one.evaluate(() => window.client.close()); // says goodbye
  await expectFollowed(['test/b']);
  await hub.close();
  await expectOneHub([two]);
  await expectFollowed(['test/b']);
  await stop(two, 'test/b');
  await expectFollowed([]);
  await expectReport(server, { connections: 1 });
});

test('a tab that vanishes without a word counts no more after three beats', async ({
  context,
  server,
  browserName,
}) => {
  test.skip(browserName === 'firefox', 'in Firefox no single page can be made to crash');
  test.setTimeout(180_000);
  const { hub, others } = await openRoles(context, 2, ['test/mark']);
  const other = /** @type {Page} */ (others[0]);
  await other.evaluate(() => void window.client.subscribe('test/x', { event: () => {} }));
  await expect.poll(() => followed(server, ['test/x'])).toEqual(['test/x']);
  const cdp = await context.newCDPSession(other);
  cdp.send('Page.crash').catch(() => {});
  await expect
    .poll(() => hub.evaluate(() => window.client.status().tabs), { timeout: 60_000 })
    .toBe(1);
  await expect.poll(() => followed(server, ['test/x'])).toEqual([]);
  await expectStatus(hub, { state: 'live', role: 'hub' });
  await expectReport(server, { connections: 1, upgrades: 1 });
});

/**
 * Logs the browser in as that user, for all its tabs.
 *
 * @param {Page} page
 * @param {string} name
 */
const loginAs = (page, name) =>
  page.evaluate(async (user) => {
    await fetch('/login', { method: 'POST', body: new URLSearchParams({ name: user }) });
  }, name);

/**
 * Opens a tab of that user, who has logged in before.
 *
 * @param {Page} page
 * @param {string} identity
 */
async function followAs(page, identity) {
  await page.evaluate((options) => void window.follow(['', 'test/a'], options), {
    ...shared,
    identity,
  });
}

/**
 * Two tabs of ann that share a connection.
 *
 * @param {import('@playwright/test').BrowserContext} context
 */
async function openTabsOfAnn(context) {
  const [one, two] = [await context.newPage(), await context.newPage()];
  await openPage(one);
  await openPage(two);
  await loginAs(one, 'ann');
  for (const page of [one, two]) await followAs(page, 'ann');
  const hub = await expectOneHub([one, two]);
  return hub === 0 ? { hub: one, other: two } : { hub: two, other: one };
}

test('the user of one tab is another now, and neither gets or sends what is the other’s', async ({
  context,
  server,
}) => {
  const { hub: first, other: follower } = await openTabsOfAnn(context);

  // The follower changes hands while the connection of the first user lives on.
  await follower.evaluate(() => window.client.close());
  await loginAs(follower, 'bob');
  await follower.evaluate(() => {
    window.log = [];
  });
  await followAs(follower, 'bob');
  await expectOneHub([follower]);
  await expectOneHub([first]);
  await expectStatus(follower, { user: 'bob' });
  await expectStatus(first, { user: 'ann' });
  await server.fault('publish-to', { user: 'ann', data: '"for ann"' });
  await server.fault('publish-to', { user: 'bob', data: '"for bob"' });
  await expectLog(follower, ['live', ' 1 "for bob"']);
  await expectLog(first, ['live', ' 1 "for ann"']);
  await expectReport(server, { connections: 2 });

  // Now the first connection breaks, with something of hers to send.
  await server.fault('refuse', { status: 503 });
  await server.fault('drop');
  await expectStatus(first, { lastClose: { code: 1006 } });
  await first.evaluate(() => void window.say('from ann', { echo: 'ann' }));
  await follower.evaluate(() => void window.say('from bob', { echo: 'bob' }));
  await server.fault('refuse', { status: 'off' });
  await expectStatus(first, { state: 'ended', cause: 'forbidden' });
  await expect.poll(() => first.evaluate(() => window.log.at(-1))).toBe('from ann ended not-sent');
  await expect.poll(() => follower.evaluate(() => window.log.at(-1))).toBe('from bob acked "bob"');
  await expectReport(server, { connections: 1, messages: 1 });
  expect(await follower.evaluate(() => window.log.filter((line) => /ann/.test(line)))).toEqual([]);
});

test('the tab with the socket changes users, and the other tab of the first ends with what it had', async ({
  context,
  server,
}) => {
  const { hub: changed, other: left } = await openTabsOfAnn(context);
  await loginAs(changed, 'bob');
  await changed.evaluate(() => {
    window.client.close();
    window.log = [];
  });
  await left.evaluate(() => void window.say('from ann', { echo: 'ann' }));
  await followAs(changed, 'bob');
  await expectOneHub([changed]);
  await expectStatus(left, { state: 'ended', cause: 'forbidden' });
  await expect.poll(() => left.evaluate(() => window.log.at(-1))).toBe('from ann ended not-sent');
  await server.fault('publish-to', { user: 'bob', data: '"for bob"' });
  await expectLog(changed, ['live', ' 1 "for bob"']);
  expect(await server.fault('publish-to', { user: 'ann', data: '"for ann"' })).toMatchObject({});
  expect(await left.evaluate(() => window.log.filter((line) => /bob/.test(line)))).toEqual([]);
  await expectReport(server, { connections: 1, messages: 0 });
});
