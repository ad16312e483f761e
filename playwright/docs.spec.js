// What the documents show first, in a browser. The Go test of internal/docs compiles
// all the rest.
import { execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, socketErrors, test } from './fixtures.js';

const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * The first block of a document that is in this language and has this text.
 *
 * @param {string} name
 * @param {string} language
 * @param {string} text
 */
function block(name, language, text) {
  const blocks = readFileSync(join(root, name), 'utf8').matchAll(/^```(\w+)\n(.*?)^```$/gms);
  for (const [, info, code] of blocks) {
    if (info === language && code?.includes(text)) return code;
  }
  throw new Error(`${name} has no ${language} block with ${text}`);
}

test('the ten lines of the README follow, recover and send', async ({
  page,
  server,
  allowedErrors,
}) => {
  allowedErrors.push(...socketErrors);
  await page.goto('/blank');
  await page.evaluate(() => {
    const write = (/** @type {string} */ text) => window.log.push(text);
    Object.assign(window, {
      show: () => write('show'),
      apply: (/** @type {unknown} */ change) => write(`apply ${JSON.stringify(change)}`),
      reload: () => write('reload'),
      banner: (/** @type {string} */ state) => state === 'live' && write('live'),
    });
  });
  // The demo server has other streams and messages than the shop of the README.
  const code = block('README.md', 'js', 'connect(')
    .replace("'prices'", "'test/prices'")
    .replace('{ buy: 3 }', '{ echo: 3 }');
  await page.addScriptTag({ type: 'module', content: `${code}\nlog.push('result ' + result);` });

  const log = () => page.evaluate(() => window.log);
  await expect.poll(log).toContain('result 3');
  await server.fault('publish', { stream: 'test/prices', data: '{"EUR":1}' });
  await expect.poll(log).toContain('apply {"EUR":1}');
  await server.fault('drop');
  await server.fault('publish', { stream: 'test/prices', data: '{"EUR":2}' });
  await expect.poll(log).toContain('apply {"EUR":2}');
  await server.fault('forget');
  await expect.poll(log).toContain('reload'); // this stream has no snapshot
});

/**
 * Builds a Go program that is to listen on this address.
 *
 * @param {string} code
 * @param {string} address
 * @param {string} directory
 */
async function build(code, address, directory) {
  const source = join(directory, 'main.go');
  const binary = join(directory, 'program');
  await writeFile(source, code.replace('localhost:8080', address));
  await promisify(execFile)('go', ['build', '-o', binary, source], { cwd: root });
  return binary;
}

/** A program that a test owns. */
class Program {
  /** The address that it says. */
  site = '';
  #child;
  #ended;

  /** @param {string} binary */
  constructor(binary) {
    this.#child = spawn(binary, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#ended = new Promise((resolve) => this.#child.once('exit', resolve));
  }

  /** Resolves when it listens. */
  async start() {
    this.site = await new Promise((resolve, reject) => {
      createInterface(this.#child.stderr).on('line', (line) => {
        const site = /http:\S+/.exec(line)?.[0];
        if (site) resolve(site);
      });
      void this.#ended.then((code) => reject(new Error(`the program has ended with ${code}`)));
    });
  }

  async kill() {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}

test('the first program of the guide runs, and its page comes back when it does', async ({
  page,
  browserName,
  allowedErrors,
}) => {
  test.skip(browserName !== 'chromium', 'what it shows is not of the browser');
  test.setTimeout(180_000); // it is built twice
  allowedErrors.push(...socketErrors, /Failed to load resource/);
  const directory = await mkdtemp(join(tmpdir(), 'longwire-docs-'));
  /** @type {Program[]} */
  const programs = [];
  /** @param {string} address */
  const run = async (address) => {
    const program = new Program(await build(code, address, directory));
    programs.push(program);
    await program.start();
    return program;
  };
  const code = block('docs/GUIDE.md', 'go', 'package main');
  try {
    const first = await run('127.0.0.1:0');
    await page.goto(first.site);
    const [time, state] = [page.locator('#time'), page.locator('#state')];
    await expect(state).toContainText('live');
    await expect(time).toHaveText(/^\d\d:\d\d:\d\d$/);
    const before = await time.textContent();
    await expect(time).not.toHaveText(before ?? '');
    await first.kill();
    await expect(state).toContainText('waiting');

    await run(new URL(first.site).host);
    await expect(state).toContainText('live', { timeout: 60_000 }); // within twice the default spread
    const later = await time.textContent();
    await expect(time).not.toHaveText(later ?? '');
  } finally {
    for (const program of programs) await program.kill();
    await rm(directory, { recursive: true, force: true });
  }
});
