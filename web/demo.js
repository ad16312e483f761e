// @ts-check
// The demo page: follows two streams over one connection, which all its tabs share,
// and shows all that happens to it.
import { startCharts } from './demo.charts.js';
import { startChat } from './demo.chat.js';
import { byId } from './demo.dom.js';
import { startFaults } from './demo.faults.js';
import { note, showError, showNode, showStatus, why } from './demo.panel.js';
import { startTabs } from './demo.tabs.js';
import { connect } from './longwire.js';

/** @import { LongwireInspector } from './types.inspector.d.ts' */
/** @import { Connection, Handlers, Meta, Status } from './types.d.ts' */

/**
 * A part of the page that shows a stream.
 *
 * @typedef {object} Part
 * @property {(data: any, meta: Meta) => void} event
 * @property {(state: any, meta: Meta) => void} snapshot
 * @property {(missed: number) => void} [resumed]
 * @property {() => void} [gap]
 */

/** @type {Connection} */
let lw;

const inspector = /** @type {LongwireInspector} */ (byId('inspector', HTMLElement));
const charts = startCharts();
const chat = startChat((body) => lw.send(body));
const tabs = startTabs({ now: charts.now, login: (user) => again(user, 'another tab') });

/**
 * The handlers of a stream: those of its parts, and a note of what is special.
 *
 * @param {string} stream
 * @param {Part[]} parts
 * @returns {Handlers}
 */
function handlers(stream, parts) {
  return {
    event(data, meta) {
      for (const part of parts) {
        part.event(data, meta);
      }
    },
    snapshot(state, meta) {
      for (const part of parts) {
        part.snapshot(state, meta);
      }
      note('', `${stream}: snapshot, the state at ${meta.seq}`);
    },
    gap({ reason }) {
      for (const part of parts) {
        part.gap?.();
      }
      note('busy', `${stream}: gap – ${reason}`);
    },
    resumed({ missed }) {
      for (const part of parts) {
        part.resumed?.(missed);
      }
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
  const started = connect({ url: '/ws', probe: '/probe', identity: user, share: 'demo' });
  lw = started;
  /** @type {Status['state'] | undefined} */
  let last;
  lw.on('state', (status) => {
    if (lw !== started) {
      return;
    }
    showStatus(status);
    tabs.status(status);
    if (status.state === last) {
      return; // only the reason has changed
    }
    last = status.state;
    charts.connection(last === 'live');
    const because = last === 'connecting' ? '' : why(status);
    note(kinds[last], [last, because].filter(Boolean).join(' – '));
    if (last === 'live') {
      void askNode(started);
    }
  });
  lw.on('error', showError);
  lw.subscribe('host', handlers('host', [charts, tabs]));
  lw.subscribe('chat', handlers('chat', [chat]));
  inspector.connection = lw;
}

/** Asks which node it is that the connection leads to. @param {Connection} started */
async function askNode(started) {
  try {
    const name = await started.send({ node: true }, { expiryMs: 5000 });
    showNode(typeof name === 'string' ? name : '');
  } catch {
    showNode(''); // the next connection is asked again
  }
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
  again(name, 'you');
  tabs.login(name); // the cookie is that of all tabs
}

/** @param {string} user @param {string} who did it */
function again(user, who) {
  lw.close();
  byId('name', HTMLInputElement).value = user;
  note('', user ? `${who}: log in as ${user}` : `${who}: log out`);
  start(user);
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
  await import('./inspector.js');
}

run().catch(showError);
