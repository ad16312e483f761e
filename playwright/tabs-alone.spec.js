// What sharing needs and a browser does not have: tabs go without, and say so.
import { expect, socketErrors, test } from './fixtures.js';
import { events, expectReport, expectStatus, openPage, publish, status } from './helpers.js';
import {
  connectTab,
  expectLive,
  expectOneHub,
  expectUnbroken,
  hide,
  openTab,
  openTabs,
} from './tabs.js';

/** @typedef {import('@playwright/test').Page} Page */
/** @typedef {import('./fixtures.js').Fixtures['server']} Server */

const stream = 'test/a';

test.use({
  launchOptions: [
    async ({ launchOptions, browserName }, use) => {
      const { args = [] } = launchOptions;
      const name = '--host-resolver-rules=MAP tabs.test 127.0.0.1';
      await use(
        browserName === 'chromium' ? { ...launchOptions, args: [...args, name] } : launchOptions,
      );
    },
    { scope: 'worker' },
  ],
});
test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors));

/**
 * Expects two tabs to be live, each on its own, and to say why.
 *
 * @param {Page[]} pages
 * @param {Server} server
 * @param {string} why
 */
async function expectAlone(pages, server, why) {
  for (const page of pages) {
    await expectLive(page);
    await expectStatus(page, {
      shared: false,
      notShared: why,
      role: 'alone',
      tabs: 1,
      streams: { [stream]: { state: 'following' } },
    });
  }
  await expectReport(server, { connections: pages.length });
  await publish(server, stream, 1, 3);
  for (const page of pages) {
    await expect
      .poll(() => page.evaluate(() => window.log))
      .toEqual(['live', ...events(stream, 1, 3)]);
    await page.evaluate(() => window.say('one', { echo: 1 }));
    expect(await page.evaluate(() => window.log.at(-1))).toBe('one acked 1');
  }
}

const missing = [
  {
    name: 'Web Locks',
    why: 'the browser has no Web Locks',
    remove: () => void Object.defineProperty(Navigator.prototype, 'locks', { value: undefined }),
  },
  {
    name: 'BroadcastChannel',
    why: 'the browser has no BroadcastChannel',
    remove: () => void Object.defineProperty(window, 'BroadcastChannel', { value: undefined }),
  },
  {
    name: 'SubtleCrypto',
    why: 'the browser has no SubtleCrypto',
    remove: () => void Object.defineProperty(Crypto.prototype, 'subtle', { value: undefined }),
  },
];

for (const { name, why, remove } of missing) {
  test(`without ${name} each tab has its own connection`, async ({ context, server }) => {
    await context.addInitScript(remove);
    const pages = [await openTab(context, [stream]), await openTab(context, [stream])];
    await expectAlone(pages, server, why);
  });
}

/**
 * Expects two tabs whose hub is hidden to share a connection, also a new one.
 *
 * @param {Page[]} pages
 * @param {Server} server
 */
async function expectShared(pages, server) {
  const hub = pages[await expectOneHub(pages)];
  if (hub) await hide(hub);
  await publish(server, stream, 1, 3);
  await server.fault('drop');
  await expectReport(server, { upgrades: 2 });
  await expectOneHub(pages);
  await publish(server, stream, 4, 3);
  for (const page of pages) await expectUnbroken(page, stream, 6);
  expect((await status(/** @type {Page} */ (hub))).role).toBe('hub');
  await expectReport(server, { connections: 1 });
}

test('without Worker tabs share, and a hidden hub is only slower', async ({ context, server }) => {
  await context.addInitScript(
    () => void Object.defineProperty(window, 'Worker', { value: undefined }),
  );
  const { pages } = await openTabs(context, 2, [stream]);
  await expectShared(pages, server);
});

test('where a policy of the page forbids workers tabs share all the same', async ({
  context,
  server,
  allowedErrors,
}) => {
  // The browser's word on it, which no page can prevent.
  allowedErrors.push(/^(console|uncaught): .*Content.Security.Policy/);
  const pages = [await context.newPage(), await context.newPage()];
  for (const page of pages) {
    await openPage(page);
    await page.evaluate(() => {
      const policy = document.createElement('meta');
      policy.httpEquiv = 'Content-Security-Policy';
      policy.content = "worker-src 'none'";
      document.head.append(policy);
      document.addEventListener('securitypolicyviolation', ({ effectiveDirective }) =>
        window.log.push(`forbidden ${effectiveDirective}`),
      );
    });
    await connectTab(page, [stream]);
  }
  await expectShared(pages, server);
  const logs = await Promise.all(pages.map((page) => page.evaluate(() => window.log)));
  expect(logs.flat().filter((line) => /^forbidden/.test(line))).toEqual(['forbidden worker-src']);
});

test('on a page that is not secure each tab has its own connection', async ({
  context,
  server,
  browserName,
}) => {
  test.skip(browserName !== 'chromium', 'it takes a flag of Chromium');
  const { port } = new URL(server.url);
  const origin = `http://tabs.test:${port}`;
  const pages = [
    await openTab(context, [stream], {}, origin),
    await openTab(context, [stream], {}, origin),
  ];
  expect(await pages[0]?.evaluate(() => isSecureContext)).toBe(false);
  await expectAlone(pages, server, 'the page is not a secure context');
});

test('a connection that is not to be shared says that it was not asked to be', async ({
  context,
  server,
}) => {
  const page = await context.newPage();
  await openPage(page);
  await page.evaluate((name) => void window.follow([name]), stream);
  await expectAlone([page], server, 'the option share is not set');
});
