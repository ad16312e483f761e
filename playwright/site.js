// A site as people deploy it: files under a strict policy, and behind the same origin
// what the server has.
import { createReadStream } from 'node:fs';
import { createServer, request } from 'node:http';
import { connect } from 'node:net';
import { extname, join, normalize } from 'node:path';

const types = /** @type {Record<string, string>} */ ({
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.map': 'application/json',
  '.wasm': 'application/wasm',
});

/** No inline script, no eval, no other origin. */
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'";

/** @typedef {(request: import('node:http').IncomingMessage, socket: import('node:net').Socket, head: Buffer) => void} Upgrade */

/**
 * Serves a folder at /deep/down/, and all else as the server at `behind` does.
 *
 * @param {string} folder
 * @param {string} behind
 * @param {Record<string, Upgrade>} [upgrades] by path, in place of the server
 */
export async function openSite(folder, behind, upgrades = {}) {
  const { hostname, port } = new URL(behind);
  const prefix = '/deep/down/';
  /** @type {string[]} */
  const dialled = [];
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set();
  const site = createServer((incoming, response) => {
    const { url = '', method, headers } = incoming;
    if (url.startsWith(prefix)) {
      const file = normalize(url.slice(prefix.length).replace(/\?.*/, '') || 'index.html');
      const stream = createReadStream(join(folder, file));
      stream.on('error', () => response.writeHead(404).end());
      response.setHeader('Content-Type', types[extname(file)] ?? 'application/octet-stream');
      response.setHeader('Content-Security-Policy', policy);
      stream.pipe(response);
      return;
    }
    const onward = request({ hostname, port, path: url, method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.writeHead(502).end());
    incoming.pipe(onward);
  });
  site.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  site.on('upgrade', (incoming, /** @type {import('node:net').Socket} */ socket, head) => {
    dialled.push(incoming.url ?? '');
    const own = upgrades[incoming.url ?? ''];
    if (own) {
      own(incoming, socket, head);
      return;
    }
    const onward = connect(Number(port), hostname, () => {
      const lines = [`GET ${incoming.url} HTTP/1.1`];
      for (let i = 0; i < incoming.rawHeaders.length; i += 2)
        lines.push(`${incoming.rawHeaders[i]}: ${incoming.rawHeaders[i + 1]}`);
      onward.write(`${lines.join('\r\n')}\r\n\r\n`);
      onward.pipe(socket).pipe(onward);
    });
    onward.on('error', () => socket.destroy());
    socket.on('error', () => onward.destroy());
    socket.on('close', () => onward.destroy());
    onward.on('close', () => socket.destroy());
  });
  await new Promise((resolve) => site.listen(0, '127.0.0.1', () => resolve(undefined)));
  const address = /** @type {import('node:net').AddressInfo} */ (site.address());
  return {
    /** The address of the folder. */
    url: `http://127.0.0.1:${address.port}${prefix}`,
    /** The paths of all upgrades so far. */
    dialled,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => site.close(resolve));
    },
  };
}
