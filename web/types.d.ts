// The types of longwire.js. All durations are in milliseconds.

/** The version of the build: that of the shim and of the wasm it loads. */
export const version: string;

/** What became of a message that was not accepted. */
export type Outcome =
  /** The server refused it for good. */
  | 'refused'
  /** It never reached the wire and never will. */
  | 'not-sent'
  /** It was written, and whether it took effect cannot be said. */
  | 'unknown';

/** Every error of this library. */
export class LongwireError extends Error {
  /** A word for programs, e.g. "expired", "load failed", or the code of the server's refusal. */
  readonly code: string;
  /** What became of the message, for errors of `send`; null for all others. */
  readonly outcome: Outcome | null;
  constructor(code: string, message: string, more?: { outcome?: Outcome; cause?: unknown });
}

/** A server that speaks frames of its own; its messages are events of the stream "". */
export interface Dialect {
  /** Sent when the socket opens: any JSON in which "$after" and "$session" are replaced. */
  hello?: unknown;
  /** The member, or "member=text", of the message that confirms the session. @default the open socket */
  confirm?: string;
  /** The member of that message which names the session. */
  session?: string;
  /** The member that numbers the messages from 1 on. @default not numbered: each reconnect is a gap */
  seq?: string;
  /** What a message looks like: any JSON in which "$id" and "$body" are replaced. @default the body */
  message?: unknown;
  /** The member that holds the id of an accepted message. @default accepted when written */
  ack?: string;
  /** Messages are plain text, not JSON: they come as strings, and a string is sent as it is. */
  text?: boolean;
}

export interface Options {
  /**
   * Where to dial: http, https, ws or wss, relative to the page. A function is
   * called before every dial, so that a token in the URL can be fresh; what it
   * throws, and a promise that does not settle within `urlTimeoutMs`, counts as
   * a failed attempt. No fragment, no credentials.
   */
  url: string | URL | (() => string | URL | Promise<string | URL>);
  /**
   * The URL of the server's probe. After failed handshakes it tells an expired
   * login from a dead network. @default none: no probing
   */
  probe?: string | URL;
  /** The user as the server names it, if the page knows. A welcome for another user ends the connection. */
  identity?: string;
  /**
   * Makes all tabs of this origin that give the same name, the same `identity` and
   * the same endpoint one connection: one socket, one wasm, each event once in every
   * tab. Needs `identity`; the empty one is for pages without logins. Where the
   * browser cannot, or not on this page, the tab is on its own, and
   * `status().notShared` says why. @default false
   */
  share?: string | false;
  /** Bound of the first wait after a failed attempt; it doubles up to `capMs`. @default 500 */
  baseMs?: number;
  /** @default 30000 */
  capMs?: number;
  /** How waits are drawn: from zero, from the upper half, or not at all. @default "full" */
  jitter?: 'full' | 'equal' | 'none';
  /** Failures in a row after which the connection ends with cause "gave up". @default never */
  maxAttempts?: number;
  /** Time without a session, awake, after which it ends with cause "gave up". @default never */
  maxElapsedMs?: number;
  /** How long there may be no session before `status().interrupted` says so. @default 3000 */
  calmAfterMs?: number;
  /** What the server speaks: "plain" for any WebSocket. @default "longwire" */
  dialect?: 'longwire' | 'plain' | Dialect;
  /** What close codes of the server mean, where that differs from the documented table. */
  closeCodes?: Record<number, 'retry' | 'end' | 'login' | 'restart' | 'busy'>;
  /** How long a session must hold before the count of failures starts again. @default 5000 */
  stableAfterMs?: number;
  /** @default 10000 */
  urlTimeoutMs?: number;
  /** From the dial to the open socket. @default 10000 */
  dialTimeoutMs?: number;
  /** From the open socket to the server's welcome. @default 10000 */
  welcomeTimeoutMs?: number;
  /** @default 5000 */
  probeTimeoutMs?: number;
  /** Silence after which the link counts as dead. @default 2.5 heartbeats as the server announces them */
  idleTimeoutMs?: number;
  /** How long a pong may take when a link is verified. @default 2000 */
  pingTimeoutMs?: number;
  /** How long an acknowledgement may take before the link is verified. @default 5000 */
  ackTimeoutMs?: number;
  /** How long a message waits to be accepted before it is given up. @default 300000 */
  expiryMs?: number;
  /** What becomes of a message for which there is no room. @default "refuse" */
  overflow?: 'refuse' | 'drop-oldest';
  /** Messages that may wait. @default 1000 */
  maxPending?: number;
  /** Bytes of messages that may wait. @default 1048576 */
  maxPendingBytes?: number;
  /** Bytes of the largest message taken from the server. @default 16777216 */
  maxMessage?: number;
  /** Subprotocols to offer; a server that picks none of them fails the attempt. @default none */
  protocols?: string | string[];
  /** Ends the connection for good when it is aborted, as `close` does. */
  signal?: AbortSignal | undefined;
}

/** A place in a stream. */
export interface Meta {
  stream: string;
  seq: number;
  epoch: string;
}

/**
 * What to do with a stream. After every reconnect exactly one of these is called
 * first: `resumed` (nothing missed, or that many events follow), or `gap`.
 * A handler that throws is reported once, and counts as having returned; a
 * promise that it returns is not awaited.
 */
export interface Handlers<Event = unknown, State = unknown> {
  /** One event: each once, in order. */
  event?(data: Event, meta: Meta): void;
  /** The whole state; it replaces everything known before. */
  snapshot?(state: State, meta: Meta): void;
  /** Events were lost. With `snapshot` the state follows; else reload by your own means. */
  gap?(info: { stream: string; snapshot: boolean; reason: string }): void;
  /** The stream goes on after a connection; `missed` events follow at once. */
  resumed?(info: { stream: string; missed: number }): void;
  /** The server refuses the stream. It is asked for again with the next connection. */
  error?(error: LongwireError): void;
}

export interface StreamStatus {
  /** asking: not answered yet; resyncing: the position is void, a snapshot is under way. */
  state: 'asking' | 'following' | 'resyncing' | 'refused';
  seq: number | null;
  epoch: string | null;
  error: string | null;
}

export interface Status {
  state: 'connecting' | 'live' | 'waiting' | 'ended';
  /** Why it has ended: "closed", "unauthorized", "forbidden", "identity changed", "load failed", …; else null. */
  cause: string | null;
  /** A sentence on why the connection is where it is. */
  reason: string;
  /** What the last probe suggests; empty when there is nothing to say. */
  hint: string;
  /** When the state was entered, in ms since 1970, as all times here. */
  since: number;
  /** Attempts since the last stable session. */
  attempt: number;
  nextRetryAt: number | null;
  /** The earliest time for that which the server allows. */
  notBefore: number | null;
  /** How the last connection ended: 1006 without a close frame, 4408 and 4001 are this end's. */
  lastClose: { code: number; reason: string } | null;
  /** There has been no session for `calmAfterMs`, or there will be none: what to show to people. */
  interrupted: boolean;
  /** For how long the server has not heard from the store behind it, in ms: until then nothing new can come. 0: it does. */
  staleMs: number;
  /** How long the server took to answer the last ping; null: none yet. `reconnectNow` on a live link sends one. */
  rttMs: number | null;
  session: string;
  user: string;
  /** Messages that are not settled. */
  pending: number;
  /** What was done so far: attempts, sessions, resumed, replayed, snapshots, delivered, duplicates, bytesIn, … */
  totals: Record<string, number | number[]>;
  streams: Record<string, StreamStatus>;
  /** Whether the tabs share one connection. */
  shared: boolean;
  /** Why not; empty when they do. */
  notShared: string;
  /** What this tab is to the shared connection; "hub": it has the socket. */
  role: 'starting' | 'follower' | 'claiming' | 'hub' | 'handing over' | 'asleep' | 'alone';
  /** Names the hub; empty when none was heard, or the tab is on its own. */
  hub: string;
  /** Tabs that share the connection, as the hub counts them. */
  tabs: number;
}

/** An entry of a stream, in the order in which they come. */
export type Entry<Event = unknown, State = unknown> =
  /** One event: each once, in order. */
  | ({ type: 'event'; data: Event } & Meta)
  /** The whole state; it replaces everything known before. */
  | ({ type: 'snapshot'; state: State } & Meta)
  /** Events were lost. With `snapshot` the state follows; else reload by your own means. */
  | { type: 'gap'; stream: string; snapshot: boolean; reason: string };

export interface SubscribeOptions {
  /** The position after which events are replayed. */
  from?: { seq: number; epoch: string } | undefined;
  /** Stops it when it is aborted. */
  signal?: AbortSignal | undefined;
}

export interface IterateOptions extends SubscribeOptions {
  /**
   * Entries that may wait for a slow loop. With so many the stream is left, and once
   * they are used up it is asked for from where it stood: nothing is lost that the
   * server still has, and what it no longer has is a gap. @default 1000
   */
  limit?: number | undefined;
}

export interface ListenOptions {
  /** Stops it when it is aborted. */
  signal?: AbortSignal | undefined;
}

export interface ConnectionEventMap {
  state: CustomEvent<Status>;
  /** One whose default is not prevented goes to `reportError`. */
  error: CustomEvent<LongwireError>;
}

export interface Connection extends EventTarget {
  addEventListener<Name extends keyof ConnectionEventMap>(
    type: Name,
    listener: (this: Connection, event: ConnectionEventMap[Name]) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
  readonly state: Status['state'];
  status(): Status;
  /** The status at each of the last 200 changes of state, oldest first. */
  history(): Status[];
  /**
   * Follows a stream; the empty name is the session's own. With `from` the
   * events after that position are replayed; else it starts with a snapshot or,
   * where the server has none, from now. One subscription per stream.
   * @returns what stops it
   */
  subscribe<Event = unknown, State = unknown>(
    stream: string,
    handlers: Handlers<Event, State>,
    options?: SubscribeOptions,
  ): () => void;
  /**
   * The same as an iterator: `for await (const entry of live.stream('prices'))`. It
   * follows from the first entry asked for until the loop is left. `close` ends it; it
   * throws the reason of an aborted signal, and a LongwireError when the server refuses
   * the stream or the connection ends otherwise.
   */
  stream<Event = unknown, State = unknown>(
    stream: string,
    options?: IterateOptions,
  ): AsyncGenerator<Entry<Event, State>, void, undefined>;
  /**
   * Sends any JSON value. The promise is settled once: with the result of the
   * server's handler, or with a LongwireError that has an `outcome`. Messages
   * keep their order and are sent when there is a connection. They live in
   * memory: a reload drops them.
   */
  send<Result = unknown>(
    body: unknown,
    options?: { signal?: AbortSignal | undefined; expiryMs?: number | undefined },
  ): Promise<Result>;
  /** The bodies of the messages that are not settled, in order. */
  pending(): unknown[];
  /** Withdraws them all: their promises are rejected. */
  clear(): void;
  /** Listens; the result stops it. Without an error listener errors go to `reportError`. */
  on(name: 'state', fn: (status: Status) => void, options?: ListenOptions): () => void;
  on(name: 'error', fn: (error: LongwireError) => void, options?: ListenOptions): () => void;
  /** Dials at once, undercutting every wait; a live link is verified; an ended one starts afresh. */
  reconnectNow(): void;
  /** Says that there is a new login: an `unauthorized` connection is revived. */
  reauthorize(): void;
  /** Ends for good. Promises of `send` that are open are rejected. */
  close(): void;
}

/** Connects, and keeps connected until `close`. Wrong options throw a TypeError that names them. */
export function connect(options: Options): Connection;
