import { expect, test } from './fixtures.js';

test('the demo page goes live and shows new numbers of the host every second', async ({ page }) => {
  await page.goto('/');
  await expect(page.getByRole('status')).toContainText('live');
  await expect(page.getByText(/^[\d.]+ on \d+ processors?$/)).toBeVisible();
  await expect(page.getByRole('heading', { name: 'Break it' })).toBeVisible();

  const position = page.getByRole('row', { name: /^host/ }).getByRole('cell').nth(1);
  await expect(position).toHaveText(/^\d+$/); // the inspector looks now and then
  const first = Number(await position.textContent());
  await expect.poll(async () => Number(await position.textContent())).toBeGreaterThan(first + 1);
});

test('the page loads the wasm compressed, typed and cacheable for ever', async ({ page }) => {
  const arrived = page.waitForResponse(/\.wasm$/);
  await page.goto('/');
  const response = await arrived;
  expect(response.status()).toBe(200);
  expect(new URL(response.url()).pathname).toMatch(/^\/longwire\.[0-9a-f]{12}\.wasm$/);
  const headers = await response.allHeaders();
  expect(headers['content-type']).toBe('application/wasm');
  expect(headers['cache-control']).toBe('public, max-age=31536000, immutable');
  expect(headers['content-encoding']).toMatch(/^(br|gzip)$/); // Firefox takes br over TLS only
  await expect(page.getByRole('status')).toContainText('live');
});
