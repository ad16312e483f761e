// @ts-check
// What codes, states and durations are in words.

/** @import { Status } from '../types.d.ts' */

/** @type {Record<number, string>} */
const closes = {
  1000: 'finished on purpose',
  1001: 'the server goes away',
  1002: 'a fault in the protocol',
  1003: 'binary, where only text is spoken',
  1005: 'closed without a code',
  1006: 'no close frame came: the network or the server went away',
  1007: 'text that is not UTF-8',
  1008: 'against the policy of the server',
  1009: 'a message that is too big',
  1010: 'an extension is missing',
  1011: 'the server failed',
  1012: 'the server restarts',
  1013: 'the server is full: try later',
  1014: 'a gateway got no good answer',
  1015: 'TLS failed',
  4001: 'left by this end: the page goes, or another tab takes over',
  4400: 'the server could not make sense of it',
  4401: 'the login has expired',
  4403: 'forbidden',
  4404: 'there is no such endpoint',
  4408: 'given up by this end: no sign of life',
  4409: 'a newer connection has taken the session over',
  4410: 'gone for good',
  4429: 'too many connections or attempts',
};

/** @param {number} code */
export const closeWords = (code) =>
  closes[code] ?? (code >= 4000 && code < 5000 ? 'a code of the application' : 'an unknown code');

/** What a tab is to the shared connection. @type {Record<Status['role'], string>} */
export const roles = {
  starting: 'starts',
  follower: 'uses the connection of another tab',
  claiming: 'takes the connection over',
  hub: 'has the connection',
  'handing over': 'hands the connection over',
  asleep: 'asleep',
  alone: 'on its own',
};

/** @param {number} ms */
export const duration = (ms) => {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
};

/** @param {number | null} ms */
export const latency = (ms) =>
  ms === null ? 'not measured' : `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;

/** @param {number} n */
export const bytes = (n) => {
  if (n < 1000) return `${n} B`;
  return n < 1e6 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / 1048576).toFixed(1)} MiB`;
};

/**
 * The upper bounds of the buckets of `totals.recovery` but for the last, which has none.
 * @see reconnect.RecoveryBounds
 */
const bounds = [100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000];

/** How long the connection was away: the bucket in which the median is. @param {unknown} counts */
export const recovery = (counts) => {
  if (!Array.isArray(counts)) return 'never';
  const all = counts.reduce((sum, n) => sum + n, 0);
  if (!all) return 'never';
  let seen = 0;
  const i = counts.findIndex((n) => {
    seen += n;
    return seen >= all / 2;
  });
  const bound = bounds[i];
  const times = all === 1 ? 'once' : `${all} times`;
  if (bound === undefined) return `${times}, most after 5 min`;
  const seconds = bound / 1000;
  return `${times}, most within ${seconds < 60 ? `${seconds} s` : `${seconds / 60} min`}`;
};

/** How the connection ended, if that is what this status is about. @param {Status} status */
export const closing = ({ state, lastClose, reason }) => {
  if (state === 'live' || !lastClose || !reason.includes(String(lastClose.code))) return '';
  if (lastClose.code === 1006 && reason.includes('attempt'))
    return 'nothing opened: the network, the server, or a refusal, which browsers do not tell apart';
  return closeWords(lastClose.code);
};
