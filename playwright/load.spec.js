// What a deployment can get wrong, and options that only the hub can judge.
import { expect, expectLog, fetchErrors, test } from './fixtures.js';
import { expectLines, expectStatus, openPage } from './helpers.js';

const anyWasm = /\/longwire\.[0-9a-f]{12}\.wasm$/;

/** @typedef {Parameters<import('@playwright/test').Page['route']>[1]} Handler */

/** @type {{ name: string, answer: Handler, says: RegExp }[]} */
const broken = [
  {
    name: 'is missing',
    answer: (route) => route.fulfill({ status: 404, body: 'not found' }),
    says: /^http\S+\.wasm was answered with 404$/,
  },
  {
    name: 'is cut short',
    answer: async (route) => {
      const response = await route.fetch();
      const body = (await response.body()).subarray(0, 100_000);
      await route.fulfill({ body, contentType: 'application/wasm' });
    },
    says: /./, // the browser's words
  },
  {
    name: 'is the page for everything that is not there',
    answer: (route) => route.fulfill({ body: '<!doctype html>', contentType: 'text/html' }),
    says: /./,
  },
  {
    name: 'is some other wasm',
    answer: (route) =>
      route.fulfill({
        body: Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]),
        contentType: 'application/wasm',
      }),
    says: /^http\S+\.wasm is not a Longwire hub$/,
  },
];

for (const { name, answer, says } of broken) {
  test(`a wasm file that ${name} ends with a clear error, and loads once it is right`, async ({
    page,
    server,
    allowedErrors,
  }) => {
    allowedErrors.push(...fetchErrors);
    let loads = 0;
    await page.route(anyWasm, (route, request) => {
      loads++;
      return answer(route, request);
    });
    await openPage(page);
    await page.evaluate(() => {
      window.follow(['test/a']);
      void window.say('one', { echo: 1 });
    });
    await expect.poll(() => page.evaluate(() => window.log)).toHaveLength(3);
    const [ended, error = '', one] = await page.evaluate(() => window.log);
    expect([ended, one]).toEqual(['ended load failed', 'one ended not-sent']);
    const prefix = 'error load failed: longwire: the wasm cannot be loaded: ';
    expect(error.startsWith(prefix), error).toBe(true);
    expect(error.slice(prefix.length)).toMatch(says);
    await expectStatus(page, { state: 'ended', cause: 'load failed', nextRetryAt: null });
    expect(loads).toBe(1);
    // The socket that was opened meanwhile is of no use.
    await expect.poll(() => server.report()).toMatchObject({ connections: 0 });

    await page.unroute(anyWasm);
    await page.evaluate(() => {
      window.log = [];
      window.client.reconnectNow();
    });
    await expectLog(page, ['live']);
    await page.evaluate(() => window.say('two', { echo: 2 }));
    await expectLog(page, ['live', 'two acked 2']);
  });
}

test('a wasm file of the wrong type works all the same', async ({ page }) => {
  await page.route(anyWasm, async (route) =>
    route.fulfill({ response: await route.fetch(), contentType: 'application/octet-stream' }),
  );
  await openPage(page);
  await page.evaluate(() => void window.follow(['test/a']));
  await expectLog(page, ['live']);
});

test('a wasm of another version than the shim is refused with both versions named', async ({
  page,
  server,
}) => {
  await page.route('**/longwire.js', async (route) => {
    const response = await route.fetch();
    const text = (await response.text()).replace(/version:"[^"]*"/, 'version:"9.9.9"');
    await route.fulfill({ body: text, contentType: 'text/javascript' });
  });
  await openPage(page);
  expect(await page.evaluate(() => window.shim.version)).toBe('9.9.9');
  await page.evaluate(() => void window.follow(['test/a']));
  await expectLines(page, [
    'ended load failed',
    /^error load failed: .*version 9\.9\.9\b.* wasm .*\d+\.\d+\.\d+/,
  ]);
  await expect.poll(() => server.report()).toMatchObject({ connections: 0 });
});

test('options that are out of range or contradict each other end the connection and are named', async ({
  page,
}) => {
  await openPage(page);
  await page.evaluate(
    () => void window.follow([], { baseMs: 1000, capMs: 10, pingTimeoutMs: 1e9 }),
  );
  const first = [
    'ended options',
    /^error options: longwire: option capMs: .*\noption pingTimeoutMs: .*/,
  ];
  await expectLines(page, first);
  await page.evaluate(() => void window.follow([], { maxPending: 1.5 }));
  await expectLines(page, [
    ...first,
    'ended options',
    'error options: longwire: option maxPending: must be a whole number',
  ]);
});
