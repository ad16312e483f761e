// @ts-check
// The chat: lines come as events, and go as messages that are kept until the
// server has answered.
import { byId, keepEndInView, make, timeOf } from './demo.dom.js';

/**
 * One event of the stream `chat`.
 *
 * @typedef {object} Line
 * @property {number} t ms since 1970
 * @property {string} user
 * @property {string} text
 */

const maxLines = 200;

/** @param {Line} line */
function lineItem({ t, user, text }) {
  return make('p', '', timeOf(t), make('b', '', user || 'anonymous'), text);
}

/**
 * Starts the chat. The result takes the state of the stream and its events, and
 * says a line.
 *
 * @param {(body: { chat: string }) => Promise<unknown>} send
 */
export function startChat(send) {
  const list = byId('lines', HTMLElement);
  const form = byId('say', HTMLFormElement);
  const input = byId('text', HTMLInputElement);

  /** @param {string} text @returns {Promise<unknown>} settled like send's */
  const say = (text) => {
    const item = make('p', 'pending', text, make('small', '', ' – not acknowledged yet'));
    keepEndInView(list, () => list.append(item));
    const sent = send({ chat: text });
    sent.then(
      () => item.remove(), // the event shows it
      (err) => {
        item.className = 'failed';
        item.replaceChildren(text, make('small', '', ` – ${err.code}: ${err.message}`));
      },
    );
    return sent;
  };

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    say(input.value).catch(() => {}); // shown in the list
    input.value = '';
  });

  return {
    say,
    /** @param {Line[]} lines */
    snapshot(lines) {
      for (const item of list.querySelectorAll('p:not(.pending, .failed)')) {
        item.remove();
      }
      list.prepend(...lines.map(lineItem));
      list.scrollTop = list.scrollHeight;
    },
    /** @param {Line} line */
    event(line) {
      keepEndInView(list, () => {
        list.insertBefore(lineItem(line), list.querySelector('.pending'));
        while (list.children.length > maxLines) {
          list.firstElementChild?.remove();
        }
      });
    },
  };
}
