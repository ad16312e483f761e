// Fixtures for all specs: a server that the test owns, and a browser context in
// which no error goes unnoticed.
import { test as base, expect } from '@playwright/test';
import { Server } from './server.js';

export { expect };

/**
 * @typedef {object} Fixtures
 * @property {string[]} serverFlags flags of `longwire serve` beside those that every test has; set them by test.use
 * @property {Server} server started before the test, stopped after it
 * @property {RegExp[]} allowedErrors console errors that the test is about; push to it. Any other fails the test
 *
 * @typedef {import('@playwright/test').PlaywrightTestArgs & import('@playwright/test').PlaywrightTestOptions} TestArgs
 * @typedef {import('@playwright/test').PlaywrightWorkerArgs & import('@playwright/test').PlaywrightWorkerOptions} WorkerArgs
 */

/**
 * Console errors by which browsers report a WebSocket that did not open or broke.
 * A page cannot prevent them.
 */
export const socketErrors = [
  /WebSocket connection to '\S+' failed/, // Chromium
  /can’t establish a connection to the server at ws/, // Firefox
  /The connection to ws\S+ was interrupted/, // Firefox
];

/** The same for fetch, of which only Chromium speaks: what a probe meets. */
export const fetchErrors = [/Failed to load resource/];

/** @type {import('@playwright/test').Fixtures<Fixtures, {}, TestArgs, WorkerArgs>} */
const fixtures = {
  serverFlags: [[], { option: true }],

  server: async ({ serverFlags }, use, testInfo) => {
    const server = new Server(['-spread', '200ms', ...serverFlags]);
    await server.start();
    await use(server);
    const crashed = server.crashed || /^panic:|\bpanic serving\b/m.test(server.log);
    await server.stop();
    if (crashed || testInfo.errors.length > 0) {
      process.stderr.write(`--- log of the server ---\n${server.log}---\n`);
    }
    expect(crashed, 'the server crashed').toBe(false);
  },

  baseURL: async ({ server }, use) => use(server.url),

  // biome-ignore lint/correctness/noEmptyPattern: Playwright wants a pattern here
  allowedErrors: async ({}, use) => use([]),

  context: async ({ context, allowedErrors }, use) => lendContext(context, allowedErrors, use),
};

/**
 * Lends a context out in which no error goes unnoticed.
 *
 * @param {import('@playwright/test').BrowserContext} context
 * @param {RegExp[]} allowedErrors
 * @param {(context: import('@playwright/test').BrowserContext) => Promise<void>} use
 */
export async function lendContext(context, allowedErrors, use) {
  /** @type {string[]} */
  const errors = [];
  context.on('weberror', (err) => errors.push(`uncaught: ${err.error()}`));
  context.on('console', (message) => {
    if (message.type() === 'error') {
      errors.push(`console: ${message.text()}`);
    }
  });
  await context.addInitScript(() => {
    window.log = [];
  });
  // A page from the network, not a fulfilled request: Chromium takes those for
  // public pages, which must not connect to the loopback.
  await context.route('**/blank', (route) =>
    route.continue({ url: new URL('/healthz', route.request().url()).href }),
  );
  await use(context);
  const unexpected = errors.filter((text) => !allowedErrors.some((allowed) => allowed.test(text)));
  expect(unexpected, 'errors in the page').toEqual([]);
}

/**
 * The test function of all specs. Each test has its own server, whose address is
 * the base URL; `/blank` is an empty page of that origin, for specs that import
 * the shim themselves. A page pushes what happens to it as text lines to
 * `window.log`, which every document starts with empty.
 */
export const test = base.extend(fixtures);

/**
 * Waits until the log of the page is exactly these lines. Only what comes before
 * the last line is known to be complete, so let a script end with a line of its own.
 *
 * @param {import('@playwright/test').Page} page
 * @param {string[]} lines
 */
export async function expectLog(page, lines) {
  await expect.poll(() => page.evaluate(() => window.log)).toEqual(lines);
}
