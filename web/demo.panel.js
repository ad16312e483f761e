// @ts-check
// The state of the connection, and what happened to it.
import { byId, keepEndInView, make, timeOf } from './demo.dom.js';

/** @import { Status } from './types.d.ts' */

const maxNotes = 200;

/** @param {string} id @param {string} text */
function set(id, text) {
  const element = byId(id, HTMLElement);
  if (element.textContent !== text) {
    element.textContent = text; // only then: the state is announced when it changes
  }
}

/** @param {number} ms */
function inWords(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

/** @param {NonNullable<Status['lastClose']>} close */
function closeInWords({ code, reason }) {
  return [code, reason || (code === 1006 && 'no close frame')].filter(Boolean).join(' ');
}

/** Why the connection is where it is. @param {Status} status */
export function why({ cause, reason, hint, staleMs }) {
  const stale = staleMs && `the server has not heard from its store for ${inWords(staleMs)}`;
  return [cause, reason, hint, stale].filter(Boolean).join(' – ');
}

/**
 * Shows a status; to be called often, for the countdown.
 *
 * @param {Status} status
 */
export function showStatus(status) {
  byId('connection', HTMLElement).dataset.state = status.state;
  set('state', status.state);
  set('reason', why(status));
  set('since', inWords(Date.now() - status.since));
  set('attempt', status.attempt ? String(status.attempt) : '–');
  set('close', status.lastClose ? closeInWords(status.lastClose) : 'none yet');
  set('session', status.session ? status.session.slice(0, 8) : '–');
  set('user', status.user || 'anonymous');
  set('pending', String(status.pending));
  showCountdown(status);
  showStreams(status.streams);
}

/** @param {Status} status */
function showCountdown({ state, nextRetryAt }) {
  const waits = nextRetryAt !== null;
  byId('retry', HTMLElement).hidden = !waits;
  byId('now', HTMLButtonElement).hidden = state !== 'waiting' && state !== 'ended';
  if (!waits) {
    return;
  }
  const bar = byId('wait', HTMLProgressElement);
  if (bar.dataset.until !== String(nextRetryAt)) {
    bar.dataset.until = String(nextRetryAt);
    bar.max = Math.max(1, nextRetryAt - Date.now());
  }
  const left = Math.max(0, nextRetryAt - Date.now());
  bar.value = left;
  set('countdown', (left / 1000).toFixed(1));
}

/** @param {Status['streams']} streams */
function showStreams(streams) {
  const body = byId('streams', HTMLTableSectionElement);
  const names = Object.keys(streams);
  while (body.rows.length > names.length) {
    body.deleteRow(-1);
  }
  for (const [i, name] of names.entries()) {
    const { seq, epoch, state } = /** @type {Status['streams'][string]} */ (streams[name]);
    const row = body.rows[i] ?? body.insertRow();
    const cells = [name, seq === null ? '–' : String(seq), epoch ? epoch.slice(0, 6) : '–', state];
    for (const [j, text] of cells.entries()) {
      const cell = row.cells[j] ?? row.insertCell();
      if (cell.textContent !== text) {
        cell.textContent = text;
      }
    }
  }
}

/**
 * Adds a line to what happened.
 *
 * @param {'good' | 'busy' | 'bad' | ''} kind
 * @param {string} text
 */
export function note(kind, text) {
  const list = byId('history', HTMLOListElement);
  keepEndInView(list, () => {
    list.append(make('li', kind, timeOf(Date.now()), text));
    while (list.children.length > maxNotes) {
      list.firstElementChild?.remove();
    }
  });
}

/** @param {unknown} err */
export function showError(err) {
  const text = err instanceof Error ? err.message : String(err);
  const box = byId('error', HTMLElement);
  box.hidden = false;
  box.textContent = text;
  note('bad', text);
}
