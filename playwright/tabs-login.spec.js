// URLs, logins and the state of the connection, where several tabs share it.
import { expect, expectLog, fetchErrors, socketErrors, test } from './fixtures.js';
import { events, expectReport, expectStatus, openPage, publish, status } from './helpers.js';
import { expectOneHub, hide, openTab, openTabs, received, shared } from './tabs.js';

/** @typedef {import('@playwright/test').BrowserContext} Context */
/** @typedef {import('@playwright/test').Page} Page */

// Nothing here is of the browser's: Chromium tells, and is twice as quick.
test.skip(({ browserName }) => browserName !== 'chromium', 'shown in Chromium');
test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors, ...fetchErrors));

/**
 * Opens a tab whose callback writes `asked N` to its log; window.answer decides what
 * it answers: a URL, or 'never'.
 *
 * @param {Context} context
 * @param {Partial<import('../web/types.d.ts').Options>} [options]
 */
async function openAsked(context, options) {
  const page = await context.newPage();
  await openPage(page);
  await page.evaluate(
    (more) => {
      let n = 0;
      const own = /** @type {any} */ (window);
      own.answer = '/ws';
      window.follow(['test/a'], {
        ...more,
        url: () => {
          window.log.push(`asked ${++n}`);
          if (own.answer === 'throw') throw new Error('no token');
          return own.answer === 'never' ? new Promise(() => {}) : own.answer;
        },
      });
    },
    { ...shared, ...options },
  );
  return page;
}

/** @param {Page} page */
const asked = (page) =>
  page.evaluate(() => window.log.filter((line) => /^asked/.test(line)).length);

/** @param {Page} page @param {'never' | 'throw' | '/ws'} how */
const answer = (page, how) =>
  page.evaluate((value) => void Object.assign(window, { answer: value }), how);

test('one tab is asked for the URL of each dial, first the one with the socket', async ({
  context,
  server,
}) => {
  const pages = [];
  for (let i = 0; i < 3; i++) pages.push(await openAsked(context));
  const [hub] = pages.splice(await expectOneHub(pages), 1);
  expect(await asked(/** @type {Page} */ (hub))).toBe(1);
  await server.fault('drop');
  await expectReport(server, { upgrades: 2, connections: 1 });
  await expectOneHub([/** @type {Page} */ (hub), ...pages]);
  expect(await asked(/** @type {Page} */ (hub))).toBe(2);
  for (const page of pages) expect(await asked(page)).toBe(0);
});

test('a visible tab is asked for the URL rather than a hidden one', async ({ context, server }) => {
  const pages = [await openAsked(context), await openAsked(context)];
  const i = await expectOneHub(pages);
  const [hub, other] = /** @type {[Page, Page]} */ ([pages[i], pages[1 - i]]);
  await hide(hub);
  await server.fault('drop');
  await expectReport(server, { upgrades: 2, connections: 1 });
  await expectOneHub([hub, other]);
  expect([await asked(hub), await asked(other)]).toEqual([1, 1]);
});

test('a tab whose callback never answers, or fails, is passed over', async ({
  context,
  server,
}) => {
  test.setTimeout(180_000);
  const pages = [];
  for (let i = 0; i < 3; i++) pages.push(await openAsked(context));
  const [hub] = /** @type {[Page]} */ (pages.splice(await expectOneHub(pages), 1));
  const [second, third] = /** @type {[Page, Page]} */ (pages);
  await answer(hub, 'never');
  await answer(second, 'throw');
  await answer(third, 'throw');
  await publish(server, 'test/a', 1, 1);
  await received(hub, 'test/a', 1);
  await server.fault('drop');
  await expect.poll(() => asked(second)).toBe(1);
  await expect.poll(() => asked(third)).toBe(1);
  expect(await asked(hub)).toBe(2);
  await expectReport(server, { upgrades: 1 });
  await answer(third, '/ws');
  // The next attempt is when this one is given up, after 10 s.
  await expect.poll(async () => (await status(third)).state, { timeout: 40_000 }).toBe('live');
  await expectOneHub([hub, second, third]);
  await publish(server, 'test/a', 2, 1);
  for (const page of [hub, second, third]) {
    expect(await received(page, 'test/a', 2)).toEqual(events('test/a', 1, 2));
  }
  for (const page of [second, third]) {
    expect(await page.evaluate(() => window.log)).toContain(
      'error url: longwire: no URL to dial: no token',
    );
  }
  await expectReport(server, { connections: 1 });
});

for (const who of ['the tab with the socket', 'another tab']) {
  test(`a login that is refused ends all tabs, and ${who} revives them all`, async ({
    context,
    server,
  }) => {
    const pages = [];
    for (let i = 0; i < 3; i++) pages.push(await openTab(context, ['test/a'], { baseMs: 20 }));
    const hub = await expectOneHub(pages);
    await server.fault('login', { mode: 'refuse' });
    await server.fault('drop');
    for (const page of pages) {
      await expectStatus(page, { state: 'ended', cause: 'unauthorized' });
      await page.evaluate(() => void window.say('waits', { echo: 1 }));
    }
    await publish(server, 'test/a', 1, 1);
    await server.fault('login', { mode: 'accept' });
    await pages[who === 'another tab' ? (hub + 1) % 3 : hub]?.evaluate(() =>
      window.client.reauthorize(),
    );
    expect(await expectOneHub(pages)).toBe(hub);
    for (const page of pages) {
      await expect
        .poll(() => page.evaluate(() => window.log.toSorted()))
        .toEqual(
          [
            'live',
            'down 1006',
            'ended unauthorized',
            'test/a resumed 1',
            'live',
            ...events('test/a', 1, 1),
            'waits acked 1',
          ].toSorted(),
        );
    }
    await expectReport(server, { connections: 1, upgrades: 5, messages: 3 });
  });
}

test('a tab that opens where the login was refused learns of it, and of the next one', async ({
  context,
  server,
}) => {
  await server.fault('login', { mode: 'refuse' });
  const first = await openTab(context, ['test/a'], { baseMs: 20 });
  await expectStatus(first, { state: 'ended', cause: 'unauthorized' });
  const late = await openTab(context, ['test/a'], { baseMs: 20 });
  // A tab that joins is a reason to try once more, and the probe is asked once a minute.
  await expectStatus(late, { tabs: 2, role: 'follower', session: '', attempt: expect.any(Number) });
  await server.fault('login', { mode: 'accept' });
  await late.evaluate(() => window.client.reauthorize());
  await expectOneHub([first, late]);
});

test('the end of the connection is said in all tabs, and a message of none is left', async ({
  context,
  server,
}) => {
  const { pages, hub } = await openTabs(context, 3, ['test/a']);
  await server.fault('close', { code: 4403, reason: 'go away' });
  for (const page of pages) {
    await expectStatus(page, {
      state: 'ended',
      cause: 'forbidden',
      lastClose: { code: 4403, reason: 'go away' },
    });
    await page.evaluate(() => void window.say('late', { echo: 1 }));
    await expectLog(page, ['live', 'down 4403 go away', 'ended forbidden', 'late ended not-sent']);
  }
  await pages[(hub + 1) % 3]?.evaluate(() => window.client.reconnectNow());
  await expectOneHub(pages);
  await expectReport(server, { connections: 1, upgrades: 2 });
});

test('another user at the server ends all tabs, and nothing is delivered or sent', async ({
  context,
  server,
}) => {
  const pages = [await context.newPage(), await context.newPage()];
  for (const page of pages) await openPage(page);
  const loginAs = (/** @type {string} */ name) =>
    pages[0]?.evaluate(async (user) => {
      await fetch('/login', { method: 'POST', body: new URLSearchParams({ name: user }) });
    }, name);
  await loginAs('ann');
  for (const page of pages) {
    await page.evaluate((options) => void window.follow(['', 'test/a'], options), {
      ...shared,
      identity: 'ann',
    });
  }
  await expectOneHub(pages);
  await server.fault('refuse', { status: 503 });
  await server.fault('drop');
  for (const page of pages) {
    await expectStatus(page, { lastClose: { code: 1006 } });
    await page.evaluate(() => void window.say('from ann', { echo: 1 }));
  }
  await loginAs('bob');
  await server.fault('publish-to', { user: 'bob', data: '"for bob"' });
  await server.fault('refuse', { status: 'off' });
  for (const page of pages) {
    await expectStatus(page, { state: 'ended', cause: 'forbidden' });
    await expect
      .poll(() => page.evaluate(() => window.log))
      .toEqual(['live', 'down 1006', 'ended forbidden', 'from ann ended not-sent']);
  }
  await expectReport(server, { messages: 0, connections: 0 });
});

test('every tab says the same of the connection, and of itself what it is', async ({
  context,
  server,
  allowedErrors,
}) => {
  allowedErrors.push(...socketErrors);
  const { pages, hub } = await openTabs(context, 3, ['test/a']);
  const common = async () => {
    const all = await Promise.all(pages.map((page) => status(page)));
    return all.map(({ state, cause, reason, attempt, session, user, hub: name, tabs, shared: s }) =>
      JSON.stringify({ state, cause, reason, attempt, session, user, name, tabs, s }),
    );
  };
  const expectSame = () => expect.poll(async () => new Set(await common()).size).toBe(1);
  await expectSame();
  for (const [i, page] of pages.entries()) {
    await expectStatus(page, {
      shared: true,
      notShared: '',
      role: i === hub ? 'hub' : 'follower',
      tabs: 3,
    });
  }
  await server.fault('refuse', { status: 503 });
  await server.fault('close', { code: 1012, reason: 'retry=30000-40000' });
  for (const page of pages) {
    await expectStatus(page, { state: 'waiting', lastClose: { code: 1012 } });
    expect((await status(page)).nextRetryAt).toBeGreaterThan(Date.now() + 5000);
  }
  await expectSame();
  await server.fault('refuse', { status: 'off' });
  // Any tab may undercut the wait.
  await pages[(hub + 1) % 3]?.evaluate(() => window.client.reconnectNow());
  await expectOneHub(pages);
  await expectSame();
  for (const page of pages) {
    await expectLog(page, ['live', 'down 1012 retry=30000-40000', 'test/a resumed 0', 'live']);
  }
  await expectReport(server, { connections: 1, upgrades: 2 });
});
