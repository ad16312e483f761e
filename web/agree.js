// @ts-check
// Checked by tsc, never shipped: the code exports what types.d.ts promises.
import * as code from './longwire.js';

/** @type {typeof import('./types.d.ts')} */
export const agree = code;
