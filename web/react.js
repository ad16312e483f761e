// @ts-check
// React hooks. They connect and subscribe where React subscribes, not where it
// renders: what it renders twice or gives up opens nothing, and what it takes away and
// puts back at once, as StrictMode does, stays open. Types and documentation: react.d.ts.
import { useCallback, useEffect, useMemo, useRef, useSyncExternalStore } from 'react';
import { connect } from './longwire.js';

/** @import * as Types from './types.d.ts' */
/** @import * as Hooks from './react.d.ts' */

/**
 * Something that components share: opened for the first one, closed when the last has
 * left and none has come back.
 * @template Value
 */
class Shared {
  /** @type {Set<() => void>} */ #users = new Set();
  /** @type {(() => void) | undefined} */ #close;
  /** @type {any} */ #leaving = 0;
  #open;

  /** @param {Value} value @param {() => () => void} open returns what closes it */
  constructor(value, open) {
    this.value = value;
    this.#open = open;
  }

  read = () => this.value;

  /** @param {Value} value */
  set(value) {
    this.value = value;
    for (const notify of this.#users) notify();
  }

  /** @param {() => void} notify */
  join = (notify) => {
    clearTimeout(this.#leaving);
    this.#close ??= this.#open();
    this.#users.add(notify);
    return () => {
      this.#users.delete(notify);
      if (this.#users.size > 0) return;
      this.#leaving = setTimeout(() => {
        this.#close?.();
        this.#close = undefined;
      });
    };
  };
}

/** @typedef {ReturnType<typeof Hooks.useLongwire>} Live */

/** @type {Live} */
const unconnected = { live: null, status: null };

/** @param {Types.Connection} live */
const watched = (live) => {
  const shared = new Shared(/** @type {Live} */ ({ live, status: live.status() }), () => {
    shared.set({ live, status: live.status() }); // it may have changed since
    return live.on('state', (status) => shared.set({ live, status }));
  });
  return shared;
};

/** @param {{ readonly current: Types.Options }} latest */
const connected = (latest) => {
  const shared = new Shared(/** @type {Live} */ (unconnected), () => {
    const { url } = latest.current;
    const live = connect({
      ...latest.current,
      url: typeof url === 'function' ? () => callOrRead(latest.current.url) : url,
    });
    live.on('state', (status) => shared.set({ live, status }));
    shared.set({ live, status: live.status() });
    return () => {
      live.close();
      shared.set(unconnected);
    };
  });
  return shared;
};

/** @param {Types.Options['url']} url */
const callOrRead = (url) => (typeof url === 'function' ? url() : url);

/**
 * @param {string} name of the argument
 * @param {string} problem
 */
const wrong = (name, problem) => {
  throw new TypeError(`longwire: ${name}: ${problem}`);
};

/** @type {typeof Hooks.useLongwire} */
export const useLongwire = (source) => {
  if (!source || typeof source !== 'object')
    wrong('source', 'must be the options of connect, or a connection');
  const latest = useRef(/** @type {any} */ (source));
  useEffect(() => {
    latest.current = source;
  });
  const given = 'subscribe' in source ? source : undefined;
  // Functions are new at each render and mean the same: the latest one is called.
  const key = JSON.stringify(given ? 0 : source, (_, value) =>
    typeof value === 'function' ? 'function' : value,
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for the options
  const shared = useMemo(() => (given ? watched(given) : connected(latest)), [given, key]);
  return useSyncExternalStore(shared.join, shared.read, shared.read);
};

/** @typedef {Shared<Hooks.Stream<any>> & { reduce: { readonly current: Hooks.Reduce<any, any> } }} Followed */

/** @type {WeakMap<Types.Connection, Map<string, Followed>>} */
const followed = new WeakMap();

/** @type {Hooks.Stream<any>} */
const nothing = { data: undefined, seq: null, gaps: 0, error: null };

/**
 * The stream that all components share.
 * @param {Types.Connection} live
 * @param {string} stream
 * @param {Followed['reduce']} reduce
 */
const follow = (live, stream, reduce) => {
  const streams = followed.get(live) ?? new Map();
  followed.set(live, streams);
  let shared = streams.get(stream);
  if (!shared) {
    shared = new Shared(nothing, () => {
      const set = (/** @type {Partial<Hooks.Stream<any>>} */ change) =>
        shared.set({ ...shared.value, error: null, ...change });
      const stop = live.subscribe(stream, {
        event: (data, meta) =>
          set({ data: shared.reduce.current(shared.value.data, data, meta), seq: meta.seq }),
        snapshot: (data, { seq }) => set({ data, seq }),
        gap: ({ snapshot }) => set({ seq: null, gaps: shared.value.gaps + (snapshot ? 0 : 1) }),
        resumed: () => set({}),
        error: (error) => set({ error }),
      });
      streams.set(stream, shared);
      return () => {
        streams.delete(stream);
        stop();
      };
    });
  }
  shared.reduce = reduce;
  return shared;
};

/** @type {Hooks.Reduce<any, any>} */
const newest = (_, data) => data;

/** @type {typeof Hooks.useStream} */
export const useStream = (live, stream, reduce = newest) => {
  if (live !== null && typeof live?.subscribe !== 'function')
    wrong('live', 'must be a connection, or null');
  if (typeof stream !== 'string') wrong('stream', 'must be a string');
  if (typeof reduce !== 'function') wrong('reduce', 'must be a function');
  const latest = useRef(reduce);
  useEffect(() => {
    latest.current = reduce;
  });
  const join = useCallback(
    (/** @type {() => void} */ notify) =>
      live ? follow(live, stream, latest).join(notify) : () => {},
    [live, stream],
  );
  const read = () => (live && followed.get(live)?.get(stream)?.value) ?? nothing;
  return useSyncExternalStore(join, read, () => nothing);
};
