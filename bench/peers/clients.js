// Clients of a library in Node, many in one process: node clients.js WAY URL NUMBER.
// A line on the standard input is a mark; the first event of each client after it is a
// line on the standard output.
import { createInterface } from 'node:readline';
import { WebSocket } from 'ws';

Object.assign(globalThis, { WebSocket });
const [way, url, number] = process.argv.slice(2);
const { follow } = await import(`./page/ways/${way}.js`);

let marks = 0;
for (let client = 0; client < Number(number); client++) {
  let said = -1;
  follow(url, () => {
    if (said === marks) return;
    said = marks;
    const at = performance.timeOrigin + performance.now();
    process.stdout.write(`${JSON.stringify({ client, mark: marks, at })}\n`);
  });
}
createInterface(process.stdin)
  .on('line', () => marks++)
  .on('close', () => process.exit());
