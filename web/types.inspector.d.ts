// The types of inspector.js.
import type { Connection } from './types.d.ts';

/**
 * `<longwire-inspector>`: shows where a connection stands, how it came there, its
 * streams and tabs. It only looks: it neither listens to errors nor follows a stream.
 * Its colours follow the `color-scheme` of the page; `--longwire-accent` sets one.
 */
export class LongwireInspector extends HTMLElement {
  /** What connect() returned; null or undefined for none. Anything else throws a TypeError. */
  get connection(): Connection | null;
  set connection(connection: Connection | null | undefined);
  /** What the button copies: a text without URL queries, tokens, users and payloads. */
  report(): string;
}

declare global {
  interface HTMLElementTagNameMap {
    'longwire-inspector': LongwireInspector;
  }
}
