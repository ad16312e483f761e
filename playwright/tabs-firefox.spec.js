// Firefox has no way to make one page crash: here its process is killed.
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, socketErrors, test } from './fixtures.js';
import { events, expectReport, publish } from './helpers.js';
import { expectOneHub, openTabs, received } from './tabs.js';

const folder = mkdtempSync(join(tmpdir(), 'longwire-'));
test.afterAll(() => rmSync(folder, { recursive: true }));

// Playwright has Firefox end when one of its processes is killed.
test.use({
  launchOptions: [
    async ({ launchOptions }, use) => {
      const wrapper = join(folder, 'firefox');
      const real = launchOptions.executablePath ?? 'firefox';
      writeFileSync(wrapper, `#!/bin/sh\nunset MOZ_CRASHREPORTER_SHUTDOWN\nexec '${real}' "$@"\n`);
      chmodSync(wrapper, 0o755);
      await use({ ...launchOptions, executablePath: wrapper });
    },
    { scope: 'worker' },
  ],
});

/** The processes of pages of the browser that this one started, with the time that each has used. */
function pageProcesses() {
  /** @type {Map<number, { parent: number, used: number, page: boolean }>} */
  const all = new Map();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ');
      const page = /[ \0]tab\0*$/.test(readFileSync(`/proc/${name}/cmdline`, 'utf8'));
      all.set(Number(name), {
        parent: Number(stat[1]),
        used: Number(stat[11]) + Number(stat[12]),
        page,
      });
    } catch {
      // It has ended meanwhile.
    }
  }
  /** @param {number} pid @returns {boolean} */
  const ours = (pid) => {
    const parent = all.get(pid)?.parent;
    return parent === process.pid || (!!parent && ours(parent));
  };
  return new Map(
    [...all].filter(([pid, { page }]) => page && ours(pid)).map(([pid, { used }]) => [pid, used]),
  );
}

test('the process of the tab with the socket is killed, and the others lose nothing', async ({
  context,
  server,
  browserName,
  allowedErrors,
}) => {
  test.skip(browserName !== 'firefox', 'Chromium makes single pages crash');
  test.skip(process.platform !== 'linux', 'processes are looked up in /proc');
  allowedErrors.push(...socketErrors);
  const { pages, hub } = await openTabs(context, 3, ['test/a']);
  await publish(server, 'test/a', 1, 10);
  for (const page of pages) await received(page, 'test/a', 10);
  const [doomed] = /** @type {[import('@playwright/test').Page]} */ (pages.splice(hub, 1));

  // Of all pages the one that is busy is the one to be killed.
  const before = pageProcesses();
  await doomed.evaluate(() => {
    const end = performance.now() + 1000;
    while (performance.now() < end);
  });
  const used = [...pageProcesses()].map(
    ([pid, now]) => /** @type {const} */ ([pid, now - (before.get(pid) ?? now)]),
  );
  const [pid] = used.sort(([, a], [, b]) => b - a)[0] ?? [0];
  expect(pid).toBeGreaterThan(1);
  process.kill(pid, 'SIGKILL');

  await publish(server, 'test/a', 11, 10);
  for (const page of pages)
    expect(await received(page, 'test/a', 20)).toEqual(events('test/a', 1, 20));
  await expect
    .poll(() => pages[0]?.evaluate(() => window.client.status().tabs), { timeout: 30_000 })
    .toBe(2);
  await expectOneHub(pages);
  await expectReport(server, { connections: 1 });
});
