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
