// What hundreds of handovers leave behind: nothing.
import { expect, socketErrors, test } from './fixtures.js';
import { expectReport, publish } from './helpers.js';
import { expectOneHub, openTab, received, shared } from './tabs.js';

/** @typedef {import('@playwright/test').Page} Page */

test('three hundred handovers leave no memory, no function and no socket behind', async ({
  context,
  server,
  browserName,
  allowedErrors,
}) => {
  test.skip(browserName === 'firefox', 'Firefox tells nobody the size of the heap of a page');
  test.setTimeout(240_000);
  allowedErrors.push(...socketErrors);
  // Go programs of a page are seen: how many values and functions of JavaScript they hold.
  await context.addInitScript(() => {
    /** @type {any} */ let Go;
    Object.defineProperty(window, 'Go', {
      configurable: true,
      get: () => Go,
      set: (Real) => {
        Go = class extends Real {
          constructor() {
            super();
            Object.assign(window, { go: this });
          }
        };
      },
    });
  });
  const pages = /** @type {[Page, Page]} */ ([
    await openTab(context, ['test/a']),
    await openTab(context, ['test/a']),
  ]);
  await expectOneHub(pages);

  // Whoever has the socket, and company, closes its connection and makes another. The
  // pages do so by themselves: each call from outside leaves something in their heap.
  for (const page of pages)
    await page.evaluate((options) => {
      let left = 0;
      /** @type {WeakRef<object>[]} */
      const made = [];
      const turn = () => {
        const { client } = window;
        const { state, role, tabs, streams } = client.status();
        const ready = state === 'live' && role === 'hub' && tabs === 2;
        if (!ready || streams['test/a']?.state !== 'following' || left === 0) return;
        left--;
        client.close();
        Object.assign(window, { log: [], sockets: [] });
        window.follow(['test/a'], options);
        watch();
      };
      const watch = () => {
        made.push(new WeakRef(window.client));
        window.client.on('state', () => void setTimeout(turn, 0));
      };
      watch();
      Object.assign(window, {
        handOver: (/** @type {number} */ times) => {
          left += times;
          turn();
        },
        handOversLeft: () => left,
        connections: () => made.filter((ref) => ref.deref()).length,
      });
    }, shared);

  /** @param {[number, number]} times of each page */
  const handOver = async (times) => {
    for (const [i, page] of pages.entries())
      await page.evaluate((n) => /** @type {any} */ (window).handOver(n), times[i] ?? 0);
    for (const page of pages)
      await expect
        .poll(() => page.evaluate(() => /** @type {any} */ (window).handOversLeft()), {
          timeout: 100_000,
          intervals: [1000],
        })
        .toBe(0);
    return expectOneHub(pages);
  };
  const sessions = await Promise.all(pages.map((page) => context.newCDPSession(page)));
  let last = 0;
  /** What is left in a page that has the socket, which is made to work a little. */
  const measure = async (/** @type {number} */ i) => {
    const [page, session] = [pages[i], sessions[i]];
    if (!page || !session) throw new Error('no such page');
    for (let n = 0; n < 10; n++) {
      await publish(server, 'test/a', last + 1, 900);
      last += 900;
      await received(page, 'test/a', last);
      await page.evaluate(() => {
        window.log = [];
      });
    }
    await session.send('HeapProfiler.collectGarbage');
    const { usedSize } = await session.send('Runtime.getHeapUsage');
    return page.evaluate((heap) => {
      const { go, connections } = /** @type {any} */ (window);
      return {
        heap,
        memory: go.mem.buffer.byteLength,
        values: go._ids.size,
        connections: connections(),
      };
    }, usedSize);
  };
  const measureBoth = async () => {
    const result = [];
    for (const i of [0, 1]) {
      // The one to be measured must have the socket.
      if ((await expectOneHub(pages)) !== i) await handOver(i === 0 ? [0, 1] : [1, 0]);
      // Go tidies up when it has worked enough; what it is done with it drops then.
      /** @type {Awaited<ReturnType<typeof measure>> | undefined} */
      let seen;
      await expect
        .poll(
          async () => {
            seen = await measure(i);
            return seen.connections <= 5 && seen.values <= 300;
          },
          { timeout: 60_000 },
        )
        .toBe(true);
      if (seen) result.push(seen);
    }
    return result;
  };

  await handOver([50, 50]);
  const before = await measureBoth();
  await handOver([150, 150]);
  const after = await measureBoth();
  for (const [i, { heap, memory, values }] of after.entries()) {
    expect(heap - (before[i]?.heap ?? 0), 'bytes of JavaScript').toBeLessThan(300_000);
    expect(values - (before[i]?.values ?? 0), 'values of JavaScript in Go').toBeLessThan(300);
    expect(memory, 'bytes of the wasm').toBeLessThan(12 << 20);
  }
  await expectReport(server, { connections: 1 });
});
