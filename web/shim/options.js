// @ts-check
// Checks what a page hands over: the options of connect, and URLs to dial.

import { textOf } from './errors.js';

/** @import * as Types from '../types.d.ts' */

export const streamName = /^[\w.:/-]{1,128}$/;

/** @param {string | URL} url */
export const socketURL = (url) => {
  if (typeof url !== 'string' && !(url instanceof URL))
    throw new Error(`url: ${typeof url} is not a string or URL`);
  const parsed = new URL(url, document.baseURI);
  parsed.protocol = parsed.protocol.replace(/^http/, 'ws');
  if (!/^wss?:$/.test(parsed.protocol))
    throw new Error(`url: ${parsed.protocol} is none of http, https, ws, wss`);
  if (parsed.hash || parsed.username || parsed.password)
    throw new Error('url: holds a fragment or credentials');
  return parsed.href;
};

/**
 * @param {string} name of the argument
 * @param {string} problem
 * @returns {never}
 */
export const wrong = (name, problem) => {
  throw new TypeError(`longwire: ${name}: ${problem}`);
};

/** @param {unknown} value */
const isObject = (value) => !!value && typeof value === 'object';

/** @param {any} options those of a method */
export const checkOptions = (options) => {
  if (!isObject(options)) wrong('options', 'must be an object');
  const { signal } = options;
  if (signal !== undefined && typeof signal?.addEventListener !== 'function')
    wrong('signal', 'must be an AbortSignal');
};

/** @param {string} stream @param {Types.IterateOptions} options */
export const checkStream = (stream, options) => {
  if (typeof stream !== 'string' || !/^[\w.:/-]{0,128}$/.test(stream))
    wrong('stream', 'must be at most 128 characters of A-Z a-z 0-9 . _ : / -');
  checkOptions(options);
  const { from, limit = 1 } = options;
  if (
    from !== undefined &&
    !(Number.isSafeInteger(from?.seq) && from.seq >= 0 && typeof from.epoch === 'string')
  )
    wrong('from', 'must be { seq, epoch }');
  if (!Number.isSafeInteger(limit) || limit < 1) wrong('limit', 'must be a whole number from 1 on');
};

/**
 * Has `stop` called when the signal is aborted.
 * @param {AbortSignal | undefined} signal
 * @param {() => void} stop
 * @returns what stops before, and lets go of the signal
 */
export const stoppedBy = (signal, stop) => {
  const once = () => {
    signal?.removeEventListener('abort', once);
    stop();
  };
  signal?.addEventListener('abort', once);
  if (signal?.aborted) once();
  return once;
};

const rules = ['retry', 'end', 'login', 'restart', 'busy'];

/** @typedef {(value: any, options: Types.Options) => string | false} Check says what is wrong with a value */

/** @type {Check} */
const number = (value) =>
  !(typeof value === 'number' && value > 0 && value < 2 ** 40) && 'must be a positive number';

/** @param {string[]} words @returns {Check} */
const oneOf =
  (...words) =>
  (value) =>
    !words.includes(value) && `must be one of ${words.join(', ')}`;

/** @type {Map<string, Check>} */
const checks = new Map(
  Object.entries({
    url(value) {
      try {
        if (typeof value !== 'function') socketURL(value);
      } catch (error) {
        return textOf(error).replace(/^url: /, '');
      }
      return false;
    },
    probe: (value) => !httpURL(value) && 'is not a URL',
    identity: (value) => typeof value !== 'string' && 'must be a string',
    share(value, { identity, dialect }) {
      if (value === false) return value;
      if (typeof value !== 'string' || !value) return 'must be a name, or false';
      if (identity === undefined)
        return 'needs the option identity: tabs of different users must not meet';
      return !!dialect && dialect !== 'longwire' && 'works with servers that speak longwire only';
    },
    jitter: oneOf('full', 'equal', 'none'),
    overflow: oneOf('refuse', 'drop-oldest'),
    protocols: (value) =>
      ![value].flat().every((one) => typeof one === 'string' && /^[^\s,]+$/.test(one)) &&
      'must be one name, or an array of them',
    dialect: (value) => !isObject(value) && oneOf('longwire', 'plain')(value, value),
    closeCodes: (value) =>
      !(isObject(value) && Object.entries(value).every(([k, v]) => +k > 0 && rules.includes(v))) &&
      `must be an object of close codes to ${rules.join(', ')}`,
    signal: () => false, // was looked at
  }),
);
for (const name of (
  'baseMs capMs stableAfterMs urlTimeoutMs dialTimeoutMs welcomeTimeoutMs probeTimeoutMs ' +
  'idleTimeoutMs pingTimeoutMs ackTimeoutMs maxElapsedMs calmAfterMs expiryMs ' +
  'maxPending maxPendingBytes maxMessage maxAttempts'
).split(' '))
  checks.set(name, number);

/** @param {string | URL} url */
const httpURL = (url) => {
  try {
    return (typeof url === 'string' || url instanceof URL) && new URL(url, document.baseURI).href;
  } catch {
    return false;
  }
};

/**
 * Checks the options of connect and returns those that the hub wants.
 * @param {Types.Options} options
 */
export const hubOptions = (options) => {
  if (!isObject(options)) wrong('options', 'connect takes an object');
  checkOptions(options);
  /** @type {Record<string, any>} */
  const out = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    const check = checks.get(name) ?? (() => 'there is no such option');
    const problem = check(value, options);
    if (problem) wrong(`option ${name}`, problem);
    out[name] = value;
  }
  if (!('url' in out)) wrong('option url', 'is missing');
  const { url, share, signal, probe, protocols, ...rest } = out;
  return {
    ...rest,
    probe: probe && httpURL(probe),
    protocols: protocols && [protocols].flat().join(),
  };
};

const version = '1'; // of the protocol

/**
 * The name of lock and channel, or why the connection is not shared.
 * @param {Types.Options} options
 * @returns {Promise<[name: string, why: string]>}
 */
export const scopeOf = async ({ share, identity = '', url }) => {
  if (!share) return ['', 'the option share is not set'];
  if (!isSecureContext) return ['', 'the page is not a secure context'];
  if (!navigator.locks) return ['', 'the browser has no Web Locks'];
  if (!crypto.subtle) return ['', 'the browser has no SubtleCrypto'];
  if (typeof BroadcastChannel !== 'function') return ['', 'the browser has no BroadcastChannel'];
  const endpoint = typeof url === 'function' ? '' : socketURL(url).replace(/\?.*/, '');
  const parts = [share, identity, endpoint, version].map((part) => `${part.length}:${part}`);
  const bytes = new TextEncoder().encode(parts.join(''));
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  const hex = Array.from(hash.slice(0, 16), (b) => b.toString(16).padStart(2, '0'));
  return [`longwire:${hex.join('')}`, ''];
};
