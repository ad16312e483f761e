import { connect } from 'longwire';

/** @param {string} url @param {(data: any) => void} event */
export const follow = (url, event) => {
  const connection = connect({
    url: `${url.replace('http', 'ws')}/ws`,
    share: 'bench',
    identity: '',
  });
  connection.subscribe('bench', { event });
  return () => connection.close();
};
