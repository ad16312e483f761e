// @ts-check
// The page of the benchmark: does what the peer asks, one task after the other, and
// reports over HTTP. See main.go.
import { connect } from '../web/longwire.js';

/** @typedef {{ run: number, way: 'plain' | 'longwire', batch: number, ack: number, warmUp: number, window: number }} Task */
/** @typedef {(data: any) => void} Callback */

/** @param {number} ms */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Follows the events of a task; the result stops. */
const ways = {
  /** What a page would write without a library. @param {string} url @param {Callback} event */
  plain(url, event) {
    const ws = new WebSocket(url);
    ws.onopen = () => ws.send('{"t":"resume","v":1,"subs":{"bench":{}},"batch":true}');
    ws.onmessage = ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.t === 'event') event(frame.data);
      else if (frame.t === 'events') for (const one of frame.data) event(one);
    };
    return () => ws.close();
  },

  /** @param {string} url @param {Callback} event */
  longwire(url, event) {
    const connection = connect({ url });
    connection.subscribe('bench', { event });
    return () => connection.close();
  },
};

/** @param {Task} task */
const measure = async ({ run, way, batch, ack, warmUp, window }) => {
  const acks = new WebSocket(`/acks/${run}`);
  await new Promise((resolve, reject) => {
    acks.onopen = resolve;
    acks.onerror = () => reject(new Error('no socket for acks'));
  });
  let seen = 0;
  /** @type {number[]} */
  let latencies = [];
  /** @type {(value?: unknown) => void} */
  let begun = () => {};
  const first = new Promise((resolve) => {
    begun = resolve;
  });
  const stop = ways[way](`/events/${run}`, (data) => {
    if (seen++ === 0) begun();
    if (batch === 0) latencies.push(performance.timeOrigin + performance.now() - data.at);
    else if (seen % ack === 0) acks.send('');
  });
  await first;
  await sleep(warmUp);
  await fetch('/mark', { method: 'POST' });
  latencies = [];
  const before = { seen, at: performance.now() };
  await sleep(window);
  const events = seen - before.seen;
  const seconds = (performance.now() - before.at) / 1000;
  stop();
  acks.close();
  return { events, seconds, latencies };
};

for (;;) {
  const task = await (await fetch('/next')).json();
  const result = await measure(task).catch((error) => ({ error: String(error) }));
  await fetch('/result', { method: 'POST', body: JSON.stringify(result) });
  await sleep(200); // what was under way is not to meet the next task
}
