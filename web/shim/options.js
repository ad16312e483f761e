// @ts-check
// Checks what a page hands over: the options of connect, and URLs to dial.

import { textOf } from './errors.js';

/** @import * as Types from '../types.d.ts' */

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

const texts = ['identity', 'jitter', 'overflow'];
const numbers = (
  'baseMs capMs stableAfterMs urlTimeoutMs dialTimeoutMs welcomeTimeoutMs probeTimeoutMs ' +
  'idleTimeoutMs pingTimeoutMs ackTimeoutMs maxElapsedMs calmAfterMs expiryMs ' +
  'maxPending maxPendingBytes maxMessage maxAttempts'
).split(' ');

/**
 * Checks the options of connect and returns those that the hub wants.
 * @param {Types.Options} options
 */
export const hubOptions = (options) => {
  /** @param {string} name @param {string} problem */
  const wrong = (name, problem) => {
    throw new TypeError(`longwire: option ${name}: ${problem}`);
  };
  if (!options || typeof options !== 'object')
    throw new TypeError('longwire: connect takes an object of options');
  /** @type {Record<string, unknown>} */
  const out = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (numbers.includes(name)) {
      if (typeof value !== 'number' || !(value > 0 && value < 2 ** 40))
        wrong(name, 'must be a positive number');
    } else if (texts.includes(name)) {
      if (typeof value !== 'string') wrong(name, 'must be a string');
    } else if (name === 'share') {
      if (value !== false && (typeof value !== 'string' || !value))
        wrong(name, 'must be a name, or false');
      if (value && options.identity === undefined)
        wrong(name, 'needs the option identity: tabs of different users must not meet');
      if (value && options.dialect && options.dialect !== 'longwire')
        wrong(name, 'works with servers that speak longwire only');
      continue;
    } else if (!['url', 'probe', 'closeCodes', 'dialect'].includes(name))
      wrong(name, 'there is no such option');
    out[name] = value;
  }
  const { url, probe } = options;
  try {
    if (typeof url !== 'function') socketURL(url);
  } catch (error) {
    wrong('url', textOf(error).replace(/^url: /, ''));
  }
  delete out.url;
  if (probe !== undefined) {
    try {
      out.probe = new URL(probe, document.baseURI).href;
    } catch {
      wrong('probe', 'is not a URL');
    }
  }
  return out;
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
