// A server that breaks the protocol. The page's sockets end in the test, which plays it.
import { expect, expectLog, test } from './fixtures.js';
import { expectLines, expectStatus, openPage } from './helpers.js';

/** @typedef {import('@playwright/test').WebSocketRoute} Socket */

const epoch = 'e';
const head = { seq: 0, epoch, first: 0, resync: false };

const welcome = {
  ...{ t: 'welcome', v: 1, session: 's', gen: 1, user: 'ann', ...head },
  ...{ heartbeat: 15_000, spread: 1, dedupe: { id: 'd', ms: 600_000 } },
  subs: { a: head },
};

/** @param {Socket} socket @param {(object | string | Buffer)[]} frames */
function send(socket, ...frames) {
  for (const frame of frames) {
    const sent =
      typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame);
    socket.send(sent);
  }
}

/** @param {number} seq @param {object} [more] */
const event = (seq, more) => ({ t: 'event', stream: 'a', seq, data: seq, ...more });

/**
 * Plays a server: `serve` is called for each frame of a client, with the number of
 * the connection. Resolves with a function that says how many connections there were.
 *
 * @param {import('@playwright/test').Page} page
 * @param {(frame: any, socket: Socket, connection: number) => void} serve
 */
async function play(page, serve) {
  let connections = 0;
  await page.routeWebSocket(/\/ws$/, (socket) => {
    const connection = ++connections;
    socket.onMessage((text) => serve(JSON.parse(String(text)), socket, connection));
  });
  await openPage(page);
  return () => connections;
}

const follow = () => void window.follow(['a'], { baseMs: 1, capMs: 1 });

test('a message that is no frame costs the connection, never an event, and says what it was', async ({
  page,
}) => {
  /** @type {(object | string | Buffer)[]} */
  const bad = [
    'no JSON',
    '{"t":"event","stream":"a","seq":1,"data":1',
    'null',
    '"t"',
    '{}',
    '{"t":5}',
    Buffer.from(JSON.stringify(event(1))),
    event(1, { seq: '1' }),
    event(1, { seq: -1 }),
    event(1, { seq: 1.5 }),
    '{"t":"event","stream":"a","seq":9007199254740992,"data":1}',
    '{"t":"event","stream":"a","seq":1e999,"data":1}',
    { t: 'events', stream: 'a', from: 1, data: 5 },
    { t: 'resume' },
    welcome,
    `${'['.repeat(100_000)}`,
  ];
  const connections = await play(page, (frame, socket, connection) => {
    if (frame.t !== 'resume') return;
    send(socket, welcome);
    const broken = bad[connection - 1];
    if (broken !== undefined) send(socket, broken, event(1));
    else send(socket, event(1), event(2));
  });
  await page.evaluate(follow);
  await expect.poll(() => page.evaluate(() => window.log.at(-1))).toBe('a 2 2');
  const log = await page.evaluate(() => window.log);
  expect(log.filter((line) => /^(live|a resumed 0)$/.test(line))).toHaveLength(2 * bad.length + 1);
  const rest = log.filter((line) => !/^(live|a resumed 0)$/.test(line));
  expect(rest).toEqual([
    ...bad.flatMap(() => [
      expect.stringMatching(/^error protocol: longwire: bad message from the server: ./),
      expect.stringMatching(/^down 4400 ./),
    ]),
    'a 1 1',
    'a 2 2',
  ]);
  expect(connections()).toBe(bad.length + 1);
});

test('frames of a later version, and events again or of streams nobody follows, are ignored', async ({
  page,
}) => {
  const connections = await play(page, (frame, socket) => {
    if (frame.t !== 'resume') return;
    const batch = [event(3), { t: 'events', stream: 'a', from: 2, data: [2, 3, 4, 5] }];
    send(socket, { ...welcome, later: [1] }, event(1, { more: {} }), event(2), event(1));
    send(socket, { t: 'later', seq: 'x' }, [], event(1, { stream: 'b' }), event(2));
    send(socket, { t: 'snapshot', stream: 'a', seq: 50, epoch, state: 'unasked' }, batch);
    send(socket, { t: 'ack', id: 'unknown' }, { t: 'pong', n: 7 }, event(6));
  });
  await page.evaluate(follow);
  await expectLog(page, ['live', 'a 1 1', 'a 2 2', 'a 3 3', 'a 4 4', 'a 5 5', 'a 6 6']);
  expect(connections()).toBe(1);
  await expectStatus(page, { state: 'live', streams: { a: { seq: 6 } } });
});

test('a hole in a stream is not shown: what is missing is asked for and comes in order', async ({
  page,
}) => {
  await play(page, (frame, socket) => {
    if (frame.t === 'resume') send(socket, welcome, event(1), event(3), event(4));
    if (frame.t !== 'sub') return;
    expect(frame).toEqual({ t: 'sub', stream: 'a', after: 1, epoch });
    send(socket, { t: 'subbed', stream: 'a', ...head, seq: 4 }, event(2), event(3), event(4));
  });
  await page.evaluate(follow);
  await expectLines(page, [
    'live',
    'a 1 1',
    /^error hole: longwire: stream "a": got 3 instead of 2/,
    'a resumed 3',
    'a 2 2',
    'a 3 3',
    'a 4 4',
  ]);
});

test('a number too large for JavaScript never comes in: the last that fits does', async ({
  page,
}) => {
  const last = Number.MAX_SAFE_INTEGER;
  const answer = { ...head, seq: last - 2 };
  await play(page, (frame, socket) => {
    if (frame.t !== 'resume') return;
    const after = frame.subs.a.after;
    if (after === undefined) {
      send(socket, { ...welcome, subs: { a: answer } }, event(last - 1), event(last));
      send(socket, `{"t":"event","stream":"a","seq":${BigInt(last) + 1n},"data":0}`);
    } else {
      send(socket, { ...welcome, subs: { a: { ...head, seq: after } } });
    }
  });
  await page.evaluate(follow);
  await expectLines(page, [
    'live',
    `a ${last - 1} ${last - 1}`,
    `a ${last} ${last}`,
    /^error protocol: longwire: bad message from the server: .*seq/,
    /^down 4400 .*seq/,
    'a resumed 0',
    'live',
  ]);
});

test('a server that breaks every connection is tried ever more seldom', async ({ page }) => {
  const connections = await play(page, (frame, socket) => {
    if (frame.t === 'resume') send(socket, welcome, 'no JSON');
  });
  await page.evaluate(() => {
    // Random numbers at their upper end make each wait as long as it can be. The
    // played sockets have random names, which must go on being different.
    const real = crypto.getRandomValues.bind(crypto);
    crypto.getRandomValues = (array) => {
      if (array?.byteLength !== 8) return real(array);
      new Uint8Array(array.buffer, array.byteOffset, 8).fill(0xff);
      return array;
    };
    window.shim
      .connect({ url: '/ws', baseMs: 40 })
      .on('state', ({ state, since, nextRetryAt, attempt }) => {
        if (state !== 'waiting' || window.log.length === 5) return;
        window.log.push(`${attempt}: ${(nextRetryAt ?? 0) - since}`);
      });
    window.addEventListener('error', (e) => e.preventDefault()); // nobody listens
  });
  await expect.poll(() => page.evaluate(() => window.log.length)).toBe(5);
  expect(connections()).toBeLessThan(8);
  await expectLines(page, [
    /^1: [0-2]$/,
    /^2: \d\d$/,
    /^3: 1[56]\d$/,
    /^4: 3[12]\d$/,
    /^5: 6[34]\d$/,
  ]);
});

test('a welcome for another user ends the page: nothing of it is shown or sent', async ({
  page,
}) => {
  /** @type {string[]} */
  const got = [];
  await play(page, (frame, socket) => {
    got.push(frame.t);
    if (frame.t === 'resume') send(socket, { ...welcome, user: 'bob' }, event(1));
  });
  await page.evaluate(() => {
    window.follow(['a'], { identity: 'ann' });
    void window.say('from ann', { echo: 1 });
  });
  await expectLog(page, ['ended identity changed', 'from ann ended not-sent']);
  expect(got).toEqual(['resume']);
});

test('a gap whose snapshot never came is said, when the stream goes on without one', async ({
  page,
}) => {
  await play(page, (frame, socket, connection) => {
    if (frame.t !== 'resume') return;
    const answers = [
      { ...head, seq: 3 }, // from now on
      { ...head, first: 5, seq: 9, resync: true }, // and then no snapshot, but a cut
      { ...head, seq: 12 }, // from now on again
    ];
    send(socket, { ...welcome, subs: { a: answers[connection - 1] } });
    if (connection < 3) void socket.close({ code: 1001 });
    else send(socket, event(13));
  });
  await page.evaluate(follow);
  await expectLog(page, ['live', 'down 1001', 'live', 'down 1001', 'a gap', 'live', 'a 13 13']);
});
