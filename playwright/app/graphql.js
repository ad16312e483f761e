// A page that uses GraphQL as the documentation of graphql-ws has it.
import { createClient } from 'graphql-ws';
import { LongwireSocket } from 'longwire/socket';

class Counted extends LongwireSocket {
  /** @param {string | URL} url @param {string | string[]} [protocols] */
  constructor(url, protocols) {
    super(url, protocols);
    window.log.push('made');
  }
}

const client = createClient({
  url: new URL('/graphql', location.href).href.replace('http', 'ws'),
  webSocketImpl: Counted,
  retryWait: async () => {}, // the library does not wait by itself
  shouldRetry: () => true,
});
client.subscribe(
  { query: 'subscription { count }' },
  {
    next: ({ data }) => window.log.push(`next ${data?.count}`),
    error: (error) => window.log.push(`error ${error}`),
    complete: () => window.log.push('complete'),
  },
);
