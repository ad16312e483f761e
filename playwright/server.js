// The real server as a process that a test owns.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const binary = fileURLToPath(new URL('../bin/longwire', import.meta.url));
const patienceMs = 30_000;

/** @typedef {import('node:child_process').ChildProcessByStdio<null, import('node:stream').Readable, import('node:stream').Readable>} Child */

/**
 * A `longwire serve` process on a free port of the loopback, with its fault
 * endpoints. A restarted one keeps the port.
 */
export class Server {
  /** Everything that was written to stderr, of all processes so far. */
  log = '';
  /** The address of the page, with a slash at its end. */
  url = '';
  /** @type {Child | undefined} */
  #process;
  /** @type {string[]} */
  #flags;

  /** @param {string[]} flags in addition to the address and `-faults` */
  constructor(flags) {
    this.#flags = flags;
  }

  /** Resolves when the server listens. */
  async start() {
    if (this.#process) {
      throw new Error('the server is running already');
    }
    const address = this.url ? new URL(this.url).host : '127.0.0.1:0';
    const child = spawn(
      binary,
      ['serve', '-addr', address, '-faults', '-v', '-drain-window', '0s', ...this.#flags],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    this.#process = child;
    child.stderr.setEncoding('utf8').on('data', (text) => {
      this.log += text;
    });
    try {
      this.url = await this.#firstLine(child);
    } catch (err) {
      child.kill('SIGKILL');
      this.#process = undefined;
      throw err;
    }
  }

  /**
   * @param {Child} child
   * @returns {Promise<string>}
   */
  #firstLine(child) {
    return new Promise((resolve, reject) => {
      const fail = (/** @type {string} */ why) =>
        reject(new Error(`${binary} ${why}\n${this.log}`));
      const timer = setTimeout(fail, patienceMs, `said no address in ${patienceMs} ms`);
      createInterface(child.stdout).once('line', (line) => {
        clearTimeout(timer);
        resolve(line);
      });
      child.once('error', (err) => fail(`does not start, make build-server: ${err.message}`));
      child.once('close', (code, signal) => {
        clearTimeout(timer);
        fail(`ended with ${signal ?? code}`);
      });
    });
  }

  /** Ends the process as a crash does: SIGKILL, no goodbye. */
  async kill() {
    await this.#end('SIGKILL');
  }

  /** Ends the process politely, by SIGTERM. */
  async stop() {
    await this.#end('SIGTERM');
  }

  /** Kills the process and starts another on the same port, which remembers nothing. */
  async restart() {
    await this.kill();
    await this.start();
  }

  /** @param {NodeJS.Signals} signal */
  async #end(signal) {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) {
      return;
    }
    const exit = once(child, 'exit');
    child.kill(signal);
    const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs);
    await exit;
    clearTimeout(timer);
    if (child.signalCode === 'SIGKILL' && signal !== 'SIGKILL') {
      throw new Error(`the server did not end within ${patienceMs} ms of ${signal}`);
    }
  }

  /** Whether a process was started and has ended without being told to. */
  get crashed() {
    const child = this.#process;
    return child !== undefined && (child.exitCode !== null || child.signalCode !== null);
  }

  /**
   * Fetches from the server.
   *
   * @param {string} path
   * @param {RequestInit} [init]
   */
  async get(path, init) {
    return fetch(new URL(path, this.url), { signal: AbortSignal.timeout(patienceMs), ...init });
  }

  /**
   * Runs a fault verb; GET /faults/ lists them. Resolves with the answer of the
   * server once the fault is in force, rejects with its words when it refuses.
   *
   * @param {string} verb
   * @param {Record<string, string | number | string[]>} [params] an array gives a parameter several times
   * @returns {Promise<any>}
   */
  async fault(verb, params = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(params)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        query.append(name, String(one));
      }
    }
    return this.#json(await this.get(`/faults/${verb}?${query}`, { method: 'POST' }));
  }

  /**
   * What the server has seen since its start or the last `reset`: connections,
   * upgrades, probes, effects of messages and close codes of clients.
   *
   * @returns {Promise<any>}
   */
  async report() {
    return this.#json(await this.get('/faults/report'));
  }

  /** @param {Response} response */
  async #json(response) {
    const text = await response.text();
    if (!response.ok) {
      throw new Error(`${response.url}: ${response.status} ${text.trim()}`);
    }
    return JSON.parse(text);
  }
}
