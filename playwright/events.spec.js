// Signals that end things, and listeners in the way of the platform.
import { expectLog, test } from './fixtures.js';
import { expectStatus, openLive, openPage, publish } from './helpers.js';

test.skip(({ browserName }) => browserName !== 'chromium', 'shown in Chromium');

test('whatever can be begun is ended by its signal', async ({ page, server }) => {
  await openLive(page, ['test/b']);
  await page.evaluate(() => {
    const stop = new AbortController();
    const { signal } = stop;
    const { client, shim, log } = window;
    client.subscribe('test/a', { event: (_, { seq }) => log.push(`a ${seq}`) }, { signal });
    client.on('state', ({ state }) => state === 'ended' && log.push('listener'), { signal });
    const ended = () => client.state === 'ended' && log.push('event listener');
    client.addEventListener('state', ended, { signal });
    const other = shim.connect({ url: '/ws', signal });
    other.on('state', ({ state, cause }) => state === 'ended' && log.push(`other ${cause}`));
    Object.assign(window, { stop });
  });
  await expectStatus(page, { streams: { 'test/a': { state: 'following' } } });
  await publish(server, 'test/a', 1, 1);
  await expectLog(page, ['live', 'a 1']);
  await page.evaluate(() => {
    const { stop, shim, client, log } = /** @type {any} */ (window);
    stop.abort();
    const { signal } = stop;
    client.subscribe('test/a', {}, { signal });
    log.push(Object.keys(client.status().streams).join());
    log.push(shim.connect({ url: '/ws', signal }).status().cause);
    client.close(); // a state, which nobody hears
  });
  await expectLog(page, ['live', 'a 1', 'other closed', 'test/b', 'closed', 'ended closed']);
});

test('an error that nobody takes is reported, whoever has heard it', async ({
  page,
  allowedErrors,
}) => {
  allowedErrors.push(/uncaught: Error: one/);
  await openPage(page);
  await page.evaluate(() => {
    window.addEventListener('error', ({ message }) => window.log.push(`reported: ${message}`));
    const urls = ['one', 'two', 'three'];
    const client = window.shim.connect({
      baseMs: 1,
      url: () => {
        const next = urls.shift();
        if (next) throw new Error(next);
        client.close();
        return '/ws';
      },
    });
    let heard = 0;
    client.addEventListener('error', (event) => {
      window.log.push(`heard: ${event.detail.message}`);
      if (++heard === 2) event.preventDefault();
      if (heard === 2) client.on('error', ({ code }) => window.log.push(`taken: ${code}`));
    });
    client.addEventListener('state', ({ detail }) => detail.cause && window.log.push(detail.cause));
  });
  await expectLog(page, [
    'heard: longwire: no URL to dial: one',
    'reported: Uncaught Error: one',
    'heard: longwire: no URL to dial: two',
    'heard: longwire: no URL to dial: three',
    'taken: url',
    'closed',
  ]);
});
