// The demo page, as people see it and as they do not.
import AxeBuilder from '@axe-core/playwright';
import { expect, fetchErrors, socketErrors, test } from './fixtures.js';
import { expectReport } from './helpers.js';

/** @typedef {import('@playwright/test').Page} Page */

test.skip(({ browserName }) => browserName !== 'chromium', 'smoke.spec.js opens it everywhere');
test.beforeEach(({ allowedErrors }) => void allowedErrors.push(...socketErrors, ...fetchErrors));

/** Opens the page and waits until all of it is there. @param {Page} page */
async function open(page) {
  await page.goto('/');
  await expect(page.getByRole('status')).toContainText('live');
  await expect(page.getByRole('heading', { name: 'Break it' })).toBeVisible();
  await expect(page.getByRole('row', { name: /^host/ })).toBeVisible(); // in the inspector
}

/** @param {Page} page @param {string} what */
async function expectAccessible(page, what) {
  // The legacy mode opens no page for what it finds in frames: there are none.
  const { violations } = await new AxeBuilder({ page }).setLegacyMode().analyze();
  const found = violations.map(({ id, nodes }) => [
    id,
    ...nodes.map(({ target }) => target.join(' ')),
  ]);
  expect(found, what).toEqual([]);
}

const sizes = { wide: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } };

for (const [name, size] of Object.entries(sizes)) {
  test(`everybody can read the page, light and dark, live and not: ${name}`, async ({
    page,
    server,
  }) => {
    test.setTimeout(180_000); // each look of axe takes seconds where others work too
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
    await open(page);
    await page.getByLabel('Your line').fill('hello');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await expect(page.getByRole('log')).toContainText('hello');
    const check = async (
      /** @type {string} */ state,
      /** @type {'light' | 'dark'} */ colorScheme,
    ) => {
      await page.emulateMedia({ colorScheme });
      await expect(page.getByRole('status')).toContainText(state);
      await expectAccessible(page, `${state}, ${colorScheme}`);
      const over = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      expect(over, `${state}: px that stick out`).toBe(0);
    };
    await check('live', 'light');
    await check('live', 'dark');

    await server.fault('refuse', { status: 503 });
    await server.fault('close', { code: 1013, reason: 'retry=600000-600001' });
    await page.getByLabel('Your line').fill('kept');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await expect(page.getByRole('log')).toContainText('not acknowledged yet');
    await check('waiting', 'light');
    if (name === 'wide') await check('waiting', 'dark');

    await server.fault('refuse', { status: 'off' });
    await page.getByRole('button', { name: 'Try now' }).first().click();
    await expect(page.getByRole('status')).toContainText('live');
    await server.fault('close', { code: 4403, reason: 'no' });
    await check('ended', name === 'wide' ? 'light' : 'dark');
  });
}

test('everything that can be done can be done by keyboard', async ({ page, server }) => {
  await open(page);
  const reached = new Set();
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press('Tab');
    const name = await page.evaluate(() => {
      let element = document.activeElement;
      while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
      if (!element || element === document.body) return '';
      const outline = getComputedStyle(element).outlineStyle;
      const label = element.getAttribute('aria-label') ?? element.id;
      return `${element.textContent?.trim().slice(0, 30) && element.tagName === 'BUTTON' ? element.textContent?.trim() : label}${outline === 'none' ? ' without an outline' : ''}`;
    });
    if (name === '') break;
    reached.add(name);
  }
  expect([...reached]).toEqual([
    'Restart the server',
    'Drop the connection',
    'Go silent',
    'Refuse logins',
    'Accept logins',
    'Send while down',
    'Open three more tabs',
    'chat lines',
    'text',
    'Send',
    'name',
    'Log in',
    'history',
    'Ping',
    'Copy report',
    'timeline',
  ]);
  await page.getByRole('button', { name: 'Drop the connection' }).focus();
  await page.keyboard.press('Enter');
  await expect(page.locator('#history')).toContainText(/resumed – (nothing missed|\d+ missed)/);
  await expectReport(server, { connections: 1 });
});

test('three more tabs use the connection that is there, and each has everything once', async ({
  page,
  context,
  server,
}) => {
  await open(page);
  // It may be here before the first sample; the others begin with a snapshot that has some.
  await expect(page.locator('#tabs li')).toContainText(/[1-9]\d* events?,/);
  await page.getByRole('button', { name: 'Open three more tabs' }).click();
  await expect.poll(() => context.pages().length).toBe(4);
  for (const tab of context.pages()) {
    await expect(tab.getByRole('status')).toContainText('live');
    await tab.bringToFront();
    const rows = tab.locator('#tabs li');
    await expect(rows).toHaveCount(4);
    await expect(rows.filter({ hasText: '(this one)' })).toHaveCount(1);
    await expect(rows.filter({ hasText: 'has the connection' })).toHaveCount(1);
    await expect(rows.filter({ hasText: 'none twice, none missing' })).toHaveCount(4);
    const others = rows.filter({ hasText: /Tab [234]/ });
    await expect(others.locator('path.snapshot[d^=M]')).toHaveCount(3);
  }
  await expectReport(server, { connections: 1, upgrades: 1 });

  await page.bringToFront();
  const rows = page.locator('#tabs li');
  await expect(rows.locator('path.live[d^=M]')).toHaveCount(4);
  await server.fault('refuse', { status: 503 });
  await server.fault('drop');
  await expect(page.getByRole('status')).not.toContainText('live');
  const { last } = await server.fault('publish', {
    stream: 'host',
    data: JSON.stringify({
      t: Date.now(),
      cpus: 1,
      load: 0,
      memUsed: 1,
      memTotal: 2,
      rx: 0,
      tx: 0,
    }),
  });
  expect(last).toBeGreaterThan(0);
  await server.fault('refuse', { status: 'off' });
  await expect(rows.locator('path.replayed[d^=M]')).toHaveCount(4);
  await expect(rows.filter({ hasText: 'none twice, none missing' })).toHaveCount(4);

  // The tab that has the connection is closed, and another one takes over.
  await page.close();
  const [next] = context.pages();
  if (!next) throw new Error('three tabs are left');
  await expect(next.locator('#tabs li')).toHaveCount(3);
  await expect(next.locator('#tabs li', { hasText: 'has the connection' })).toHaveCount(1);
});

test('who logs in, does so in all tabs', async ({ page, context }) => {
  await open(page);
  const other = await context.newPage();
  await other.goto('/');
  await expect(other.getByRole('status')).toContainText('live');
  await other.getByLabel('You are').fill('ada');
  await other.getByRole('button', { name: 'Log in' }).click();
  for (const tab of [page, other]) {
    await expect(tab.getByLabel('You are')).toHaveValue('ada');
    await expect(tab.getByRole('status')).toContainText('live');
    await tab.getByLabel('Your line').fill('it is me');
    await tab.getByRole('button', { name: 'Send', exact: true }).click();
  }
  await expect(page.getByRole('log').getByText('ada')).toHaveCount(2);
});

test('the page does not say which node it is on where there is only one', async ({ page }) => {
  await open(page);
  await expect(page.locator('#node')).toHaveText('server');
});

test.describe('behind several nodes', () => {
  test.use({ serverFlags: ['-node', 'b'] });

  test('the page says which of them it is on', async ({ page }) => {
    await open(page);
    await expect(page.locator('#node')).toHaveText('node b');
  });
});
