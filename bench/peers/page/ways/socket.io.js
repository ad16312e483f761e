import { io } from 'socket.io-client';

/** @param {string} url @param {(data: any) => void} event */
export const follow = (url, event) => {
  const socket = io(url, { forceNew: true });
  socket.on('event', event);
  return () => socket.close();
};
