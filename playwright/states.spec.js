// The states of a tab: the whole table, and every way through it.
import { expect, test } from '@playwright/test';
import { table } from '../web/shim/states.js';

/** @typedef {keyof typeof table} State */
/** @typedef {import('../web/shim/states.js').Happening} Happening */

test.skip(({ browserName }) => browserName !== 'chromium', 'there is no browser in it');

/** @type {Happening[]} */
const happenings = [
  'join',
  'granted',
  'ready',
  'deposed',
  'failed',
  'yield',
  'released',
  'sleep',
  'wake',
  'solo',
];

test('every state is reached from the first one, and nothing leads out of the table', () => {
  /** @type {Set<State>} */
  const seen = new Set();
  /** @param {State} state */
  const walk = (state) => {
    if (seen.has(state)) return;
    seen.add(state);
    expect(table).toHaveProperty([state]);
    for (const what of happenings) {
      const next = table[state][what];
      if (next) walk(next);
    }
  };
  walk('starting');
  expect([...seen].sort()).toEqual(Object.keys(table).sort());
});

test('whatever happens, the lock is held or waited for by one state of a tab at a time', () => {
  for (const [state, ways] of Object.entries(table)) {
    for (const [what, next] of Object.entries(ways)) {
      expect(happenings, `${state}: ${what}`).toContain(what);
      // The lock is granted to who waits for it, and the wasm is ready for who loads it.
      if (what === 'granted') expect([state, next]).toEqual(['follower', 'claiming']);
      if (what === 'ready') expect([state, next]).toEqual(['claiming', 'hub']);
      if (next === 'hub') expect(state).toBe('claiming');
    }
  }
});

test('a tab that holds or wants something can always go to sleep', () => {
  for (const state of /** @type {State[]} */ (Object.keys(table))) {
    const rests = state === 'asleep' || state === 'alone';
    expect(table[state].sleep, state).toBe(rests ? undefined : 'asleep');
  }
});
