// @ts-check
// Checked by tsc, never shipped: the code exports what the types promise.
import * as inspector from './inspector.js';
import * as code from './longwire.js';

/** @type {typeof import('./types.d.ts')} */
export const agree = code;

/** @type {typeof import('./types.inspector.d.ts')} */
export const agreeInspector = inspector;
