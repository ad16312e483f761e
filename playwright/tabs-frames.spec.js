// The frames of a tab beside those of Go: one set of golden texts for both. The
// test plays the hub on the channel of a tab that waits for the lock.
import { readFileSync } from 'node:fs';
import { expect, test } from './fixtures.js';
import { openTab } from './tabs.js';

/** @typedef {{ name: string, from: 'tab' | 'hub', text: string, envelope?: boolean, error?: string }} Golden */

/** @type {Golden[]} */
const golden = JSON.parse(
  readFileSync(new URL('../wire/testdata/bus.json', import.meta.url), 'utf8'),
);

/**
 * The golden frame of that name, with other values for some members.
 *
 * @param {string} name
 * @param {object} [more]
 */
const frame = (name, more) => {
  const found = golden.find((g) => g.name === name && !g.error);
  if (!found) throw new Error(`bus.json has no "${name}"`);
  return { ...JSON.parse(found.text), ...more };
};

/**
 * The members that frames of this type may have, as Go reads them. A `here` says
 * all that a `resume` does.
 *
 * @param {string} t
 */
const membersOf = (t) =>
  golden
    .filter((g) => g.from === 'tab' && !g.error && !g.envelope)
    .map((g) => JSON.parse(g.text))
    .filter((f) => f.t === t || (t === 'here' && f.t === 'resume'))
    .flatMap(Object.keys);

test('what a tab says are the frames that Go reads, and it understands those that Go writes', async ({
  context,
}) => {
  const hub = await context.newPage();
  await hub.goto('/blank');
  const tab = await openTab(context, ['a'], { identity: 'nobody yet' });
  const name = await expect
    .poll(() => tab.evaluate(async () => (await navigator.locks.query()).held?.[0]?.name))
    .toBeTruthy()
    .then(() => tab.evaluate(async () => (await navigator.locks.query()).held?.[0]?.name ?? ''));
  await tab.close();

  // This page has the lock now, and every tab waits for it.
  await hub.evaluate(
    (lock) =>
      new Promise((granted) => {
        void navigator.locks.request(lock, () => {
          const channel = new BroadcastChannel(lock);
          const heard = /** @type {any[]} */ ([]);
          channel.onmessage = ({ data }) => heard.push(JSON.parse(data));
          Object.assign(window, { channel, heard });
          granted(undefined);
          return new Promise(() => {});
        });
      }),
    name,
  );
  /** @returns {Promise<any[]>} */
  const heard = () => hub.evaluate(() => /** @type {any} */ (window).heard);
  /** @param {object} f */
  const say = (f) =>
    hub.evaluate(
      (text) => /** @type {any} */ (window).channel.postMessage(text),
      JSON.stringify({ ...frame('envelope of a hub, for all'), f }),
    );

  const page = await openTab(context, ['a'], { identity: 'nobody yet' });
  const first = (await expect.poll(heard).not.toHaveLength(0).then(heard))[0];
  expect(Object.keys(first)).toEqual(Object.keys(frame('envelope of a tab that has heard no hub')));
  expect(first.f).toMatchObject({ t: 'here', ask: true });

  await say(frame('hub that connects'));
  await expect.poll(async () => (await heard()).some(({ f }) => f.t === 'resume')).toBe(true);
  await say(
    frame('welcome with all answers', {
      subs: { a: { seq: 0, epoch: 'e', first: 0, resync: false } },
    }),
  );
  await say(frame('hub that is live', { quiet: {} }));
  await expect.poll(() => page.evaluate(() => window.client.state)).toBe('live');
  await say(frame('event'));
  await expect.poll(() => page.evaluate(() => window.log)).toContain('a 1 "x"');

  // Each call of the page becomes a frame.
  await page.evaluate(() => {
    const abort = new AbortController();
    void window.say('one', { x: [1, 2] });
    void window.say('two', 2, { signal: abort.signal });
    abort.abort();
    window.client.reauthorize();
    window.client.reconnectNow();
    window.client.subscribe('b', {})();
  });
  await expect.poll(async () => (await heard()).map(({ f }) => f.t)).toContain('unsub');
  const message = (await heard()).find(({ f }) => f.t === 'msg').f;
  await say(frame('ack', { id: message.id }));
  await expect.poll(() => page.evaluate(() => window.log)).toContain('one acked 7');
  await say(frame('reset'));
  await say(frame('snapshot'));
  await expect.poll(() => page.evaluate(() => window.log)).toContain('a snapshot 8 []');
  await page.evaluate(() => window.client.close());
  await expect.poll(async () => (await heard()).map(({ f }) => f.t)).toContain('bye');

  const envelopes = golden.filter((g) => g.envelope && g.from === 'tab' && !g.error);
  const outside = new Set(envelopes.flatMap((g) => Object.keys(JSON.parse(g.text))));
  for (const { f, ...envelope } of await heard()) {
    expect([...outside], 'of the envelope').toEqual(expect.arrayContaining(Object.keys(envelope)));
    if (f.t === 'claim') continue; // from tab to tab
    expect(membersOf(f.t), `of ${f.t}`).toEqual(expect.arrayContaining(Object.keys(f)));
  }
});
