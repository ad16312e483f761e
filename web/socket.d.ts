// The types of socket.js.
import type { Options } from './types.d.ts';

/** The options of `connect`, but for those that say how to speak: it is plain text. */
export interface SocketOptions
  extends Partial<Omit<Options, 'protocols' | 'dialect' | 'share' | 'identity' | 'signal'>> {}

/**
 * A WebSocket for libraries that take a constructor of one, and connect again by
 * themselves: `createClient({ url, webSocketImpl: LongwireSocket })`. It opens once and
 * closes once, as any. It is in state CONNECTING until an attempt succeeds, however often
 * that takes; one made within a minute after another to the same URL was lost waits as
 * long as that had to, so that no library makes a storm.
 *
 * Text only. One subprotocol at most. What `close` is given is what the close event says;
 * the server is told 4001.
 */
export class LongwireSocket extends EventTarget implements WebSocket {
  static readonly CONNECTING: 0;
  static readonly OPEN: 1;
  static readonly CLOSING: 2;
  static readonly CLOSED: 3;
  /** A constructor with options: how to wait, what to probe, when silence is too long. */
  static with(options: SocketOptions): typeof LongwireSocket;

  constructor(url: string | URL, protocols?: string | string[]);
  readonly CONNECTING: 0;
  readonly OPEN: 1;
  readonly CLOSING: 2;
  readonly CLOSED: 3;
  readonly url: string;
  readonly readyState: 0 | 1 | 2 | 3;
  readonly bufferedAmount: number;
  readonly extensions: string;
  readonly protocol: string;
  /** Without effect: nothing binary comes. */
  binaryType: BinaryType;
  onopen: ((this: WebSocket, event: Event) => unknown) | null;
  onmessage: ((this: WebSocket, event: MessageEvent) => unknown) | null;
  onerror: ((this: WebSocket, event: Event) => unknown) | null;
  onclose: ((this: WebSocket, event: CloseEvent) => unknown) | null;
  addEventListener<Name extends keyof WebSocketEventMap>(
    type: Name,
    listener: (this: WebSocket, event: WebSocketEventMap[Name]) => unknown,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
  /** @throws TypeError for binary data */
  send(data: string | ArrayBufferLike | Blob | ArrayBufferView): void;
  close(code?: number, reason?: string): void;
}
