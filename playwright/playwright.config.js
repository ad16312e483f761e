import { accessSync, constants } from 'node:fs';
import { defineConfig } from '@playwright/test';

// tools/browsers.sh installs Debian's browsers where it may. Without them Playwright
// takes its own, for which executablePath must be absent.
const chromium = installed(process.env.CHROMIUM ?? '/usr/bin/chromium');
const firefox = installed(process.env.FIREFOX ?? '/usr/bin/firefox-esr');

export default defineConfig({
  testMatch: '*.spec.js',
  // A busy machine is slow, not wrong.
  timeout: 90_000,
  expect: { timeout: 20_000 },
  workers: 2, // each test runs a server and a browser, and most of them wait
  retries: 0, // what a second try would hide is what these tests are for
  forbidOnly: Boolean(process.env.CI),
  reporter: 'list',
  use: { trace: 'retain-on-failure' },
  projects: [
    {
      name: 'firefox',
      workers: 1, // two would fill a small machine; first, so that Chromium runs beside it all along
      use: {
        browserName: 'firefox',
        // A Firefox as Mozilla builds it is driven by WebDriver BiDi.
        ...(firefox && { channel: 'moz-firefox' }),
        launchOptions: {
          ...(firefox && { executablePath: firefox }),
          // Firefox slows reconnects down by itself, up to seconds; the delays
          // under test are ours. One spec looks at the two together.
          firefoxUserPrefs: { 'network.websocket.delay-failed-reconnects': false },
        },
      },
    },
    {
      name: 'chromium',
      use: {
        browserName: 'chromium',
        launchOptions: {
          ...(chromium && { executablePath: chromium }),
          args: [
            '--no-sandbox',
            '--disable-gpu',
            '--disable-quic',
            '--no-first-run',
            '--disable-background-networking',
            '--disable-component-update',
            '--disable-sync',
          ],
        },
      },
    },
  ],
});

/** @param {string} path */
function installed(path) {
  try {
    accessSync(path, constants.X_OK);
    return path;
  } catch {
    return undefined;
  }
}
