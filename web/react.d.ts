// The types of react.js: hooks for React 18 and later.
import type { Connection, LongwireError, Meta, Options, Status } from './types.d.ts';

/**
 * Connects while the component is there, or watches a connection that was made
 * elsewhere. Options may be written in place: only a change of their values makes a new
 * connection, and of functions the latest is called. Until the component is mounted, and
 * on a server, there is no connection. A component that shares one takes it from its
 * props or a context.
 */
export function useLongwire(
  source: Options | Connection,
): { live: Connection; status: Status } | { live: null; status: null };

/** Makes the next data of a stream from the last, undefined at first, and an event. */
export type Reduce<Data, Event> = (data: Data | undefined, event: Event, meta: Meta) => Data;

export interface Stream<Data> {
  /** The last snapshot and what became of it with the events since; undefined before the first. */
  readonly data: Data | undefined;
  /** The number of the last one; null before it, and after a gap. */
  readonly seq: number | null;
  /** How often events were lost without a snapshot to replace them: reload when it changes. */
  readonly gaps: number;
  /** Why the server refuses the stream. */
  readonly error: LongwireError | null;
}

/**
 * Follows a stream. All components that follow one stream of a connection share it and
 * its data, so they give the same reducer. @default the newest event
 */
export function useStream<Data = unknown, Event = Data>(
  live: Connection | null,
  stream: string,
  reduce?: Reduce<Data, Event>,
): Stream<Data>;
