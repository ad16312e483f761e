// @ts-check
// Loads the hub: once per page, whatever the number of connections.

import { LongwireError, textOf } from './errors.js';

/** @typedef {{ version: string, wasm: string, exec: string }} Build the last two are URLs */
/** @typedef {{ version: string, open(options: object, page: object): Hub | string, died: Set<() => void> }} HubModule died: who is told that the program has ended */
/** @typedef {{ frame(text: string): void, close(): void, handOver?(): void, resign?(): void, tick?(): void }} Hub */

/** @type {Promise<HubModule> | undefined} */
let loading;

/**
 * @param {Build} build
 * @returns {Promise<HubModule>}
 */
export const load = (build) => {
  loading ??= start(build).catch((cause) => {
    unload(); // so that the next call tries again
    throw new LongwireError('load failed', `the wasm cannot be loaded: ${textOf(cause)}`, {
      cause,
    });
  });
  return loading;
};

/** Forgets a hub that has died. */
export const unload = () => {
  loading = undefined;
};

/**
 * @param {Build} build
 * @returns {Promise<HubModule>}
 */
const start = async ({ version, wasm, exec }) => {
  const [module] = await Promise.all([compile(wasm), script(exec)]);
  const page = /** @type {any} */ (globalThis);
  const go = new page.Go();
  const instance = await WebAssembly.instantiate(module, go.importObject);
  /** @type {HubModule | undefined} */
  let hub;
  page.longwireReady = (/** @type {HubModule} */ exports) => {
    hub = exports;
  };
  /** @type {HubModule['died']} */
  const died = new Set();
  // Calls longwireReady before it returns; rejects when this is not a Go program.
  const ended = go.run(instance).catch(() => {});
  delete page.longwireReady;
  if (!hub) throw new Error(`${wasm} is not a Longwire hub`);
  if (hub.version !== version) {
    throw new Error(
      `the shim is version ${version}, the wasm ${hub.version}: deploy both together`,
    );
  }
  void ended.then(() => died.forEach((fn) => void fn()));
  return { ...hub, died };
};

/** @param {string} url */
const compile = async (url) => {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} was answered with ${response.status}`);
  // Streaming compiles during the download, but insists on the right type.
  return response.headers.get('Content-Type')?.startsWith('application/wasm')
    ? WebAssembly.compileStreaming(response)
    : WebAssembly.compile(await response.arrayBuffer());
};

/** @param {string} src */
const script = (src) => {
  const element = document.createElement('script');
  return new Promise((resolve, reject) => {
    element.onload = resolve;
    element.onerror = () => reject(new Error(`${src} did not load`));
    element.src = src;
    document.head.append(element);
  }).finally(() => element.remove());
};
