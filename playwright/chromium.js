// A Chromium as people have it: tabs are really hidden, timers throttled, pages frozen.
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from '@playwright/test';
import { test as base, lendContext } from './fixtures.js';

/** @typedef {import('@playwright/test').BrowserContext} Context */
/** @typedef {import('@playwright/test').Page} Page */

/**
 * Starts one and resolves with its address, and a function that ends it.
 *
 * @param {string} binary
 * @param {string[]} args
 */
async function start(binary, args) {
  const profile = await mkdtemp(join(tmpdir(), 'longwire-chromium-'));
  const own = [
    '--headless',
    '--remote-debugging-port=0',
    `--user-data-dir=${profile}`,
    // Else it is five minutes until timers of a page that it takes for one that still
    // loads go off once a minute, and which that is nobody can say.
    '--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/10',
  ];
  const child = spawn(binary, [...args, ...own, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true, // with its processes it is a group of its own
  });
  const exit = new Promise((resolve) => child.once('exit', resolve));
  const stop = async () => {
    if (child.pid && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
    await exit;
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    for await (const line of createInterface(child.stderr)) {
      const [, address] = /DevTools listening on (ws:\S+)/.exec(line) ?? [];
      if (!address) continue;
      child.stderr.on('error', () => {}).resume();
      return { address, stop };
    }
    throw new Error(`${binary} does not start`);
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * The test function of specs that need such a browser. A page that is opened, or
 * brought to the front, hides the others.
 */
export const test = base.extend({
  context: async ({ launchOptions, allowedErrors }, use) => {
    const { executablePath = chromium.executablePath(), args = [] } = launchOptions;
    const { address, stop } = await start(executablePath, args);
    try {
      const browser = await chromium.connectOverCDP(address, { noDefaults: true });
      const [context] = browser.contexts();
      if (!context) throw new Error('the browser has no context');
      await lendContext(context, allowedErrors, use);
      await browser.close();
    } finally {
      await stop();
    }
  },
});

/**
 * Freezes a hidden page, or thaws it.
 *
 * @param {Page} page
 * @param {'frozen' | 'active'} state
 */
export async function setLifecycle(page, state) {
  const session = await page.context().newCDPSession(page);
  await session.send('Page.setWebLifecycleState', { state });
  await session.detach();
}

/**
 * Finds the process that a page runs in: the one that is busy when the page is.
 *
 * @param {Page} page
 * @returns {Promise<number>}
 */
export async function processOf(page) {
  const session = await page.context().browser()?.newBrowserCDPSession();
  if (!session) throw new Error('the page has no browser');
  const look = async () => {
    const { processInfo } = await session.send('SystemInfo.getProcessInfo');
    return processInfo.filter(({ type }) => type === 'renderer');
  };
  const before = new Map((await look()).map(({ id, cpuTime }) => [id, cpuTime]));
  await page.evaluate(() => {
    const end = performance.now() + 1000;
    while (performance.now() < end);
  });
  const used = (await look()).map(({ id, cpuTime }) => ({
    id,
    cpu: cpuTime - (before.get(id) ?? 0),
  }));
  await session.detach();
  const [busiest] = used.sort((a, b) => b.cpu - a.cpu);
  if (!busiest) throw new Error('there is no process of a page');
  return busiest.id;
}
