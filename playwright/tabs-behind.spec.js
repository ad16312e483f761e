// A tab that takes nothing of what is posted to it.
import { expect, test } from './fixtures.js';
import { openTabs } from './tabs.js';

test.skip(({ browserName }) => browserName !== 'chromium', 'shown in Chromium');
test.setTimeout(180_000);
test.use({ serverFlags: ['-log-bytes', String(64 << 20)] });

test('a tab that is far behind is left behind, and has every event once when it wakes', async ({
  context,
  server,
}) => {
  const { pages, hub } = await openTabs(context, 3, ['test/a']);
  const [slow, quick] = pages.filter((_, i) => i !== hub);
  const scope = await slow?.evaluate(
    async () => (await navigator.locks.query()).held?.[0]?.name ?? '',
  );
  // What the hub says, as a tab hears it that asks for nothing.
  await quick?.evaluate((name) => {
    new BroadcastChannel(name ?? '').onmessage = ({ data }) => {
      const { h, f } = JSON.parse(data);
      if (h && f.t === 'hub') Object.assign(window, { room: f.room ?? 0 });
    };
  }, scope);
  const room = () => quick?.evaluate(() => /** @type {any} */ (window).room);

  await slow?.evaluate(() => {
    setTimeout(() => {
      const end = performance.now() + 12_000;
      while (performance.now() < end); // nothing else runs in this tab
    });
  });
  const data = JSON.stringify('x'.repeat(500_000));
  const count = 24;
  for (let i = 0; i < count; i++) {
    await server.get('/faults/publish?stream=test/a', { method: 'POST', body: data });
  }
  await expect.poll(room).toBeGreaterThan(0);

  const all = Array.from({ length: count }, (_, i) => i + 1);
  for (const page of pages) {
    const numbers = () =>
      page.evaluate(() =>
        window.log.filter((line) => line.length > 1000).map((line) => parseInt(line.slice(7), 10)),
      );
    await expect.poll(numbers).toEqual(all);
    expect(await page.evaluate(() => window.log.filter((line) => line.includes('gap')))).toEqual(
      [],
    );
  }
});
