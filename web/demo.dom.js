// @ts-check
// What the modules of the demo page share.

/**
 * The element of the page with that id, which must be of that type.
 *
 * @template {Element} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) {
    throw new Error(`the page has no ${type.name} #${id}`);
  }
  return found;
}

/**
 * A new element with a class and text or children.
 *
 * @param {string} tag
 * @param {string} className
 * @param {...(string | Node)} children
 */
export function make(tag, className, ...children) {
  const created = document.createElement(tag);
  if (className) {
    created.className = className;
  }
  created.append(...children);
  return created;
}

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

/**
 * A time element for the time of day.
 *
 * @param {number} ms since 1970
 */
export function timeOf(ms) {
  const time = document.createElement('time');
  time.dateTime = new Date(ms).toISOString();
  time.textContent = clock.format(ms);
  return time;
}

/**
 * Runs change, which adds to a scrolled list, and shows its end again if it was
 * shown before.
 *
 * @param {Element} list
 * @param {() => void} change
 */
export function keepEndInView(list, change) {
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  change();
  if (atEnd) {
    list.scrollTop = list.scrollHeight;
  }
}
