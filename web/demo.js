// @ts-check
// The demo page: follows two streams over one connection and shows all that
// happens to it.
import { startCharts } from './demo.charts.js';
import { startChat } from './demo.chat.js';
import { byId } from './demo.dom.js';
import { startFaults } from './demo.faults.js';
import { note, showError, showStatus, why } from './demo.panel.js';
import { connect } from './longwire.js';

/** @import { Connection, Handlers, Status } from './types.d.ts' */

/** @type {Connection} */
let lw;

const charts = startCharts();
const chat = startChat((body) => lw.send(body));

/**
 * The handlers of a stream: those of the page, and a note of what is special.
 *
 * @param {string} stream
 * @param {{ event(data: any): void, snapshot(state: any): void }} page
 * @returns {Handlers}
 */
function handlers(stream, page) {
  return {
    event: page.event,
    snapshot(state, { seq }) {
      page.snapshot(state);
      note('', `${stream}: snapshot, the state at ${seq}`);
    },
    gap({ reason }) {
      note('busy', `${stream}: gap – ${reason}`);
    },
    resumed({ missed }) {
      note(
        'good',
        `${stream}: resumed – ${missed ? `${missed} missed, replayed` : 'nothing missed'}`,
      );
    },
    error(err) {
      note('bad', `${stream}: ${err.message}`);
    },
  };
}

/** @type {Record<Status['state'], 'good' | 'busy' | 'bad' | ''>} */
const kinds = { live: 'good', connecting: '', waiting: 'busy', ended: 'bad' };

/** @param {string} user whom the cookie names, empty: nobody */
function start(user) {
  lw = connect({ url: '/ws', probe: '/probe', ...(user ? { identity: user } : {}) });
  /** @type {Status['state'] | undefined} */
  let last;
  lw.on('state', (status) => {
    showStatus(status);
    if (status.state === last) {
      return; // only the reason has changed
    }
    last = status.state;
    charts.connection(last === 'live');
    const because = last === 'connecting' ? '' : why(status);
    note(kinds[last], [last, because].filter(Boolean).join(' – '));
  });
  lw.on('error', showError);
  lw.subscribe('host', handlers('host', charts));
  lw.subscribe('chat', handlers('chat', chat));
}

/** Another user is another connection: nothing of the one may reach the other. */
async function login() {
  const name = byId('name', HTMLInputElement).value.trim();
  const error = byId('login-error', HTMLElement);
  const res = name
    ? await fetch('/login', { method: 'POST', body: new URLSearchParams({ name }) })
    : await fetch('/login', { method: 'DELETE' });
  error.hidden = res.ok;
  if (!res.ok) {
    error.textContent = await res.text();
    return;
  }
  lw.close();
  note('', name ? `you: log in as ${name}` : 'you: log out');
  start(name);
}

async function run() {
  const res = await fetch('/login');
  const { user } = res.ok ? await res.json() : { user: '' };
  byId('name', HTMLInputElement).value = user;
  start(user);
  byId('login', HTMLFormElement).addEventListener('submit', (event) => {
    event.preventDefault();
    login().catch(showError);
  });
  byId('now', HTMLButtonElement).addEventListener('click', () => lw.reconnectNow());
  setInterval(() => showStatus(lw.status()), 100);
  await startFaults({ reauthorize: () => lw.reauthorize(), say: chat.say });
}

run().catch(showError);
