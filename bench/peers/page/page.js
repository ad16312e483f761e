// A tab of the benchmark: does what it is ordered over a WebSocket of its own, and
// reports there.

const control = new WebSocket(`/tabs${location.search}`);

/** @param {string} is @param {object} [more] */
const report = (is, more) => control.send(JSON.stringify({ is, ...more }));

let seen = 0;
let ack = 0;
/** @type {number[]} */
let latencies = [];
let since = { seen, at: 0 };
let stop = () => {};

/** The collector, if the browser was told to show it. */
const gc = () => globalThis.gc?.();

/** @param {{ at: number }} data */
const event = ({ at }) => {
  if (seen++ === 0) report('begun');
  if (ack === 0) latencies.push(performance.timeOrigin + performance.now() - at);
  else if (seen % ack === 0) report('ack', { seq: seen });
};

const orders = {
  /** Opens another tab. */
  open({ tab, url }) {
    window.open(url || `?tab=${tab}`, '_blank', 'noopener');
  },

  async begin({ way, url }) {
    const { follow } = await import(`./${way}.js`);
    seen = 0;
    stop = follow(url, event);
  },

  /** Begins a measurement; with ack, as many events as can be taken are to come. */
  mark(order) {
    ack = order.ack;
    gc();
    latencies = [];
    since = { seen, at: performance.now() };
    report('marked', { seq: seen });
  },

  end() {
    const events = seen - since.seen;
    const seconds = (performance.now() - since.at) / 1000;
    gc();
    const heap = performance.memory?.usedJSHeapSize;
    report('result', { events, seconds, latencies, heap });
  },

  stop() {
    stop();
    report('stopped');
  },
};

addEventListener('error', ({ message }) => report('error', { error: message }));
addEventListener('unhandledrejection', ({ reason }) => report('error', { error: String(reason) }));
control.onmessage = ({ data }) => {
  const order = JSON.parse(data);
  orders[order.do](order);
};
