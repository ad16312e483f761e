// Makes the pictures of docs/images: the demo page after a loss and a restart, in light
// and dark and on a phone, and the inspector. Takes some 80 seconds, as the charts show
// a minute. Run it by make screenshots.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { chromium, expect } from '@playwright/test';
import config from './playwright.config.js';
import { Server } from './server.js';

/** @typedef {import('@playwright/test').Page} Page */

const folder = fileURLToPath(new URL('../docs/images/', import.meta.url));
const project = config.projects?.find(({ name }) => name === 'chromium');

/** @param {Page} page @param {string} state */
const expectState = (page, state) =>
  expect(page.getByRole('status')).toContainText(state, { timeout: 20_000 });

/** @param {Page} page @param {string} name */
const press = (page, name) => page.getByRole('button', { name, exact: true }).click();

/** @param {Page} page @param {string} name */
async function take(page, name) {
  await page.evaluate(() => scrollTo(0, 0));
  await page.mouse.move(0, 0);
  await delay(1200); // the charts are drawn each second
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

/** @param {Page} page */
async function live(page) {
  await page.goto('/');
  await expectState(page, 'live');
  await page.getByLabel('You are').fill('ada');
  await press(page, 'Log in');
  await expectState(page, 'live');
  await press(page, 'Open three more tabs');
  await delay(20_000);
  await page.bringToFront();
  await press(page, 'Drop the connection');
  await expect(page.locator('#history')).toContainText('replayed', { timeout: 20_000 });
  await delay(10_000);
  await press(page, 'Restart the server');
  await expectState(page, 'waiting');
  await page.getByLabel('Your line').fill('Said while the server was down.');
  await press(page, 'Send');
  await expectState(page, 'live');
  await expect(page.getByRole('log')).toContainText('ada');
  await delay(8000);
}

mkdirSync(folder, { recursive: true });
const server = new Server([]);
await server.start();
const browser = await chromium.launch(project?.use?.launchOptions);
try {
  const context = await browser.newContext({
    baseURL: server.url,
    locale: 'en-GB',
    viewport: { width: 1280, height: 900 },
  });
  const page = await context.newPage();
  await live(page);
  await page.evaluate(() => scrollTo(0, 0));
  const tabs = await page.locator('.tabs').boundingBox();
  await page.setViewportSize({
    width: 1280,
    height: Math.ceil((tabs?.y ?? 0) + (tabs?.height ?? 0)) + 16,
  });
  await take(page, 'demo-light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await take(page, 'demo-dark');
  await page.setViewportSize({ width: 1000, height: 900 });
  await page.locator('.inspector').screenshot({ path: join(folder, 'inspector-dark.png') });
  await page.emulateMedia({ colorScheme: 'light' });
  await page.locator('.inspector').screenshot({ path: join(folder, 'inspector-light.png') });

  await page.setViewportSize({ width: 390, height: 844 });
  await press(page, 'Restart the server');
  await expectState(page, 'waiting');
  await take(page, 'demo-phone');
} finally {
  await browser.close();
  await server.stop();
}
