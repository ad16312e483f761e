// What the specs share: a page that writes down everything the client tells it.
import { expect, expectLog } from './fixtures.js';

/** @typedef {import('@playwright/test').Page} Page */
/** @typedef {import('./fixtures.js').Fixtures['server']} Server */

/**
 * Opens an empty page that has the shim as `window.shim`, and two functions.
 *
 * `follow(streams, options)` connects, with short waits, and writes to the log: `live`, `down CODE
 * REASON` when it no longer is, `ended CAUSE`, `error CODE: MESSAGE`, and for each
 * stream `S SEQ DATA`, `S snapshot SEQ DATA`, `S gap`, `S gap snapshot`, `S resumed
 * MISSED` and `S refused CODE`. The connection is the result and `window.client`.
 * A line of chat is written as its text.
 *
 * `say(label, body, options)` sends and writes `LABEL acked RESULT` or `LABEL CODE OUTCOME`.
 *
 * `window.sockets` are all sockets so far.
 *
 * @param {Page} page
 * @param {string} [origin] default: that of the server, as the fixture baseURL says
 */
export async function openPage(page, origin = '') {
  await page.goto(`${origin}/blank`);
  await page.evaluate(async () => {
    const path = '/longwire.js'; // unknown to tsc
    window.shim = await import(path);
    window.sockets = [];
    const Real = window.WebSocket;
    window.WebSocket = class extends Real {
      /** @param {string | URL} url */
      constructor(url) {
        super(url);
        window.sockets.push(this);
      }
    };

    const log = (/** @type {unknown[]} */ ...words) => void window.log.push(words.join(' '));
    const show = (/** @type {any} */ data) =>
      JSON.stringify(data, (_, value) => value?.text ?? value);

    window.follow = (streams, options) => {
      const client = window.shim.connect({
        url: '/ws',
        probe: '/probe',
        capMs: 2000, // failures count on while no session holds for seconds, as here none does
        ...options,
      });
      window.client = client;
      let before = client.state;
      client.on('state', ({ state, cause, lastClose }) => {
        if (state === before) return;
        const was = before;
        before = state;
        if (state === 'live') log('live');
        if (was === 'live' && cause !== 'closed') {
          log('down', ...[lastClose?.code, lastClose?.reason].filter(Boolean));
        }
        if (state === 'ended') log('ended', cause);
      });
      client.on('error', ({ code, message }) => log('error', `${code}: ${message}`));
      for (const name of streams) {
        client.subscribe(name, {
          event: (data, { seq }) => log(name, seq, show(data)),
          snapshot: (state, { seq }) => log(name, 'snapshot', seq, show(state)),
          gap: ({ snapshot }) => log(name, 'gap', ...(snapshot ? ['snapshot'] : [])),
          resumed: ({ missed }) => log(name, 'resumed', missed),
          error: ({ code }) => log(name, 'refused', code),
        });
      }
      return client;
    };

    window.say = async (label, body, options) => {
      try {
        log(label, 'acked', JSON.stringify(await window.client.send(body, options)));
      } catch (error) {
        const { code, outcome } = /** @type {import('../web/types.d.ts').LongwireError} */ (error);
        log(label, code, outcome);
      }
    };
  });
}

/**
 * Opens such a page, follows streams and waits until the connection is live.
 *
 * @param {Page} page
 * @param {string[]} streams
 * @param {Partial<import('../web/types.d.ts').Options>} [options] that can be cloned: no functions
 */
export async function openLive(page, streams, options = {}) {
  await openPage(page);
  await page.evaluate(
    ([names, more]) => void window.follow(names, more),
    /** @type {const} */ ([streams, options]),
  );
  await expectLog(page, ['live']);
}

/**
 * Waits until the log is exactly these lines, of which some are known by a pattern only.
 *
 * @param {Page} page
 * @param {(string | RegExp)[]} lines
 */
export async function expectLines(page, lines) {
  const want = lines.map((line) => (typeof line === 'string' ? line : expect.stringMatching(line)));
  await expect.poll(() => page.evaluate(() => window.log)).toEqual(want);
}

/**
 * What `status()` of the page's client says.
 *
 * @param {Page} page
 */
export function status(page) {
  return page.evaluate(() => window.client.status());
}

/**
 * Waits until the status of the page's client matches.
 *
 * @param {Page} page
 * @param {Record<string, unknown>} want
 */
export async function expectStatus(page, want) {
  await expect.poll(() => status(page)).toMatchObject(want);
}

/**
 * Waits until the server's counters match.
 *
 * @param {Server} server
 * @param {Record<string, unknown>} want
 */
export async function expectReport(server, want) {
  await expect.poll(() => server.report()).toMatchObject(want);
}

/**
 * Waits until the server has begun to handle so many messages. It goes on meanwhile.
 *
 * @param {Server} server
 * @param {number} n
 */
export async function expectMessages(server, n) {
  await expect.poll(async () => (await server.report()).messages).toBeGreaterThanOrEqual(n);
}

/**
 * The lines that `count` events of the fault publish make, from the sequence number
 * `from` on, where the stream has had no others.
 *
 * @param {string} stream
 * @param {number} from
 * @param {number} count
 */
export function events(stream, from, count) {
  return Array.from({ length: count }, (_, i) => `${stream} ${from + i} {"n":${from + i}}`);
}

/**
 * Publishes the events that `events` expects.
 *
 * @param {Server} server
 * @param {string} stream
 * @param {number} from
 * @param {number} count
 */
export async function publish(server, stream, from, count) {
  const { last } = await server.fault('publish', { stream, from, count });
  expect(last, 'the last sequence number').toBe(from + count - 1);
}
