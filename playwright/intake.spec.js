// What arrives together is handed over together. The sockets of the page end in the
// page, so that a test says what comes in one task of the browser.
import { expect, expectLog, test } from './fixtures.js';
import { openPage } from './helpers.js';
import { connectTab, expectLive, hide } from './tabs.js';

const head = { seq: 0, epoch: 'e', first: 0, resync: false };
const welcome = {
  ...{ t: 'welcome', v: 1, session: 's', gen: 1, user: 'ann', ...head },
  ...{ heartbeat: 15_000, spread: 1, dedupe: { id: 'd', ms: 600_000 } },
  subs: { a: head, b: head },
};

/** @param {string} stream @param {number} seq */
const event = (stream, seq) => ({ t: 'event', stream, seq, data: seq });
/** @param {string} stream @param {number} from @param {number[]} data */
const events = (stream, from, ...data) => ({ t: 'events', stream, from, data });

/**
 * Puts in place of WebSocket one that is open at once and answers a resume with the
 * welcome. `window.bring(texts, code)` has the last one bring messages, and then its end.
 *
 * @param {import('@playwright/test').Page} page
 */
const playSockets = (page) =>
  page.evaluate((greeting) => {
    /** @type {any} */
    const w = window;
    class Played extends EventTarget {
      readyState = 0;
      bufferedAmount = 0;
      protocol = '';
      constructor() {
        super();
        w.made++;
        w.bring = (/** @type {string[]} */ texts, /** @type {number} */ code) => {
          for (const data of texts) this.dispatchEvent(new MessageEvent('message', { data }));
          if (code) this.end(code);
        };
        setTimeout(() => {
          this.readyState = 1;
          this.dispatchEvent(new Event('open'));
        });
      }
      /** @param {string} text */
      send(text) {
        const answer = new MessageEvent('message', { data: greeting });
        if (JSON.parse(text).t === 'resume') setTimeout(() => this.dispatchEvent(answer));
      }
      /** @param {number} code */
      end(code) {
        this.readyState = 3;
        this.dispatchEvent(new CloseEvent('close', { code, wasClean: true }));
      }
      /** @param {number} code */
      close(code) {
        w.ends.push(code);
        this.readyState = 2;
      }
    }
    w.ends = [];
    w.made = 0;
    w.WebSocket = Played;
  }, JSON.stringify(welcome));

/** @param {import('@playwright/test').Page} page @param {(object | string)[]} messages @param {number} [code] */
const bring = (page, messages, code) =>
  page.evaluate(
    ([texts, end]) => /** @type {any} */ (window).bring(texts, end),
    /** @type {const} */ ([
      messages.map((m) => (typeof m === 'string' ? m : JSON.stringify(m))),
      code,
    ]),
  );

/**
 * Holds up the page's timers from here on: short ones wait in `window.held`, others stay
 * away, as what waits is handed over whenever a clock of the wasm goes off.
 * @param {import('@playwright/test').Page} page
 */
const holdTimers = (page) =>
  page.evaluate(() => {
    /** @type {any} */ (window).held = [];
  });

/**
 * Lets holdTimers hold those that are set from here on.
 * @param {import('@playwright/test').Page} page
 */
const watchTimers = (page) =>
  page.evaluate(() => {
    /** @type {any} */
    const w = window;
    const { setTimeout } = window;
    w.setTimeout = (/** @type {() => void} */ f, /** @type {number} */ ms = 0) => {
      const isShort = ms > 0 && ms < 10;
      if (w.held && isShort) return w.held.push(f);
      return setTimeout(() => {
        if (!w.held || isShort) f();
      }, ms);
    };
  });

/** @param {import('@playwright/test').Page} page @param {object} [options] */
async function open(page, options) {
  await openPage(page);
  await watchTimers(page);
  await playSockets(page);
  await page.evaluate((o) => void window.follow(['a', 'b'], { baseMs: 50, capMs: 50, ...o }), {
    ...options,
  });
  await expectLive(page);
  await page.evaluate(() => void window.log.splice(0));
}

test('messages that arrive together are handled in order, of whatever kind', async ({ page }) => {
  await open(page);
  await bring(page, [
    event('a', 1),
    event('a', 2),
    events('a', 3, 3, 4),
    event('b', 1),
    event('a', 5),
    { t: 'later', data: 'x' },
    [events('b', 2, 2, 3), event('a', 6)],
    { t: 'reset', stream: 'b', seq: 9, epoch: 'f', first: 9, reason: 'renumbered' },
    event('b', 10),
    [event('a', 7), { t: 'pong', n: 1 }, event('b', 11)],
    events('a', 8),
    event('a', 6), // once more
    events('a', 7, 7, 8),
  ]);
  await expectLog(page, [
    ...['a 1 1', 'a 2 2', 'a 3 3', 'a 4 4', 'b 1 1', 'a 5 5', 'b 2 2', 'b 3 3', 'a 6 6'],
    ...['b gap', 'b 10 10', 'a 7 7', 'b 11 11', 'a 8 8'],
  ]);
});

test('more than is handed over at once arrives whole and in order', async ({ page }) => {
  await open(page);
  const many = Array.from({ length: 3000 }, (_, i) => event('a', i + 1));
  await bring(page, many);
  await expectLog(
    page,
    many.map(({ seq }) => `a ${seq} ${seq}`),
  );
});

/**
 * Brings messages, each in a task of its own, and returns what was logged by then.
 * @param {import('@playwright/test').Page} page
 * @param {object[]} messages
 */
async function bringApart(page, messages) {
  for (const m of messages) await bring(page, [m]);
  return page.evaluate(() => window.log);
}

test('events that follow each other fast are gathered, and nothing else waits', async ({
  page,
}) => {
  await open(page);
  await holdTimers(page);
  await bring(page, [event('a', 1)]);
  await expectLog(page, ['a 1 1']);
  expect(await bringApart(page, [event('a', 2), events('b', 1, 1, 2)])).toEqual(['a 1 1']);
  await page.evaluate(() => {
    for (const f of /** @type {any} */ (window).held.splice(0)) f();
  });
  const two = ['a 1 1', 'a 2 2', 'b 1 1', 'b 2 2'];
  await expectLog(page, two);
  expect(await bringApart(page, [event('a', 3)])).toEqual(two);
  await bring(page, [{ t: 'reset', stream: 'b', seq: 9, epoch: 'f', first: 9, reason: 'lost' }]);
  await expectLog(page, [...two, 'a 3 3', 'b gap']);
});

test('a page that is hidden does not wait for timers', async ({ page }) => {
  await open(page);
  await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true }));
  await holdTimers(page);
  for (const n of [1, 2, 3]) await bring(page, [event('a', n)]);
  await expectLog(page, ['a 1 1', 'a 2 2', 'a 3 3']);
  expect(await page.evaluate(() => /** @type {any} */ (window).held)).toEqual([]);
});

test('what was gathered when a page becomes hidden comes with the start of its clock', async ({
  page,
}) => {
  await openPage(page);
  await watchTimers(page);
  await playSockets(page);
  await page.evaluate(() => {
    const { createObjectURL } = URL;
    URL.createObjectURL = (/** @type {Blob} */ script) =>
      createObjectURL(new Blob(['const setInterval = () => {};', script], { type: script.type }));
  });
  await connectTab(page, ['a', 'b']);
  await expectLive(page);
  await page.evaluate(() => void window.log.splice(0));
  await holdTimers(page);
  await bring(page, [event('a', 1)]);
  await expectLog(page, ['a 1 1']);
  expect(await bringApart(page, [event('a', 2)])).toEqual(['a 1 1']);
  await hide(page);
  await expectLog(page, ['a 1 1', 'a 2 2']);
});

test('other tabs get what arrives together in order, each event once', async ({
  page,
  context,
}) => {
  await openPage(page);
  await playSockets(page);
  await connectTab(page, ['a', 'b']);
  await expectLive(page);
  const other = await context.newPage();
  await openPage(other);
  await connectTab(other, ['a']);
  const sub = { t: 'subbed', stream: 'a', ...head };
  await expect.poll(() => page.evaluate(() => window.client.status().tabs)).toBe(2);
  await bring(page, [sub]);
  await expectLive(other);
  await expect
    .poll(() => other.evaluate(() => window.client.status().streams.a?.state))
    .toBe('following');
  for (const tab of [page, other]) await tab.evaluate(() => void window.log.splice(0));
  await bring(page, [
    event('a', 1),
    event('a', 2),
    event('b', 1),
    events('a', 3, 3, 4),
    [event('a', 5), events('b', 2, 2)],
    event('a', 6),
  ]);
  const ofA = [1, 2, 3, 4, 5, 6].map((n) => `a ${n} ${n}`);
  await expectLog(other, ofA);
  await expectLog(page, [...ofA.slice(0, 2), 'b 1 1', ...ofA.slice(2, 5), 'b 2 2', 'a 6 6']);
});

/** The first lines of the log. @param {import('@playwright/test').Page} page @param {any[]} lines */
async function expectFirst(page, lines) {
  await expect
    .poll(() => page.evaluate((n) => window.log.slice(0, n), lines.length))
    .toEqual(lines);
}

test('what arrives before the end of a connection is handled before it', async ({ page }) => {
  await open(page);
  await bring(page, [event('a', 1), event('a', 2), event('a', 3)], 4401);
  await expectFirst(page, ['a 1 1', 'a 2 2', 'a 3 3', expect.stringMatching(/^(down|ended) /)]);
});

test('a message that is no frame costs nothing of what came with it before', async ({ page }) => {
  await open(page);
  await bring(page, [event('a', 1), event('a', 2), '{"t":"event"', event('a', 3)]);
  await expectFirst(page, [
    ...['a 1 1', 'a 2 2'],
    expect.stringMatching(/^error protocol: longwire: bad message from the server: /),
    expect.stringMatching(/^down 4400 /),
  ]);
});

test('a message above the limit ends the connection behind what came before', async ({ page }) => {
  await open(page, { maxMessage: 1000 });
  const long = { ...event('a', 3), data: 'é'.repeat(480) }; // by its bytes only
  await bring(page, [event('a', 1), event('a', 2), long, event('a', 3)]);
  await expectFirst(page, ['a 1 1', 'a 2 2', expect.stringMatching(/^down 4009 message of /)]);
  expect(await page.evaluate(() => /** @type {any} */ (window).ends)).toContain(4009);
});

/**
 * Follows a stream while the wasm is held up; the result lets it load.
 * @param {import('@playwright/test').Page} page
 */
async function openEarly(page) {
  let load = () => {};
  /** @type {Promise<void>} */
  const held = new Promise((resolve) => {
    load = resolve;
  });
  await page.route(/\.wasm$/, async (route) => {
    await held;
    await route.continue();
  });
  await openPage(page);
  await playSockets(page);
  await page.evaluate(() => {
    /** @type {any} */
    const w = window;
    w.urls = 0;
    const url = () => `/ws?n=${++w.urls}`;
    w.follow(['a'], { url, baseMs: 50, capMs: 50 });
  });
  await expect.poll(() => page.evaluate(() => /** @type {any} */ (window).made)).toBe(1);
  return load;
}

/** @param {import('@playwright/test').Page} page */
const made = (page) =>
  page.evaluate(() => {
    const { made: sockets, urls } = /** @type {any} */ (window);
    return { sockets, urls };
  });

test('a server that has nothing but holes is not asked in a hot loop', async ({ page }) => {
  await open(page);
  // Its answers are there at once: after one that took a second it may be asked at once.
  await page.evaluate(
    (answers) => {
      /** @type {any} */
      const w = window;
      w.asked = [];
      const { send } = WebSocket.prototype;
      WebSocket.prototype.send = function (text) {
        if (JSON.parse(String(text)).t !== 'sub') {
          send.call(this, text);
          return;
        }
        w.asked.push(performance.now());
        setTimeout(() => w.bring(answers));
      };
    },
    [{ t: 'subbed', stream: 'a', ...head, seq: 4 }, event('a', 3)].map((f) => JSON.stringify(f)),
  );
  await bring(page, [event('a', 2)]);
  /** @returns {Promise<number[]>} */
  const asked = () => page.evaluate(() => /** @type {any} */ (window).asked);
  await expect.poll(async () => (await asked()).length).toBeGreaterThan(6);
  const [, , , fourth = 0, fifth = 0, , seventh = 0] = await asked();
  expect(fifth - fourth, 'some at once, then one a second').toBeGreaterThan(900);
  expect(seventh - fourth).toBeGreaterThan(2800);
  expect((await made(page)).sockets).toBe(1);
  expect(await page.evaluate(() => window.log.filter((line) => /^a \d/.test(line)))).toEqual([]);
});

test('the socket that opens while the wasm loads is the one that is used', async ({ page }) => {
  const load = await openEarly(page);
  load();
  await expectLive(page);
  await bring(page, [event('a', 1)]);
  await expectLog(page, ['live', 'a 1 1']);
  expect(await made(page)).toEqual({ sockets: 1, urls: 1 });
});

test('how a connection ended while the wasm loads is not lost', async ({ page }) => {
  const load = await openEarly(page);
  await bring(page, [], 4403);
  load();
  await expectFirst(page, [expect.stringMatching(/^ended forbidden/)]);
  expect(await made(page)).toEqual({ sockets: 1, urls: 1 });
});

test('a socket that opens while the wasm loads brings nothing that was not asked for', async ({
  page,
}) => {
  const load = await openEarly(page);
  await bring(page, ['no frame', event('a', 1)]);
  load();
  await expectFirst(page, [
    expect.stringMatching(/^error protocol: longwire: bad message from the server: /),
    'live',
  ]);
  expect(await made(page)).toEqual({ sockets: 2, urls: 2 });
});
