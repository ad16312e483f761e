type Shim = typeof import('../web/types.d.ts');
type Client = import('../web/types.d.ts').Connection;
type Options = import('../web/types.d.ts').Options;

/** What the specs put into their pages; see fixtures.js and helpers.js. */
interface Window {
  /** What happened in the page, one line each. */
  log: string[];
  /** When a tab of openTab was live on a new hub. */
  lives: number[];
  /** All sockets so far. */
  sockets: WebSocket[];
  shim: Shim;
  /** The connection that follow made last. */
  client: Client;
  follow(streams: string[], options?: Partial<Options>): Client;
  say(
    label: string,
    body: unknown,
    options?: { signal?: AbortSignal; expiryMs?: number },
  ): Promise<void>;
}
