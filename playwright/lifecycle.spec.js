// The life of a connection and of the page around it.
import { expect, expectLog, fetchErrors, socketErrors, test } from './fixtures.js';
import { events, expectReport, expectStatus, openLive, openPage, publish } from './helpers.js';

test('close() while the URL is awaited means that no socket is ever made', async ({
  page,
  server,
}) => {
  await openPage(page);
  await page.evaluate(() => {
    /** @type {(url: string) => void} */
    let give = () => {};
    window.follow(['test/a'], {
      url: () => {
        window.log.push('asked');
        return new Promise((resolve) => {
          give = resolve;
        });
      },
    });
    Object.assign(window, { give: () => give('/ws') });
  });
  await expectLog(page, ['asked']);
  await page.evaluate(() => {
    window.client.close();
    /** @type {any} */ (window).give();
    window.client.reconnectNow();
    window.client.reauthorize();
  });
  await expectLog(page, ['asked', 'ended closed']);
  // A second connection goes all the way: the first would have been before it.
  await page.evaluate(() => void window.follow(['test/b']));
  await expectLog(page, ['asked', 'ended closed', 'live']);
  await expectReport(server, { upgrades: 1, connections: 1 });
});

test('close() while the page waits to retry means that it never does', async ({
  page,
  server,
  allowedErrors,
}) => {
  allowedErrors.push(...socketErrors);
  await openLive(page, ['test/a']);
  await server.fault('refuse', { status: 503 });
  await page.evaluate(() => {
    window.client.on('state', ({ state }) => {
      if (state === 'waiting') window.client.close(); // from within the event
    });
  });
  await server.fault('drop');
  await expectLog(page, ['live', 'down 1006', 'ended closed']);
  await server.fault('refuse', { status: 'off' });
  await page.evaluate(() => void window.follow(['test/b']));
  await expectLog(page, ['live', 'down 1006', 'ended closed', 'live']);
  await expectReport(server, { upgrades: 2, connections: 1 });
});

test('fifty connections made and closed at once leave the one that is kept', async ({
  page,
  server,
}) => {
  await openPage(page);
  await page.evaluate(() => {
    for (let i = 0; i < 50; i++) {
      const client = window.shim.connect({ url: '/ws' });
      client.subscribe('test/a', { event: () => window.log.push('from a closed one') });
      client.close();
    }
    window.follow(['test/a']);
  });
  await expectLog(page, ['live']);
  await publish(server, 'test/a', 1, 1);
  await expectLog(page, ['live', ...events('test/a', 1, 1)]);
  await expectReport(server, { upgrades: 1, connections: 1 });
});

test('a connection that is closed takes its listeners and its socket with it', async ({
  page,
  server,
}) => {
  await openPage(page);
  const left = await page.evaluate(async () => {
    let listeners = 0;
    for (const target of [window, document]) {
      const { addEventListener, removeEventListener } = target;
      target.addEventListener = (/** @type {any[]} */ ...args) => {
        listeners++;
        addEventListener.apply(target, /** @type {any} */ (args));
      };
      target.removeEventListener = (/** @type {any[]} */ ...args) => {
        listeners--;
        removeEventListener.apply(target, /** @type {any} */ (args));
      };
    }
    /** @type {number[]} */
    const during = [];
    for (let i = 0; i < 20; i++) {
      await new Promise((resolve) => {
        const client = window.shim.connect({ url: '/ws' });
        client.on('state', ({ state }) => {
          if (state !== 'live') return;
          during.push(listeners);
          client.close();
          resolve(undefined);
        });
      });
    }
    return { listeners, during: new Set(during).size, some: (during[0] ?? 0) > 0 };
  });
  expect(left).toEqual({ listeners: 0, during: 1, some: true });
  await expectReport(server, { upgrades: 20, connections: 0, closeCodes: { 1000: 20 } });
});

test('two connections of one page live side by side, on one copy of the wasm', async ({
  page,
  server,
}) => {
  /** @type {string[]} */
  const loaded = [];
  page.on('request', (request) => loaded.push(new URL(request.url()).pathname));
  await openPage(page);
  await page.evaluate(() => {
    window.follow(['test/a']);
    window.follow(['test/b']);
  });
  await expectLog(page, ['live', 'live']);
  await publish(server, 'test/a', 1, 1);
  await expectLog(page, ['live', 'live', 'test/a 1 {"n":1}']);
  await page.evaluate(() => window.client.close()); // the second
  await publish(server, 'test/b', 1, 1);
  await publish(server, 'test/a', 2, 1);
  await expectLog(page, ['live', 'live', 'test/a 1 {"n":1}', 'ended closed', 'test/a 2 {"n":2}']);
  const wasm = loaded.filter((path) => path.endsWith('.wasm'));
  expect(wasm).toHaveLength(1);
  expect(loaded.filter((path) => /^\/wasm_exec\./.test(path))).toHaveLength(1);
  await expectReport(server, { upgrades: 2, connections: 1 });

  const { headers } = await server.get(wasm[0] ?? '', { headers: { 'Accept-Encoding': 'br' } });
  expect(headers.get('content-type')).toBe('application/wasm');
  expect(headers.get('content-encoding')).toBe('br');
  expect(headers.get('cache-control')).toContain('immutable');
});

test('the browser going offline and online again cuts a long wait short', async ({
  page,
  context,
  server,
  allowedErrors,
}) => {
  allowedErrors.push(...socketErrors, ...fetchErrors);
  await openLive(page, ['test/a']);
  // Random numbers at their upper end make each wait as long as it can be.
  await page.evaluate(() => {
    crypto.getRandomValues = (array) => {
      if (array) new Uint8Array(array.buffer, array.byteOffset, array.byteLength).fill(0xff);
      return array;
    };
    window.client.close();
    window.log = [];
    window.follow(['test/a'], { baseMs: 60_000, capMs: 60_000 });
  });
  await expectLog(page, ['live']);
  await server.fault('refuse', { status: 503 });
  await server.fault('drop');
  await expectStatus(page, { attempt: 2, state: 'waiting' });
  const { since, nextRetryAt } = await page.evaluate(() => window.client.status());
  expect((nextRetryAt ?? 0) - since).toBeGreaterThan(50_000);
  await context.setOffline(true);
  await publish(server, 'test/a', 1, 2);
  await server.fault('refuse', { status: 'off' });
  await context.setOffline(false);
  await expectLog(page, [
    'live',
    'down 1006',
    'test/a resumed 2',
    'live',
    ...events('test/a', 1, 2),
  ]);
});

test('a page that is looked at again dials at once instead of waiting on', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a']);
  await server.fault('close', { code: 1012, reason: 'retry=100-40000' });
  await expectStatus(page, { state: 'waiting' });
  // The event alone: in a page that a test drives the real one never comes.
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  await expectLog(page, ['live', 'down 1012 retry=100-40000', 'test/a resumed 0', 'live']);
});
