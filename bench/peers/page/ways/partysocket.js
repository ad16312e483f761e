import { WebSocket } from 'partysocket';

/** @param {string} url @param {(data: any) => void} event */
export const follow = (url, event) => {
  const ws = new WebSocket(`${url.replace('http', 'ws')}/ws`);
  ws.onmessage = ({ data }) => event(JSON.parse(data));
  return () => ws.close();
};
