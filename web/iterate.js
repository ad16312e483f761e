// @ts-check
// A stream as an async iterator. The shim imports this when a page wants one.
import { LongwireError } from './longwire.js';

/** @import * as Types from './types.d.ts' */

/** @param {string} name @param {string} problem */
const wrong = (name, problem) => {
  throw new TypeError(`longwire: ${name}: ${problem}`);
};

/**
 * Follows a stream from the first `next` on. While more waits than the limit allows
 * it is not followed, and then asked for from where it stood.
 * @param {Types.Connection} line
 * @param {string} stream
 * @param {Types.IterateOptions} [options]
 * @returns {AsyncGenerator<any, void, undefined>}
 */
export async function* iterate(line, stream, options = {}) {
  if (!options || typeof options !== 'object') wrong('options', 'must be an object');
  const { signal, limit = 1000 } = options;
  let { from } = options;
  if (signal !== undefined && typeof signal?.addEventListener !== 'function')
    wrong('signal', 'must be an AbortSignal');
  if (!Number.isSafeInteger(limit) || limit < 1) wrong('limit', 'must be a whole number from 1 on');
  /** @type {Types.Entry[]} */ let entries = [];
  /** @type {{ error?: unknown } | undefined} */ let end;
  let wake = () => {};
  /** @type {(() => void) | undefined} */ let stop;

  /** @param {Types.Entry} entry */
  const add = (entry) => {
    entries.push(entry);
    if (entry.type !== 'gap') {
      from = { seq: entry.seq, epoch: entry.epoch };
      if (entries.length >= limit) pause();
    }
    wake();
  };
  const pause = () => {
    stop?.();
    stop = undefined;
  };
  const finish = (/** @type {unknown} */ error) => {
    end ??= { error };
    wake();
  };
  const abort = () => {
    entries = [];
    finish(signal?.reason);
  };
  const look = () => {
    if (line.state !== 'ended') return;
    const { cause, reason } = line.status();
    finish(cause === 'closed' ? undefined : new LongwireError(cause ?? '', reason));
  };
  const follow = () =>
    line.subscribe(
      stream,
      {
        event: (data, meta) => add({ type: 'event', data, ...meta }),
        snapshot: (state, meta) => add({ type: 'snapshot', state, ...meta }),
        gap: (info) => add({ type: 'gap', ...info }),
        error: finish,
      },
      { from },
    );

  line.addEventListener('state', look);
  signal?.addEventListener('abort', abort);
  if (signal?.aborted) abort();
  look();
  try {
    for (;;) {
      const entry = entries.shift();
      if (entry) yield entry;
      else if (end?.error !== undefined) throw end.error;
      else if (end) return;
      else {
        stop ??= follow();
        await new Promise((resolve) => {
          wake = () => resolve(undefined);
        });
      }
    }
  } finally {
    pause();
    line.removeEventListener('state', look);
    signal?.removeEventListener('abort', abort);
  }
}
