// @ts-check
// A clock for a hidden page, where timers may go off once a minute.

const ticker = 'postMessage(0);setInterval(()=>postMessage(0),1e3)';

/**
 * Calls tick soon and once a second, also while the page is hidden, until the result is
 * called. Where workers are not to be had, by a policy of the page or at all, it does
 * nothing: then a hidden hub is only slower.
 * @param {() => void} tick
 */
export const startClock = (tick) => {
  try {
    const url = URL.createObjectURL(new Blob([ticker], { type: 'text/javascript' }));
    const worker = new Worker(url);
    worker.onmessage = tick;
    worker.onerror = (event) => event.preventDefault();
    URL.revokeObjectURL(url);
    return () => worker.terminate();
  } catch {
    return () => {};
  }
};
