// @ts-check
// Longwire: one WebSocket, alive and lossless. This is the part that every tab
// runs. It owns what must survive the connection: positions, unsettled messages,
// subscriptions and callbacks. The hub (Go, as wasm) owns the connection; the two
// speak the frames of docs/PROTOCOL.md. Types and documentation: types.d.ts.
import { Connection } from './shim/connection.js';

// The build replaces this. Bundlers find the files by the form of these URLs.
const BUILD = {
  version: 'dev',
  wasm: new URL('./longwire.wasm', import.meta.url).href,
  exec: new URL('./wasm_exec.js', import.meta.url).href,
};

/** @import * as Types from './types.d.ts' */

export { LongwireError } from './shim/errors.js';
export const version = BUILD.version;

/** @type {typeof Types.connect} */
export const connect = (options) => new Connection(options, BUILD);
