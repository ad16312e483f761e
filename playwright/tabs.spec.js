// All tabs, one connection: what each of them gets, whatever happens to the others.
import { expect, socketErrors, test } from './fixtures.js';
import { events, expectMessages, expectReport, openPage, publish, status } from './helpers.js';
import {
  connectTab,
  expectLive,
  expectOneHub,
  expectUnbroken,
  hide,
  openTab,
  openTabs,
  publishing,
  received,
  shared,
} from './tabs.js';

/** @typedef {import('@playwright/test').Page} Page */

test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors));

test('ten tabs open one socket and load one wasm, and each has every event once', async ({
  context,
  server,
}) => {
  test.setTimeout(180_000); // ten tabs take their time to open
  /** @type {string[]} */
  const requests = [];
  context.on('request', (request) => requests.push(new URL(request.url()).pathname));
  const { pages } = await openTabs(context, 10, ['test/a']);
  await publish(server, 'test/a', 1, 1000);
  for (const page of pages) {
    expect(await received(page, 'test/a', 1000)).toEqual(events('test/a', 1, 1000));
  }
  await expectReport(server, { connections: 1, upgrades: 1 });
  expect(requests.filter((path) => path.endsWith('.wasm'))).toHaveLength(1);
});

test('the tab with the socket is closed, and the others lose nothing', async ({
  context,
  server,
}) => {
  const { pages, hub } = await openTabs(context, 3, ['test/a']);
  await publish(server, 'test/a', 1, 10);
  await Promise.all(pages.map((page) => received(page, 'test/a', 10)));
  const [gone] = pages.splice(hub, 1);
  await gone?.close();
  await publish(server, 'test/a', 11, 10);
  for (const page of pages) {
    expect(await received(page, 'test/a', 20)).toEqual(events('test/a', 1, 20));
  }
  await expectOneHub(pages);
  await expectReport(server, { connections: 1 });
});

test('eight tabs opened at once have one connection', async ({ context, server }) => {
  // Firefox fails at times to make pages while it makes the first.
  /** @type {Page[]} */
  const pages = [];
  for (let i = 0; i < 8; i++) pages.push(await context.newPage());
  await Promise.all(pages.map((page) => openPage(page).then(() => connectTab(page, ['test/a']))));
  await expectOneHub(pages);
  await publish(server, 'test/a', 1, 100);
  for (const page of pages) {
    expect(await received(page, 'test/a', 100)).toEqual(events('test/a', 1, 100));
  }
  await expectReport(server, { connections: 1 });
});

test('a tab that opens late is live at once, and disturbs nobody', async ({ context, server }) => {
  const { pages } = await openTabs(context, 2, ['test/a']);
  await publish(server, 'test/a', 1, 5);
  await Promise.all(pages.map((page) => received(page, 'test/a', 5)));
  const late = await openTab(context, ['test/a', 'chat']);
  await expectLive(late);
  await expectOneHub([...pages, late]); // it may be live before it follows
  await publish(server, 'test/a', 6, 5);
  expect(await received(late, 'test/a', 10)).toEqual(events('test/a', 6, 5));
  for (const page of pages) {
    expect(await received(page, 'test/a', 10)).toEqual(events('test/a', 1, 10));
    expect(
      await page.evaluate(() => window.log.filter((line) => /gap|snapshot|down/.test(line))),
    ).toEqual([]);
  }
  await expectReport(server, { connections: 1, upgrades: 1 });
});

test('messages of any tab are settled once, whatever becomes of the tab with the socket', async ({
  context,
  server,
}) => {
  const { pages, hub } = await openTabs(context, 2, ['test/a']);
  const other = pages[1 - hub];
  await other?.evaluate(() => {
    for (let i = 0; i < 10; i++) void window.say(`m${i}`, { echo: i, delayMs: 300 });
  });
  await expectMessages(server, 2);
  await pages[hub]?.close();
  await expect
    .poll(() => other?.evaluate(() => window.log.filter((line) => line.startsWith('m')).sort()))
    .toEqual(Array.from({ length: 10 }, (_, i) => `m${i} acked ${i}`));
  expect(Object.values((await server.report()).effects)).toEqual(Array(10).fill(1));
});

test('tabs of two users never meet', async ({ context, server }) => {
  const ann = await openTab(context, ['test/a'], { identity: '' });
  const bob = await openTab(context, ['test/a'], { share: 'demo2' });
  const same = await openTab(context, ['test/a'], { ...shared });
  await expectOneHub([ann, same]);
  await expectLive(bob);
  await expectReport(server, { connections: 2 });
});

test('eight tabs that start in one moment have one hub, though two are busy and all hear late', async ({
  context,
  server,
}) => {
  test.setTimeout(180_000);
  await context.addInitScript(() => {
    const Real = window.BroadcastChannel;
    const lateMs = Math.random() * 400;
    window.BroadcastChannel = class extends Real {
      /** @override @param {any} fn */
      set onmessage(fn) {
        super.onmessage = fn && ((event) => setTimeout(() => fn.call(this, event), lateMs));
      }
    };
  });
  const pages = [];
  for (let i = 0; i < 8; i++) {
    const page = await context.newPage();
    await openPage(page);
    pages.push(page);
  }
  await Promise.all(
    pages.map(async (page, i) => {
      await connectTab(page, ['test/a']);
      if (i > 1) return;
      await page.evaluate(() => {
        const end = performance.now() + 3000;
        while (performance.now() < end);
      });
    }),
  );
  await expectOneHub(pages, 30_000);
  const { upgrades } = await server.report();
  const published = publishing(server, 'test/a');
  await Promise.all(
    pages.map((page, i) =>
      page.evaluate(async (n) => {
        for (let k = 0; k < 5; k++) await window.say(`m${n}`, { echo: k });
      }, i),
    ),
  );
  const last = await published.stop();
  for (const page of pages) await expectUnbroken(page, 'test/a', last);
  expect(Object.values((await server.report()).effects)).toEqual(Array(40).fill(1));
  await expectOneHub(pages);
  await expectReport(server, { connections: 1, upgrades });
});

test('a hidden hub that cannot connect makes room for the tab that is looked at, once', async ({
  context,
  server,
}) => {
  test.setTimeout(180_000);
  const { pages, hub } = await openTabs(context, 3, ['test/a'], { baseMs: 20, capMs: 200 });
  expect(hub).toBe(0);
  await publish(server, 'test/a', 1, 10);
  // The second, which waits for the lock the longest, is hidden too: it is not its turn.
  for (const page of pages.slice(0, 2)) {
    await hide(page);
    await page.evaluate(() => {
      const Real = window.WebSocket;
      window.WebSocket = class extends Real {
        constructor() {
          super('ws://127.0.0.1:9/'); // where nobody listens
        }
      };
    });
  }
  await server.fault('drop');
  await publish(server, 'test/a', 11, 10);
  const upgrades = async () => (await server.report()).upgrades;
  await expect.poll(upgrades, { timeout: 60_000 }).toBe(2); // the tabs may yet have to notice
  expect(await expectOneHub(pages), 'the hub').toBe(2);
  for (const page of pages) await expectUnbroken(page, 'test/a', 20);
  // It lasts.
  for (let i = 0; i < 3; i++) {
    await server.fault('drop');
    await expectReport(server, { upgrades: 3 + i, connections: 1 });
    expect(await expectOneHub(pages), 'the hub').toBe(2);
  }
  for (const page of pages) {
    const hubs = await page.evaluate(() => window.client.history().map((s) => s.hub));
    expect(new Set(hubs.filter(Boolean)).size, 'hubs').toBe(2);
  }
});

test('a hub that is well stays, whoever is looked at', async ({ context, server }) => {
  const { pages, hub } = await openTabs(context, 3, ['test/a']);
  const holder = /** @type {Page} */ (pages[hub]);
  await hide(holder);
  for (let i = 0; i < 10; i++) {
    for (const page of pages) {
      if (page === holder) continue;
      await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    }
  }
  await publish(server, 'test/a', 1, 10);
  for (const page of pages) await expectUnbroken(page, 'test/a', 10);
  expect(await expectOneHub(pages)).toBe(hub);
  await expectReport(server, { connections: 1, upgrades: 1 });
});

test('a hub that dies is replaced, and one that dies again and again ends alone', async ({
  context,
  server,
  allowedErrors,
}) => {
  test.setTimeout(180_000);
  allowedErrors.push(/Go program has already exited/); // what is left of the dead one
  await context.addInitScript(() => {
    /** @type {any} */
    let Go;
    Object.defineProperty(window, 'Go', {
      set: (Real) => {
        Go = class extends Real {
          constructor() {
            super();
            Object.assign(window, { die: () => this._resolveExitPromise(), go: this });
          }
        };
      },
      get: () => Go,
    });
  });
  const { pages, hub } = await openTabs(context, 2, ['test/a']);
  if (hub) pages.reverse();
  const [first, second] = /** @type {[Page, Page]} */ (pages);
  const die = () => {
    const page = /** @type {any} */ (window);
    page.go.exited = true;
    page.die();
  };
  let last = 0;
  for (let round = 0; round < 3; round++) {
    for (const heir of [1, 0]) {
      await pages[1 - heir]?.evaluate(die);
      await expect.poll(() => pages[heir]?.evaluate(() => window.client.status().role)).toBe('hub');
      expect(await expectOneHub(pages)).toBe(heir);
      await publish(server, 'test/a', last + 1, 10);
      last += 10;
      for (const page of pages) await expectUnbroken(page, 'test/a', last);
    }
  }
  await first.evaluate(die);
  await expect
    .poll(() => status(first))
    .toMatchObject({ state: 'ended', cause: 'hub died', role: 'alone', shared: false });
  await expectOneHub([second]);
  await publish(server, 'test/a', last + 1, 10);
  await expectUnbroken(second, 'test/a', last + 10);
  expect((await first.evaluate(() => window.log)).at(-1)).toMatch(/^error hub died: /);
  await first.evaluate(() => window.client.reconnectNow());
  await expectLive(first);
  await expectReport(server, { connections: 2 });
});
