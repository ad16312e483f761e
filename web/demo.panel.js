// @ts-check
// The strip at the top, and what happened.
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
  showCountdown(status);
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

/** Says which node the page is on, if that is known. @param {string | null} name */
export function showNode(name) {
  set('node', name ? `node ${name}` : 'server');
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
