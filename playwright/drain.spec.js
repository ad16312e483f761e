// What a page does when its server goes away politely, and when the machine slept.
// The page's sockets end in the test, which plays the server.
import { expect, expectLog, test } from './fixtures.js';
import { expectStatus, openPage } from './helpers.js';

/** @typedef {import('@playwright/test').WebSocketRoute} Socket */

/**
 * @param {number} seq the head of stream a
 * @returns {string}
 */
const welcome = (seq) => {
  const own = { seq: 0, epoch: 'own', first: 0, resync: false };
  const subs = { a: { seq, epoch: 'e', first: 0, resync: false } };
  const more = { v: 1, session: 's', gen: 1, user: 'ann', heartbeat: 15_000, spread: 1 };
  return JSON.stringify({ t: 'welcome', ...own, ...more, subs });
};

/** @param {number} seq */
const event = (seq) => JSON.stringify({ t: 'event', stream: 'a', seq, data: seq });

test('a server that drains is left for the next one without an interruption', async ({ page }) => {
  /** @type {Socket[]} */
  const sockets = [];
  /** @type {any[]} */
  const resumes = [];
  /** @type {(string | undefined)[]} */
  const closes = [];
  await page.routeWebSocket(/\/ws$/, (socket) => {
    const n = sockets.push(socket);
    socket.onMessage((text) => {
      const frame = JSON.parse(String(text));
      if (frame.t !== 'resume') return;
      resumes.push(frame.subs);
      if (n === 1) {
        socket.send(welcome(0));
        socket.send(event(1));
        socket.send('{"t":"drain","within":0}');
      } else {
        // What the old one still says counts until the new welcome.
        sockets[0]?.send(event(2));
        socket.send(welcome(2));
        socket.send(event(3));
      }
    });
    socket.onClose((code, reason) => void closes.push(`${n} ${code} ${reason}`));
  });
  await openPage(page);
  await page.evaluate(() => void window.follow(['a'], { baseMs: 1 }));
  await expect.poll(() => page.evaluate(() => window.log.at(-1))).toBe('a 3 3');
  const log = await page.evaluate(() => window.log);
  expect(log.filter((line) => !line.startsWith('a resumed'))).toEqual([
    'live',
    ...[1, 2, 3].map((n) => `a ${n} ${n}`),
  ]);
  await expect.poll(() => closes).toEqual(['1 1000 moved']);
  expect(resumes).toEqual([{ a: {} }, { a: { after: 1, epoch: 'e' } }]);
  await expectStatus(page, { state: 'live', lastClose: null, attempt: 0, interrupted: false });
});

for (const how of ['', ', also when tabs share the connection']) {
  test(`a gap that both connections of a drain tell is told once${how}`, async ({ page }) => {
    const about = { stream: 'a', epoch: 'f', first: 0 };
    /** @param {number} seq */
    const reset = (seq) => JSON.stringify({ t: 'reset', ...about, seq, snapshot: false });
    /** @type {Socket[]} */
    const sockets = [];
    await page.routeWebSocket(/\/ws$/, (socket) => {
      const n = sockets.push(socket);
      let owed = n > 1;
      socket.onMessage((text) => {
        const frame = JSON.parse(String(text));
        if (frame.t === 'resume' && n === 1) {
          socket.send(welcome(0));
          socket.send(event(1));
          socket.send('{"t":"drain","within":0}');
        } else if (frame.t === 'resume') {
          // Numbering has started anew, which the old connection tells first.
          sockets[0]?.send(reset(0));
          const a = { seq: 2, epoch: 'f', first: 0, resync: true };
          socket.send(JSON.stringify({ ...JSON.parse(welcome(0)), subs: { a } }));
        } else if (frame.t === 'sub' && frame.stream) {
          socket.send(JSON.stringify({ t: 'subbed', ...about, seq: 2, resync: false }));
          if (owed) socket.send(reset(2));
          owed = false;
          socket.send(event(1));
          socket.send(event(2));
        }
      });
    });
    await openPage(page);
    await page.evaluate(
      (share) => void window.follow(['a'], { baseMs: 1, ...share }),
      how ? { share: 'demo', identity: '' } : {},
    );
    await expectLog(page, ['live', 'a 1 1', 'a gap', 'a resumed 2', 'a 1 1', 'a 2 2']);
  });
}

test('a wall clock that has moved on while the other stood still has the link verified', async ({
  page,
}) => {
  /** @type {string[]} */
  const pings = [];
  await page.clock.install();
  await page.routeWebSocket(/\/ws$/, (socket) => {
    socket.onMessage((text) => {
      const frame = JSON.parse(String(text));
      if (frame.t === 'resume') socket.send(welcome(0));
      if (frame.t === 'ping') {
        pings.push(frame.n);
        if (pings.length > 1) return;
        socket.send(JSON.stringify({ t: 'pong', n: frame.n }));
        socket.send(event(1));
      }
    });
  });
  await openPage(page);
  await page.evaluate(() => void window.follow(['a'], { baseMs: 1 }));
  await expectLog(page, ['live']);
  expect(pings).toEqual([]);
  await page.clock.setSystemTime(Date.now() + 3_600_000);
  // It looks at both clocks every 5 s. Timers go on at their own pace.
  await expectLog(page, ['live', 'a 1 1']);
  expect(pings).toEqual([1]);
  // It answered, so it is kept. The next time it does not.
  await page.clock.setSystemTime(Date.now() + 7_200_000);
  await expect.poll(() => pings).toEqual([1, 2]);
  await expect.poll(() => page.evaluate(() => window.log[2])).toBe('down 4408 no pong within 2s');
});
