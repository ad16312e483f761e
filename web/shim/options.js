// @ts-check
// Checks what a page hands over: the options of connect, and URLs to dial.

import { textOf } from './errors.js';

/** @import * as Types from '../types.d.ts' */

export const streamName = /^[\w.:/-]{1,128}$/;

/** @param {string | URL} url */
export const socketURL = (url) => {
  if (typeof url !== 'string' && !(url instanceof URL))
    throw new Error(`${typeof url} is not a string or URL`);
  const parsed = new URL(url, document.baseURI);
  parsed.protocol = parsed.protocol.replace(/^http/, 'ws');
  if (!/^wss?:$/.test(parsed.protocol))
    throw new Error(`${parsed.protocol} is none of http, https, ws, wss`);
  if (parsed.hash || parsed.username || parsed.password)
    throw new Error('holds a fragment or credentials');
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
export const isObject = (value) => !!value && typeof value === 'object';

/** @param {any} options those of connect, or of a method */
export const checkOptions = (options) => {
  if (!isObject(options)) wrong('options', 'must be an object');
  const { signal } = options;
  if (signal !== undefined && typeof signal?.addEventListener !== 'function')
    wrong('signal', 'must be an AbortSignal');
};

/** @param {string} stream @param {Types.SubscribeOptions} options */
export const checkStream = (stream, options) => {
  if (stream !== '' && !(typeof stream === 'string' && streamName.test(stream)))
    wrong('stream', `must match ${streamName}`);
  checkOptions(options);
  const { from } = options;
  if (
    from !== undefined &&
    !(Number.isSafeInteger(from?.seq) && from.seq >= 0 && typeof from.epoch === 'string')
  )
    wrong('from', 'must be { seq, epoch }');
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

/** @typedef {(value: any, options?: any) => string | false | undefined} Check says what is wrong with a value */

/** @type {Check} */
export const positive = (value) =>
  !(typeof value === 'number' && value > 0 && value < 2 ** 40) && 'must be a positive number';

/** @type {Check} */
const text = (value) => typeof value !== 'string' && 'must be a string';

/** @type {Check} */
const object = (value) => !isObject(value) && 'must be an object';

/** @param {string} words @returns {Check} */
const oneOf = (words) => (value) => !words.split(' ').includes(value) && `must be one of ${words}`;

/** @type {Map<string, Check>} */
const checks = new Map(
  Object.entries({
    url(value) {
      try {
        if (typeof value !== 'function') socketURL(value);
      } catch (error) {
        return textOf(error);
      }
      return false;
    },
    probe: (value) => !httpURL(value) && 'is not a URL',
    identity: text,
    share(value, { identity, dialect }) {
      if (value === false) return value;
      if (typeof value !== 'string' || !value) return 'must be a name, or false';
      if (identity === undefined) return 'needs the option identity';
      return !!dialect && dialect !== 'longwire' && 'needs the dialect longwire';
    },
    jitter: oneOf('full equal none'),
    overflow: oneOf('refuse drop-oldest'),
    dialect: (value) => !isObject(value) && oneOf('longwire plain')(value),
    closeCodes: (value) =>
      object(value) ||
      Object.entries(value)
        .map(([code, rule]) => oneOf('retry end login restart busy')(+code > 0 && rule))
        .find(Boolean),
    protocols: (value) =>
      ![value].flat().every((one) => !text(one) && /^[^\s,]+$/.test(one)) && 'must be names',
    signal: () => false, // was looked at
  }),
);
for (const name of (
  'baseMs capMs stableAfterMs urlTimeoutMs dialTimeoutMs welcomeTimeoutMs probeTimeoutMs ' +
  'idleTimeoutMs pingTimeoutMs ackTimeoutMs maxElapsedMs calmAfterMs expiryMs ' +
  'maxPending maxPendingBytes maxMessage maxAttempts'
).split(' '))
  checks.set(name, positive);

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
  const { url, share, signal, probe, ...rest } = out;
  return { ...rest, probe: probe && httpURL(probe) };
};

const version = '2'; // of what goes over the bus

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
  return [`longwire:${hash.slice(0, 16).join('-')}`, ''];
};
