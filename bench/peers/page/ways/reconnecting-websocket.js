import ReconnectingWebSocket from 'reconnecting-websocket';

/** @param {string} url @param {(data: any) => void} event */
export const follow = (url, event) => {
  const ws = new ReconnectingWebSocket(`${url.replace('http', 'ws')}/ws`);
  ws.onmessage = ({ data }) => event(JSON.parse(data));
  return () => ws.close();
};
