// @ts-check
// A text that says where a connection stands, to be pasted where anyone can read it:
// no URL has its query in it, no message its body, no session its whole name.

import { closeWords, closing, duration, latency } from './words.js';

/** @import { Status } from '../types.d.ts' */
/** @typedef {Map<string, number>} Moved when each stream was last seen to move, in ms since 1970 */

const url = /[a-z][a-z0-9+.-]*:\/\/[^\s"'<>]+/gi;
const query = /[?#][^\s"'<>]*/g;
const cookie = /(cookie["']?\s*[:=]\s*).*/gi;
const named =
  /\b([\w-]*(?:token|ticket|secret|passw(?:or)?d|authorization|jwt|api-?_?key)["']?\s*[=:]\s*["']?|bearer\s+)(?:bearer\s+|basic\s+)?[^\s"',;]+/gi;
const address = /[^\s<>"'(]+@[^\s<>"')]+/g;
const opaque = /[\w.~%+/=-]{20,}/g;

/** @param {string} text of which nothing is known */
const plain = (text) =>
  text
    .replace(query, '?…')
    .replace(cookie, '$1…')
    .replace(named, '$1…')
    .replace(address, '…@…')
    .replace(opaque, (word) => (/\d/.test(word) ? '…' : word));

/** @param {string} text an absolute URL */
const place = (text) => {
  try {
    const { protocol, host, pathname } = new URL(text);
    return `${protocol}//${host}${pathname.split('/').map(plain).join('/')}`;
  } catch {
    return '…';
  }
};

/**
 * Takes out of a text what may be a secret: queries, what is called a token, mail
 * addresses, and long words that look like keys. It is for people who read reasons, and
 * rather takes too much.
 *
 * @param {string} text
 */
export const scrub = (text) => {
  let [out, end] = ['', 0];
  for (const { 0: found, index } of text.matchAll(url)) {
    out += plain(text.slice(end, index)) + place(found);
    end = index + found.length;
  }
  return out + plain(text.slice(end));
};

/** The beginning of a random name: enough to tell two apart. @param {string} id */
export const brief = (id) => `${id.slice(0, Math.min(6, id.length >> 1))}…`;

/** @param {number} ms */
const at = (ms) => new Date(ms).toISOString();

/** @param {Status} status */
const transition = (status) => {
  const { state, cause, reason, hint, attempt, since } = status;
  const what = [cause && scrub(cause), scrub(reason), closing(status), scrub(hint)];
  const nth = attempt ? ` (attempt ${attempt})` : '';
  return `  ${at(since)} ${state}${nth}: ${what.filter(Boolean).join('; ')}`;
};

/** @param {Status} status @param {Moved} moved @param {number} now */
const streamLines = ({ streams }, moved, now) =>
  Object.entries(streams).map(([name, { state, seq, epoch, error }]) => {
    const last = moved.get(name);
    const parts = [
      state,
      seq === null ? 'no position' : `at ${seq}`,
      epoch && `epoch ${brief(epoch)}`,
      error && scrub(error),
      last === undefined ? '' : `quiet for ${duration(now - last)}`,
    ];
    return `  ${name ? scrub(name) : "(the session's own)"}: ${parts.filter(Boolean).join(', ')}`;
  });

/** @param {Status} status */
const sharing = ({ shared, notShared, role, hub, tabs }) =>
  shared
    ? `${tabs}, this one: ${role}${hub && `, hub ${brief(hub)}`}`
    : `not shared${notShared && `: ${scrub(notShared)}`}`;

/**
 * @param {string} version
 * @param {Status} status
 * @param {readonly Status[]} history
 * @param {Moved} moved
 */
export const report = (version, status, history, moved) => {
  const now = Date.now();
  const { nextRetryAt, notBefore, lastClose, staleMs, session, user, totals } = status;
  const counts = Object.entries(totals).map(([name, n]) => `${name} ${[n].flat().join(' ')}`);
  const lines = [
    `Longwire ${version}, ${at(now)}`,
    `page: ${scrub(location.href)}`,
    `browser: ${navigator.userAgent}, ${navigator.onLine ? 'online' : 'offline'}, ${document.visibilityState}`,
    `state: ${status.state} for ${duration(now - status.since)}${status.interrupted ? ', interrupted' : ''}`,
    nextRetryAt !== null && `next attempt: in ${duration(nextRetryAt - now)}`,
    notBefore !== null && `not before: in ${duration(notBefore - now)}`,
    lastClose &&
      `last close: ${lastClose.code} ${scrub(lastClose.reason)} (${closeWords(lastClose.code)})`,
    staleMs > 0 && `the server has not heard from its store for ${duration(staleMs)}`,
    `latency: ${latency(status.rttMs)}`,
    `session: ${session ? brief(session) : 'none'}, user: ${user ? 'named' : 'anonymous'}`,
    `outbox: ${status.pending} not settled`,
    `tabs: ${sharing(status)}`,
    `totals: ${counts.join(', ')}`,
    'streams:',
    ...streamLines(status, moved, now),
    'history:',
    ...history.map(transition),
  ];
  return `${lines.filter((line) => typeof line === 'string').join('\n')}\n`;
};
