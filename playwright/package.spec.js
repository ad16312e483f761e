// The npm package as people install it: from its tarball, into a fresh app that Vite
// builds, and into a page without a build; both below a path, under a strict policy.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { cp, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { buildSchema } from 'graphql';
import { useServer as serveGraphQL } from 'graphql-ws/use/ws';
import { build } from 'vite';
import { WebSocketServer } from 'ws';
import { test as base, expect, expectLog, socketErrors } from './fixtures.js';
import { expectReport, publish } from './helpers.js';
import { openSite } from './site.js';

const run = promisify(execFile);
const here = import.meta.dirname;

/**
 * @typedef {object} Own
 * @property {Awaited<ReturnType<typeof openSite>>} site what the app was built to, and plain.html with the package's files in longwire/
 * @property {Record<string, import('./site.js').Upgrade>} upgrades that the site answers itself
 *
 * @typedef {object} Once
 * @property {string} app the folder of the app
 */

/** @type {import('@playwright/test').Fixtures<Own, Once, import('./fixtures.js').TestArgs & import('./fixtures.js').Fixtures, import('./fixtures.js').WorkerArgs>} */
const fixtures = {
  app: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright wants a pattern here
    async ({}, use, { workerIndex }) => {
      // Within this folder, so that all but the package comes from its node_modules.
      const app = join(here, 'test-results', `app-${workerIndex}`);
      await cp(join(here, 'app'), app, { recursive: true });
      const bin = join(here, '..', 'bin');
      const [tarball, ...more] = (await readdir(bin)).filter((name) => name.endsWith('.tgz'));
      if (!tarball || more.length > 0) throw new Error(`${bin} has not one package: make package`);
      await run('npm', ['install', '--offline', '--no-audit', '--no-fund', join(bin, tarball)], {
        cwd: app,
      });
      await build({
        root: app,
        base: '/deep/down/',
        logLevel: 'error',
        // StrictMode does what it is for in React's own development build only.
        define: { 'process.env.NODE_ENV': '"development"' },
        build: { rolldownOptions: { input: ['index.html', 'graphql.html'] } },
      });
      const dist = join(app, 'dist');
      await cp(join(app, 'plain.html'), join(dist, 'plain.html'));
      await cp(join(app, 'plain.js'), join(dist, 'plain.js'));
      const installed = join(app, 'node_modules', 'longwire', 'dist');
      await cp(installed, join(dist, 'longwire'), { recursive: true });
      await use(app);
    },
    { scope: 'worker', timeout: 60_000 },
  ],

  // biome-ignore lint/correctness/noEmptyPattern: Playwright wants a pattern here
  upgrades: async ({}, use) => use({}),

  site: async ({ app, server, upgrades }, use) => {
    const site = await openSite(join(app, 'dist'), server.url, upgrades);
    await use(site);
    await site.close();
  },
};

const test = base.extend(fixtures);

test.skip(({ browserName }) => browserName !== 'chromium', 'shown in Chromium');

test('React has one connection in StrictMode, of one socket, and closes it when it goes', async ({
  page,
  site,
  server,
  allowedErrors,
}) => {
  allowedErrors.push(...socketErrors);
  await page.addInitScript(() => {
    // A connection says its state as soon as there is one.
    const seen = new Set();
    const { dispatchEvent } = EventTarget.prototype;
    EventTarget.prototype.dispatchEvent = function (event) {
      if (event.type === 'state' && !seen.has(this)) window.log.push('connection');
      seen.add(this);
      return dispatchEvent.call(this, event);
    };
  });
  await page.goto(site.url);
  const state = page.locator('output');
  await expect(state).toHaveText('live live');
  const items = page.getByRole('listitem');
  const rest = ['0 lines', 'forbidden']; // of a snapshot; and one that is refused
  await expect(items).toHaveText([...Array(2).fill('nothing at no place, 0 gaps'), '', ...rest]);
  await publish(server, 'test/a', 1, 4);
  await publish(server, 'test/b', 1, 1);
  await expect(items).toHaveText([...Array(2).fill('10 at 4, 0 gaps'), '{"n":1}', ...rest]);
  await expectReport(server, { upgrades: 1 });

  // Inline options are new at each render: the connection stays, and asks the latest.
  await page.getByRole('button', { name: 'name' }).click();
  await server.fault('forget'); // without a snapshot, what was missed is a gap
  await expect(items.nth(1)).toHaveText('10 at no place, 1 gaps');
  await publish(server, 'test/a', 1, 1);
  await expect(items.first()).toHaveText('11 at 1, 1 gaps');
  expect(site.dialled).toEqual(['/ws?name=one', '/ws?name=two']);
  await expectLog(page, ['connection']);
  expect(await page.evaluate(() => !!customElements.get('longwire-inspector'))).toBe(true);

  await page.getByRole('button', { name: 'toggle' }).click();
  await expectReport(server, { connections: 0 });
  await page.getByRole('button', { name: 'toggle' }).click();
  await expect(state).toHaveText('live live');
  expect(site.dialled).toHaveLength(3);
  await expectLog(page, ['connection', 'connection']);
});

test('what a hook is passed wrongly is named by the TypeError that comes of it', async ({
  page,
  site,
}) => {
  await page.goto(site.url);
  await expect(page.locator('output')).toHaveText('live live');
  const calls = [
    ...['', 'undefined', 'null', '5', '"a"', '() => {}'].map((value) => [
      `useLongwire(${value})`,
      'source',
    ]),
    ...['undefined', '5', '"a"', '{}'].map((value) => [`useStream(${value}, "a")`, 'live']),
    ...['undefined', 'null', '5', '{}'].map((value) => [`useStream(null, ${value})`, 'stream']),
    ...['null', '5', '"a"', '{}'].map((value) => [`useStream(null, "a", ${value})`, 'reduce']),
  ];
  const list = calls.map(([code]) => `() => ${code}`).join();
  const said = await page.evaluate(`(() => {
    const { useLongwire, useStream } = window.hooks;
    return [${list}].map((call) => {
      try {
        return call();
      } catch (error) {
        return String(error);
      }
    });
  })()`);
  expect(calls.map(([code], i) => [code, /** @type {string[]} */ (said)[i]])).toEqual(
    calls.map(([code, name]) => [code, expect.stringContaining(`TypeError: longwire: ${name}: `)]),
  );
});

test('a page without a build runs what the package holds', async ({ page, site, app }) => {
  await page.goto(`${site.url}plain.html`);
  await expect.poll(() => page.evaluate(() => window.client?.state)).toBe('live');
  await expect(page.locator('longwire-inspector')).toContainText('live');
  expect(await page.evaluate(() => window.shim.version)).toMatch(/^\d+\.\d+\.\d+\+[0-9a-f]{8}$/);
  const installed = await readdir(join(app, 'node_modules', 'longwire', 'dist'));
  expect(installed.filter((name) => /\.(br|gz)$|^demo|^index/.test(name))).toEqual([]);
});

test('the types of every entry are found, by bundlers and by Node', async ({ app }) => {
  await writeFile(
    join(app, 'types.ts'),
    `import { connect, type Entry } from 'longwire';
    import 'longwire/inspector';
    import { useLongwire, useStream } from 'longwire/react';
    import { LongwireSocket } from 'longwire/socket';
    const live = connect({ url: '/ws', signal: AbortSignal.timeout(1) });
    for await (const entry of live.stream<number, string>('a')) {
      const each: Entry<number, string> = entry;
      if (each.type === 'event') each.data.toFixed(each.seq);
      else if (each.type === 'snapshot') each.state.trim();
      else each.reason.trim();
    }
    live.addEventListener('state', ({ detail }) => detail.state.trim());
    document.createElement('longwire-inspector').connection = live;
    const { status } = useLongwire(live);
    useStream(live, 'a', (sum: number = 0, n: number) => sum + n).data?.toFixed(status?.attempt);
    const constructor: typeof WebSocket = LongwireSocket.with({ baseMs: 1 });
    // @ts-expect-error
    connect({ url: '/ws', baseMs: constructor });`,
  );
  const tsc = join(here, 'node_modules', '.bin', 'tsc');
  const common =
    '--ignoreConfig --noEmit --strict --skipLibCheck false --target es2022 --lib es2023,dom --types';
  for (const module of ['esnext --moduleResolution bundler', 'nodenext'])
    await run(tsc, [...common.split(' '), '', '--module', ...module.split(' '), 'types.ts'], {
      cwd: app,
    });
});

test.describe('a library that takes a WebSocket', () => {
  test('has its next socket wait as the lost one had to', async ({
    page,
    site,
    upgrades,
    allowedErrors,
  }) => {
    allowedErrors.push(...socketErrors);
    const sockets = new WebSocketServer({ noServer: true });
    let count = 0;
    serveGraphQL(
      {
        schema: buildSchema('type Query { ok: Int } type Subscription { count: Int }'),
        roots: {
          subscription: {
            async *count() {
              yield { count: ++count };
              await new Promise(() => {}); // the next comes with the next subscription
            },
          },
        },
      },
      sockets,
    );
    upgrades['/graphql'] = (request, socket, head) =>
      sockets.handleUpgrade(request, socket, head, (ws) => sockets.emit('connection', ws, request));

    await page.addInitScript(() => {
      // Every wait is drawn as long as it can be.
      const real = crypto.getRandomValues.bind(crypto);
      crypto.getRandomValues = (array) => {
        if (array?.byteLength !== 8) return real(array);
        new Uint8Array(array.buffer, array.byteOffset, 8).fill(0xff);
        return array;
      };
    });
    await page.goto(`${site.url}graphql.html`);
    await expectLog(page, ['made', 'next 1']);
    for (const socket of sockets.clients) socket.terminate();
    await expectLog(page, ['made', 'next 1', 'made']);
    expect(site.dialled, 'the next attempt is 8 s away').toEqual(['/graphql']);
    // A wait ends early when somebody comes to look.
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await expectLog(page, ['made', 'next 1', 'made', 'next 2']);
    const [socket] = sockets.clients;
    if (!socket) throw new Error('the page has no socket');
    expect(socket.protocol).toBe('graphql-transport-ws');
    await page.close();
    if (socket.readyState !== socket.CLOSED) await once(socket, 'close');
  });
});
