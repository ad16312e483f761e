// @ts-check
// The buttons that break the server. They need one that was started with -faults.
import { byId } from './demo.dom.js';
import { note, showError } from './demo.panel.js';

/** @param {string} query a verb with its parameters */
async function fault(query) {
  const res = await fetch(`/faults/${query}`, { method: 'POST' });
  if (!res.ok) {
    throw new Error(`/faults/${query}: ${res.status} ${(await res.text()).trim()}`);
  }
}

/**
 * Shows the buttons if the server has the faults, and makes them work.
 *
 * @param {object} page
 * @param {() => void} page.reauthorize tells the client of a new login
 * @param {(text: string) => Promise<unknown>} page.say sends a line of chat
 */
export async function startFaults({ reauthorize, say }) {
  const res = await fetch('/faults/');
  if (!res.ok) {
    return;
  }
  /** @type {Record<string, () => Promise<void>>} */
  const actions = {
    restart: () => fault('restart?down=3s'),
    drop: () => fault('drop?how=rst'),
    silence: () => fault('mute?dir=both&which=open'),
    refuse: async () => {
      await fault('login?mode=refuse');
      await fault('drop');
    },
    accept: async () => {
      await fault('login?mode=accept');
      reauthorize();
    },
    send: async () => {
      await fault('restart?down=3s');
      const result = await say('sent while the server was down');
      note('good', `sent while down, delivered as line ${result}`);
    },
  };
  const section = byId('break', HTMLElement);
  for (const button of section.querySelectorAll('button')) {
    const action = actions[button.dataset.fault ?? ''];
    button.addEventListener('click', () => {
      note('busy', `you: ${button.textContent}`);
      action?.().catch(showError);
    });
  }
  section.hidden = false;
}
