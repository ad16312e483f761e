// <longwire-inspector> in somebody's page.
import { readFileSync } from 'node:fs';
import { report, scrub } from '../web/inspector/report.js';
import { closeWords, recovery } from '../web/inspector/words.js';
import { expect, fetchErrors, socketErrors, test } from './fixtures.js';
import { expectStatus, openLive, openPage, publish } from './helpers.js';
import { expectOneHub, openTabs } from './tabs.js';

/** @typedef {import('@playwright/test').Page} Page */
/** @typedef {import('../web/types.inspector.d.ts').LongwireInspector} Inspector */

test.skip(({ browserName }) => browserName !== 'chromium', 'it uses nothing that differs');
test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors, ...fetchErrors));

/** Loads the class. @param {Page} page */
const load = (page) =>
  page.evaluate(async () => {
    const path = '/inspector.js'; // unknown to tsc
    await import(path);
  });

/** Puts an inspector of the page's connection into it. @param {Page} page */
async function inspect(page) {
  await load(page);
  await page.evaluate(() => {
    const inspector = document.createElement('longwire-inspector');
    inspector.connection = window.client;
    document.body.replaceChildren(inspector);
  });
  return page.locator('longwire-inspector');
}

/** A row of the streams. @param {import('@playwright/test').Locator} inspector @param {string} name */
const row = (inspector, name) => inspector.getByRole('row', { name }).getByRole('cell');

/** The value of a fact. @param {import('@playwright/test').Locator} inspector @param {string} name */
const fact = (inspector, name) =>
  inspector.getByRole('term').getByText(name, { exact: true }).locator('xpath=../dd');

test('every close code of the protocol is explained', () => {
  const source = readFileSync(new URL('../wire/close.go', import.meta.url), 'utf8');
  const codes = [...source.matchAll(/^\tClose\w+\s+= (\d{4})/gm)].map((match) => Number(match[1]));
  expect(codes.length).toBeGreaterThan(20);
  for (const code of codes) expect(closeWords(code), `${code}`).not.toMatch(/unknown|application/);
  expect(closeWords(4999)).toBe('a code of the application');
  expect(closeWords(2999)).toBe('an unknown code');
});

test('the times of recovery are read by the bounds that the client counts by', () => {
  const source = readFileSync(new URL('../reconnect/account.go', import.meta.url), 'utf8');
  const text = /RecoveryBounds = .*?\{(.*?)\n\}/s.exec(source)?.[1] ?? '';
  const units = /** @type {Record<string, number>} */ ({
    Millisecond: 1,
    Second: 1e3,
    Minute: 6e4,
  });
  const bounds = [...text.matchAll(/(?:(\d+) ?\* ?)?time\.(\w+)/g)].map(
    ([, n = '1', unit = '']) => Number(n) * (units[unit] ?? NaN),
  );
  expect(bounds).toHaveLength(10);
  for (const [i, bound] of bounds.entries()) {
    const counts = Array.from({ length: 11 }, (_, j) => Number(i === j));
    const said = bound < 60_000 ? `${bound / 1000} s` : `${bound / 60_000} min`;
    expect(recovery(counts)).toBe(`once, most within ${said}`);
  }
  expect(recovery([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2])).toBe('2 times, most after 5 min');
  expect(recovery([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])).toBe('never');
  expect(recovery(undefined)).toBe('never');
});

test('what may be a secret is taken out of a text, and what helps stays', () => {
  for (const [text, want] of /** @type {const} */ ([
    ['connection closed with 1012: retry=500-1500', 'connection closed with 1012: retry=500-1500'],
    [
      'connection closed with 4409: gen=1764495600000',
      'connection closed with 4409: gen=1764495600000',
    ],
    ['no pong within 2s', 'no pong within 2s'],
    ['GET https://ada:pw@a.example/ws?ticket=s3cret#x failed', 'GET https://a.example/ws failed'],
    ['wss://a.example/t/0123456789abcdef0123456789/ws', 'wss://a.example/t/…/ws'],
    ['no URL to dial: /ws?ticket=s3cret is no URL', 'no URL to dial: /ws?… is no URL'],
    ['bad token=s3cret, come again', 'bad token=…, come again'],
    ['{"accessToken":"s3cret"}', '{"accessToken":"…"}'],
    ['Authorization: s3cret', 'Authorization: …'],
    ['Authorization: Bearer s3cret', 'Authorization: …'],
    ['Bearer s3cret.of.mine', 'Bearer …'],
    ['set-cookie: a=b; sid=s3cret', 'set-cookie: …'],
    ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl', '…'],
    ['ada@example.org may not', '…@… may not'],
    ['http://[ is odd', '… is odd'],
    ['', ''],
  ])) {
    expect(scrub(text), text).toBe(want);
  }
});

test('the module loads where there is no DOM, as on a server that renders pages', async () => {
  const { LongwireInspector } = await import('../web/inspector.js');
  expect(LongwireInspector).toBeInstanceOf(Function);
  expect(report).toBeInstanceOf(Function);
});

test('the inspector shows state, streams, tabs and latency, and follows them', async ({
  context,
  server,
}) => {
  const { pages, hub } = await openTabs(context, 2, ['test/a']);
  const [holder, other] = [pages[hub], pages[1 - hub]];
  if (!holder || !other) throw new Error('two tabs are two tabs');
  for (const page of [holder, other]) {
    const inspector = await inspect(page);
    await expect(inspector.getByText('live', { exact: true }).first()).toBeVisible();
    await expect(row(inspector, 'test/a')).toHaveText([
      'test/a',
      '0',
      /….?$/,
      'following',
      /^\d+ s$/,
    ]);
    await expect(fact(inspector, 'tabs')).toHaveText(/^2, hub /);
    await expect(fact(inspector, 'latency')).toHaveText(/^[\d.]+ ms$/);
    await expect(fact(inspector, 'outbox')).toHaveText('empty');
    await expect(fact(inspector, 'lost')).toHaveText('never');
  }
  await expect(fact(holder.locator('longwire-inspector'), 'this tab')).toHaveText(
    'has the connection',
  );
  const follower = other.locator('longwire-inspector');
  await expect(fact(follower, 'this tab')).toHaveText('uses the connection of another tab');

  await publish(server, 'test/a', 1, 3);
  await expect(row(follower, 'test/a').nth(1)).toHaveText('3');
  await expect(fact(follower, 'events')).toHaveText('3, 0 of them replayed');

  await holder.close();
  await expectOneHub([other]);
  await expect(fact(follower, 'this tab')).toHaveText('has the connection');
  await expect(fact(follower, 'tabs')).toHaveText(/^1, hub /);
});

test('the timeline says what close codes mean, and the countdown when the next attempt is', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a']);
  const inspector = await inspect(page);
  await server.fault('refuse', { status: 503 });
  await server.fault('close', { code: 1012, reason: 'retry=600000-600001' });
  await expect(inspector.getByText(/^next attempt in\s*\d+\.\d s$/)).toBeVisible();
  await expect(inspector.getByRole('progressbar')).toBeVisible();
  await expect(fact(inspector, 'not before')).toHaveText(/^in \d+ min \d+ s$/);
  await expect(fact(inspector, 'last close')).toHaveText(
    '1012 retry=600000-600001: the server restarts',
  );
  const newest = inspector.getByLabel('timeline').getByRole('listitem').first();
  await expect(newest).toContainText('waiting');
  await expect(newest).toContainText('the server restarts');

  await page.evaluate(() => void window.say('late', { chat: 'late' }));
  await expect(fact(inspector, 'outbox')).toHaveText('1 not settled');
  await server.fault('refuse', { status: 'off' });
  await inspector.getByRole('button', { name: 'Try now' }).click();
  await expect(newest).toContainText('connected');
  await expect(inspector.getByText(/^next attempt in/)).toBeHidden();
  await expect(fact(inspector, 'outbox')).toHaveText('empty');
  await expect(fact(inspector, 'lost')).toHaveText(/^once, most within/);

  await page.evaluate(() => window.client.close());
  await expect(newest).toContainText('ended');
  await expect(inspector.getByRole('button', { name: /Try now|Ping/ })).toBeHidden();
});

test('an inspector takes a connection before its class is there, another one later, and nothing else', async ({
  page,
}) => {
  await openLive(page, ['test/a']);
  await page.evaluate(() => {
    const inspector = document.createElement('longwire-inspector');
    inspector.connection = window.client;
    document.body.append(inspector);
  });
  await load(page);
  const inspector = page.locator('longwire-inspector');
  await expect(row(inspector, 'test/a').first()).toBeVisible();

  await page.evaluate(() => {
    const first = window.client;
    window.follow(['test/b']);
    for (const inspector of document.querySelectorAll('longwire-inspector')) {
      inspector.connection = window.client;
    }
    first.close();
  });
  await expect(row(inspector, 'test/b').nth(3)).toHaveText('following');
  await expect(inspector.getByRole('row', { name: 'test/a' })).toHaveCount(0);

  const said = await page.evaluate(() => {
    const [inspector] = document.getElementsByTagName('longwire-inspector');
    const wrong = [{}, 'live', 1, true, () => {}, { status() {} }, Symbol('s'), window.shim];
    return wrong.map((value) => {
      try {
        /** @type {any} */ (inspector).connection = value;
        return 'taken';
      } catch (error) {
        return String(error);
      }
    });
  });
  expect([...new Set(said)]).toEqual([
    'TypeError: longwire: connection of longwire-inspector takes what connect() returns, or null',
  ]);
  await expect(row(inspector, 'test/b').first()).toBeVisible(); // still that one

  for (const nothing of [null, undefined]) {
    const report = await page.evaluate((value) => {
      const [inspector] = document.getElementsByTagName('longwire-inspector');
      if (!inspector) return 'gone';
      inspector.connection = value;
      return `${inspector.connection} ${inspector.report()}`;
    }, nothing);
    expect(report).toBe('null ');
    await expect(inspector.getByText('no connection')).toBeVisible();
    await expect(inspector.getByRole('button', { name: 'Copy report' })).toBeDisabled();
  }
});

test('an inspector leaves no timer and no listener behind, and comes back', async ({ page }) => {
  await openLive(page, ['test/a']);
  await load(page);
  const left = await page.evaluate(() => {
    const { client } = window;
    const timers = new Set();
    const [set, clear] = [window.setInterval, window.clearInterval];
    Object.assign(window, {
      setInterval: (/** @type {any} */ fn, /** @type {number} */ ms) => {
        const id = set(fn, ms);
        timers.add(id);
        return id;
      },
      clearInterval: (/** @type {number} */ id) => {
        timers.delete(id);
        clear(id);
      },
    });
    let listeners = 0;
    const on = client.on.bind(client);
    client.on = (/** @type {any} */ name, /** @type {any} */ fn) => {
      const off = on(name, fn);
      listeners++;
      return () => {
        off();
        listeners--;
      };
    };
    /** @type {string[]} */
    const lines = [];
    const count = (/** @type {string} */ when) =>
      lines.push(`${when}: ${timers.size} timers, ${listeners} listeners`);
    const inspector = document.createElement('longwire-inspector');
    count('made');
    inspector.connection = client;
    count('not in the document');
    document.body.append(inspector);
    count('in it');
    const div = document.createElement('div');
    document.body.append(div);
    div.append(inspector); // moved
    count('moved');
    inspector.connection = client;
    count('the same again');
    inspector.remove();
    count('removed');
    document.body.append(inspector);
    count('back');
    inspector.connection = null;
    count('without a connection');
    inspector.remove();
    count('removed');
    return lines;
  });
  expect(left).toEqual([
    'made: 0 timers, 0 listeners',
    'not in the document: 0 timers, 0 listeners',
    'in it: 1 timers, 1 listeners',
    'moved: 1 timers, 1 listeners',
    'the same again: 1 timers, 1 listeners',
    'removed: 0 timers, 0 listeners',
    'back: 1 timers, 1 listeners',
    'without a connection: 0 timers, 0 listeners',
    'removed: 0 timers, 0 listeners',
  ]);
});

test('the report tells what happened and no secret', async ({ page, context, server }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await openPage(page);
  await page.evaluate(async () => {
    history.replaceState(null, '', '/blank?invite=s3cret-of-the-page#s3cret-too');
    await fetch('/login', { method: 'POST', body: new URLSearchParams({ name: 's3cret-name' }) });
    let calls = 0;
    window.follow(['test/a'], {
      url: () => {
        if (++calls > 1) throw new Error('no ticket from https://id.example/t?key=s3cret-key');
        return '/ws?ticket=s3cret-ticket';
      },
      identity: 's3cret-name',
    });
  });
  const inspector = await inspect(page);
  await expect(row(inspector, 'test/a').nth(3)).toHaveText('following');
  await publish(server, 'test/a', 1, 2);
  await server.fault('close', { code: 1013, reason: 'token=s3cret-reason' });
  await expectStatus(page, { state: 'waiting' });
  await page.evaluate(() => window.client.reconnectNow());
  await expect(inspector.getByLabel('timeline')).toContainText('no ticket from');
  await page.evaluate(() => void window.say('m', { chat: 's3cret-payload' }));

  await inspector.getByRole('button', { name: 'Copy report' }).click();
  await expect(inspector.getByText('The report is in the clipboard.')).toBeVisible();
  const text = await page.evaluate(() => navigator.clipboard.readText());
  expect(text).not.toMatch(/s3cret/);
  const { session } = await page.evaluate(() => window.client.status());
  expect(session.length).toBeGreaterThan(12);
  expect(text).not.toContain(session);
  for (const want of [
    /^Longwire \d+\.\d+\.\d+\+\w{8}, \d{4}-/,
    /^page: http:\/\/127\.0\.0\.1:\d+\/blank$/m,
    /^browser: .*Chrome/m,
    /^state: (waiting|connecting) for \d+ s/m,
    /^last close: 1013 token=… \(the server is full: try later\)$/m,
    /^session: \w{6}…, user: named$/m,
    /^outbox: 1 not settled$/m,
    /^tabs: not shared/m,
    /^ {2}test\/a: asking, at 2, epoch \w+…, quiet for \d+ s$/m,
    /^totals: attempts \d+, sessions 1, /m,
    /^ {2}\d{4}\S+ live/m,
    /connection closed with 1013: token=…; the server is full: try later$/m,
    /no ticket from https:\/\/id\.example\/t/,
  ]) {
    expect(text).toMatch(want);
  }
});

test('a report that may not be copied is shown to be copied by hand', async ({ page }) => {
  await openLive(page, ['test/a']);
  const inspector = await inspect(page);
  await page.evaluate(() => {
    navigator.clipboard.writeText = () => Promise.reject(new DOMException('no', 'NotAllowedError'));
  });
  await inspector.getByRole('button', { name: 'Copy report' }).click();
  await expect(inspector.getByText('Copying is not allowed here')).toBeVisible();
  await expect(inspector.getByRole('textbox', { name: 'report' })).toHaveValue(/^Longwire /);
});

test('the strictest policy lets the inspector look as it should', async ({ page }) => {
  await openLive(page, ['test/a']);
  await page.evaluate(() => {
    const meta = document.createElement('meta');
    meta.httpEquiv = 'Content-Security-Policy';
    meta.content = "default-src 'none'; script-src 'self'; require-trusted-types-for 'script'";
    document.head.append(meta);
  });
  const inspector = await inspect(page);
  await expect(row(inspector, 'test/a').first()).toBeVisible();
  const display = await inspector.locator('.top').evaluate((top) => getComputedStyle(top).display);
  expect(display).toBe('flex');
});
