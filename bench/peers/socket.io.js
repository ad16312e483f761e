// The server of Socket.IO, which does what its standard input says; see host.go.
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { Server } from 'socket.io';

let handshakes = 0;
const http = createServer();
const io = new Server(http, { cors: { origin: '*' } });
for (const kind of ['request', 'upgrade']) http.on(kind, () => handshakes++);

/** @param {object} value */
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

const now = () => performance.timeOrigin + performance.now();
const text = 'x'.repeat(Number(process.argv[3]));

http.listen(Number(process.argv[2]), '127.0.0.1', () => say({ port: http.address().port }));
createInterface(process.stdin)
  .on('line', (line) => {
    const { publish } = JSON.parse(line);
    if (!publish) say({ handshakes });
    for (let i = 0; i < publish; i++) {
      io.emit('event', {
        at: now(),
        symbol: 'XMPL',
        bid: 101.25,
        ask: 101.27,
        volume: 12345,
        text,
      });
    }
  })
  .on('close', () => process.exit());
