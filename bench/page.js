// @ts-check
// A tab of the benchmark: does what the peer orders over a WebSocket of its own, and
// reports there. See main.go.
import { connect } from '../web/longwire.js';

/** @typedef {{ way: 'plain' | 'longwire' | 'shared', url: string, ack: number, tab: number }} Order */
/** @typedef {(data: any, seq: number) => void} Callback */

/** @param {string} url @param {Callback} event @param {string | false} share */
const follow = (url, event, share) => {
  const connection = connect({ url, share, identity: '' });
  connection.subscribe('bench', { event: (data, { seq }) => event(data, seq) });
  return () => connection.close();
};

/** Follow the events; the result stops. */
const ways = {
  /** What a page would write without a library. @param {string} url @param {Callback} event */
  plain(url, event) {
    const ws = new WebSocket(url);
    ws.onopen = () => ws.send('{"t":"resume","v":1,"subs":{"bench":{}},"batch":true}');
    ws.onmessage = ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.t === 'event') event(frame.data, frame.seq);
      else if (frame.t === 'events') {
        let seq = frame.from;
        for (const one of frame.data) event(one, seq++);
      }
    };
    return () => ws.close();
  },

  /** @param {string} url @param {Callback} event */
  longwire: (url, event) => follow(url, event, false),

  /** @param {string} url @param {Callback} event */
  shared: (url, event) => follow(url, event, 'bench'),
};

const control = new WebSocket(`/tabs${location.search}`);

/** @param {string} is @param {object} [more] */
const report = (is, more) => control.send(JSON.stringify({ is, ...more }));

let seen = 0;
/** @type {number[]} */
let latencies = [];
let since = { seen, at: 0 };
let stop = () => {};

/** The collector, if the browser was told to show it. */
const gc = () => /** @type {any} */ (globalThis).gc?.();

const orders = {
  /** Opens a tab, in a process of its own. @param {Order} order */
  open({ tab }) {
    window.open(`?tab=${tab}`, '_blank', 'noopener');
  },

  /** @param {Order} order */
  begin({ way, url, ack }) {
    seen = 0;
    stop = ways[way](url, (data, seq) => {
      if (seen++ === 0) report('begun');
      if (data.at) latencies.push(performance.timeOrigin + performance.now() - data.at);
      if (seq % ack === 0) report('ack', { seq });
    });
  },

  mark() {
    gc();
    latencies = [];
    since = { seen, at: performance.now() };
  },

  end() {
    const events = seen - since.seen;
    const seconds = (performance.now() - since.at) / 1000;
    gc();
    const heap = /** @type {any} */ (performance).memory?.usedJSHeapSize;
    report('result', { events, seconds, latencies, heap });
  },

  stop() {
    stop();
    report('stopped');
  },
};

addEventListener('error', ({ message }) => report('error', { error: message }));
control.onmessage = ({ data }) => {
  /** @type {Order & { do: keyof typeof orders }} */
  const order = JSON.parse(data);
  orders[order.do](order);
};
