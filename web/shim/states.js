// @ts-check
// What a tab can be to the connection that it shares, and what may happen to it.

/** @typedef {'starting' | 'follower' | 'claiming' | 'hub' | 'handing over' | 'asleep' | 'alone'} State */
/** @typedef {'join' | 'granted' | 'ready' | 'deposed' | 'failed' | 'yield' | 'released' | 'sleep' | 'wake' | 'solo'} Happening */

/**
 * The next state; what is not here does not happen, or changes nothing.
 * @type {Record<State, Partial<Record<Happening, State>>>}
 */
export const table = {
  // It has no channel and waits for no lock.
  starting: { join: 'follower', solo: 'alone', sleep: 'asleep' },
  // It heeds a hub, or waits for one, and for the lock.
  follower: { granted: 'claiming', solo: 'alone', sleep: 'asleep' },
  // It has the lock and loads the wasm.
  claiming: {
    ready: 'hub',
    deposed: 'follower',
    failed: 'alone',
    yield: 'handing over',
    sleep: 'asleep',
  },
  // It has the connection.
  hub: {
    deposed: 'follower',
    failed: 'follower',
    solo: 'alone',
    yield: 'handing over',
    sleep: 'asleep',
  },
  // It has closed, or was asked to let another be the hub.
  'handing over': { released: 'follower', solo: 'alone', sleep: 'asleep' },
  // The page is cached or frozen: it holds nothing.
  asleep: { wake: 'starting' },
  // It has a connection of its own.
  alone: {},
};
