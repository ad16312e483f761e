// What the documents leave to the page that they show a part of.
declare function show(state: unknown): void;
declare function apply(change: unknown): void;
declare function reload(): void;
declare function banner(state: string, reason: string, nextRetryAt: number | null): void;
declare function note(text: string): void;
declare function login(): Promise<void>;
declare function signedOut(): void;
declare function Offline(): any;
declare function Table(props: { rows: unknown }): any;
declare const url: string;
declare const user: string;
declare const token: string;
declare const signal: AbortSignal;
declare const button: HTMLButtonElement;

// What the code before leaves out.
declare function mayConnect(auth: unknown): boolean;
declare function place(order: unknown): Promise<unknown>;
declare module 'reconnecting-websocket';
declare module 'socket.io';
declare module 'socket.io-client';
declare module 'centrifuge';
