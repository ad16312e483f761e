import { expect, expectLog, test } from './fixtures.js';

test('a feed that has never heard of Longwire is followed, and resumed where the page stood', async ({
  page,
}) => {
  /** @type {string[]} */
  const hellos = [];
  let number = 500;
  await page.routeWebSocket('**/feed', (socket) => {
    socket.onMessage((text) => {
      hellos.push(String(text));
      const since = JSON.parse(String(text)).since ?? number++;
      socket.send('{"type":"subscribed"}');
      for (let seq = since + 1; seq <= number; seq++) socket.send(`{"seq":${seq}}`);
      number += 2;
      if (hellos.length === 1) socket.close({ code: 1011 });
    });
  });
  await page.goto('/blank');
  await page.evaluate(async () => {
    const path = '/longwire.js'; // unknown to tsc
    const { connect } = await import(path);
    const line = connect({
      url: '/feed',
      baseMs: 10,
      dialect: {
        hello: { op: 'subscribe', symbols: ['A'], since: '$after' },
        confirm: 'type=subscribed',
        seq: 'seq',
      },
    });
    line.subscribe('', {
      event: (/** @type {any} */ data, /** @type {any} */ { seq }) =>
        window.log.push(`${seq} ${JSON.stringify(data)}`),
      resumed: () => window.log.push('resumed'),
      gap: () => window.log.push('gap'),
    });
    window.client = line;
  });
  // The wait after a loss is drawn at random: it is cut short, whenever it begins.
  await expect
    .poll(async () => {
      await page.evaluate(() => window.client.reconnectNow());
      return hellos.length;
    })
    .toBe(2);
  await expectLog(page, ['501 {"seq":501}', 'resumed', '502 {"seq":502}', '503 {"seq":503}']);
  expect(hellos).toEqual([
    '{"op":"subscribe","symbols":["A"],"since":null}',
    '{"op":"subscribe","symbols":["A"],"since":501}',
  ]);
});
