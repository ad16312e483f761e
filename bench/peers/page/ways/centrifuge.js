import { Centrifuge } from 'centrifuge';

/** @param {string} url @param {(data: any) => void} event */
export const follow = (url, event) => {
  const client = new Centrifuge(`${url.replace('http', 'ws')}/ws`);
  const subscription = client.newSubscription('bench');
  subscription.on('publication', ({ data }) => event(data));
  subscription.subscribe();
  client.connect();
  return () => client.disconnect();
};
