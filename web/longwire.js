// @ts-check
// Longwire: one WebSocket, alive and lossless. This is the part that every tab
// runs. It owns what must survive the connection: positions, unsettled messages,
// subscriptions and callbacks. The hub (Go, as wasm) owns the connection; the two
// speak the frames of docs/PROTOCOL.md. Types and documentation: types.d.ts.
import { Connection } from './shim/connection.js';

// The build replaces this line.
const BUILD = { version: 'dev', wasm: './longwire.wasm', exec: './wasm_exec.js' };

/** @import * as Types from './types.d.ts' */

export { LongwireError } from './shim/errors.js';
export const version = BUILD.version;

/** @type {typeof Types.connect} */
export const connect = (options) => new Connection(options, { ...BUILD, base: import.meta.url });
