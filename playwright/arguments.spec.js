// Every public function with every wrong kind of argument: it says which one is wrong.
import { expect, socketErrors, test } from './fixtures.js';
import { expectLines, expectReport, expectStatus, openLive, openPage } from './helpers.js';

test.skip(({ browserName }) => browserName !== 'chromium', 'shown in Chromium');

/** What is wrong wherever something else than one of these is due. */
const values = /** @type {Record<string, string>} */ ({
  undefined: 'undefined',
  null: 'null',
  number: '7',
  NaN: 'NaN',
  string: '"text"',
  boolean: 'true',
  symbol: 'Symbol("s")',
  bigint: '1n',
  function: '() => {}',
  object: '{}',
  array: '[]',
});

/** @param {...string} right kinds that are not wrong */
const wrong = (...right) =>
  Object.entries(values).flatMap(([kind, value]) => (right.includes(kind) ? [] : [value]));

/** @param {string} name @param {...string} right */
const option = (name, ...right) =>
  wrong('undefined', ...right).map((value) => [
    `connect({ url: '/ws', ${name}: ${value} })`,
    `option ${name}`,
  ]);

const numbers =
  'baseMs capMs stableAfterMs urlTimeoutMs dialTimeoutMs welcomeTimeoutMs probeTimeoutMs idleTimeoutMs ' +
  'pingTimeoutMs ackTimeoutMs maxElapsedMs calmAfterMs expiryMs maxPending maxPendingBytes maxMessage maxAttempts';

/** Calls, and what their TypeErrors name. @type {string[][]} */
const calls = [
  ...wrong('object', 'array').map((value) => [`connect(${value})`, 'options']),
  ...['{}', '[]'].map((value) => [`connect(${value})`, 'option url']),
  ...wrong('string', 'function').map((value) => [`connect({ url: ${value} })`, 'option url']),
  ...['ftp://example.com/', '/ws#here', 'ws://ann:secret@example.com/', 'http://['].map((url) => [
    `connect({ url: '${url}' })`,
    'option url',
  ]),
  ...numbers.split(' ').flatMap((name) => option(name, 'number')),
  ...['0', '-1', 'Infinity', '2 ** 40'].map((n) => [
    `connect({ url: '/ws', baseMs: ${n} })`,
    'option baseMs',
  ]),
  ...option('probe', 'string'),
  ["connect({ url: '/ws', probe: 'http://[' })", 'option probe'],
  ...option('identity', 'string'),
  ...option('share', 'string'),
  ["connect({ url: '/ws', share: '', identity: '' })", 'option share'],
  ["connect({ url: '/ws', share: 'a' })", 'option share'],
  ["connect({ url: '/ws', share: 'a', identity: '', dialect: 'plain' })", 'option share'],
  ...option('jitter'),
  ...option('overflow'),
  ...option('dialect', 'object', 'array'),
  ...option('closeCodes', 'object', 'array'),
  ...['{ 4000: "text" }', '{ 4000: null }', '{ code: "end" }', '["end", "text"]'].map((value) => [
    `connect({ url: '/ws', closeCodes: ${value} })`,
    'option closeCodes',
  ]),
  ...option('protocols', 'string', 'array'),
  ["connect({ url: '/ws', protocols: ['a', 'b c'] })", 'option protocols'],
  ...wrong('undefined').map((value) => [`connect({ url: '/ws', signal: ${value} })`, 'signal']),
  ["connect({ url: '/ws', baseMS: 100 })", 'option baseMS'],
  ["connect({ url: '/ws', toString: 100 })", 'option toString'],

  ...['client.subscribe', 'stream'].flatMap((method) => {
    const handlers = method === 'stream' ? '' : '{}, ';
    return [
      ...wrong('string').map((value) => [`${method}(${value}, {})`, 'stream']),
      ...['"no spaces"', '"x".repeat(129)'].map((name) => [`${method}(${name}, {})`, 'stream']),
      ...wrong('undefined', 'object', 'array').map((value) => [
        `${method}('test/b', ${handlers}${value})`,
        'options',
      ]),
      ...[
        ...wrong('undefined'),
        '{ seq: -1, epoch: "e" }',
        '{ seq: 2 ** 53, epoch: "e" }',
        '{ seq: 1 }',
      ].map((from) => [`${method}('test/b', ${handlers}{ from: ${from} })`, 'from']),
      ...wrong('undefined').map((value) => [
        `${method}('test/b', ${handlers}{ signal: ${value} })`,
        'signal',
      ]),
    ];
  }),
  ...wrong('undefined', 'number').map((value) => [
    `stream('test/b', { limit: ${value} })`,
    'limit',
  ]),
  ...wrong('object', 'array').map((value) => [`client.subscribe('test/b', ${value})`, 'handlers']),
  ...['event', 'snapshot', 'gap', 'resumed', 'error'].flatMap((name) =>
    wrong('undefined', 'function').map((value) => [
      `client.subscribe('test/b', { ${name}: ${value} })`,
      `handlers.${name}`,
    ]),
  ),

  ...wrong().map((value) => [`client.on(${value}, () => {})`, 'name']),
  ...wrong('function').map((value) => [`client.on('state', ${value})`, 'fn']),
  ...wrong('undefined', 'object', 'array').map((value) => [
    `client.on('state', () => {}, ${value})`,
    'options',
  ]),

  ...wrong('string').map((value) => [`new LongwireSocket(${value})`, 'url']),
  ["new LongwireSocket('ftp://example.com/')", 'url'],
  ["new LongwireSocket('ws://example.com/#a')", 'url'],
  ["new LongwireSocket('/ws', ['a', 'b'])", 'protocols'],
  ["new LongwireSocket('/ws', 'a b')", 'option protocols'],
  ["new (LongwireSocket.with({ baseMs: 0 }))('/ws')", 'option baseMs'],
];

test('what is passed wrongly is named by the TypeError that comes of it, and changes nothing', async ({
  page,
  server,
}) => {
  await openLive(page, ['test/a']);
  const list = calls.map(([code]) => `() => ${code}`).join(',\n');
  const said = await page.evaluate(`(async () => {
    const { connect } = window.shim;
    const { client } = window;
    const stream = (...args) => client.stream(...args).next();
    const { LongwireSocket } = await import('/socket.js');
    const said = [];
    for (const call of [${list}]) {
      try {
        await call();
        said.push('taken');
      } catch (error) {
        said.push(String(error));
      }
    }
    return said;
  })()`);
  const got = calls.map(([code], i) => [code, /** @type {string[]} */ (said)[i]]);
  const want = calls.map(([code, named]) => [
    code,
    expect.stringContaining(`TypeError: longwire: ${named}: `),
  ]);
  expect(got).toEqual(want);
  await expectStatus(page, { state: 'live', streams: { 'test/a': { state: 'following' } } });
  await expectReport(server, { upgrades: 1 });
});

test('what cannot be sent rejects, and says why', async ({ page, server }) => {
  await openLive(page, []);
  /** @type {string[][]} */
  const sends = [
    ...[
      '() => {}',
      'undefined',
      '1n',
      'Symbol("s")',
      'cyclic',
      '{ toJSON() { throw new Error("no") } }',
    ].map((body) => [body, 'undefined', body.includes('toJSON') ? 'no' : '']),
    ...wrong('undefined', 'object', 'array').map((value) => ['1', value, 'options']),
    ...wrong('undefined').map((value) => ['1', `{ signal: ${value} }`, 'signal']),
    ...[...wrong('undefined', 'number'), '0', '-1', 'Infinity', '2 ** 40'].map((value) => [
      '1',
      `{ expiryMs: ${value} }`,
      'expiryMs',
    ]),
  ];
  const list = sends.map(([body, options]) => `[${body}, ${options}]`).join(',\n');
  const said = await page.evaluate(`(async () => {
    const cyclic = {};
    cyclic.self = cyclic;
    const all = [${list}].map(([body, options]) => window.client.send(body, options));
    const settled = await Promise.allSettled(all);
    return settled.map(({ reason }) => reason ? [reason.code, reason.outcome, reason.message] : ['taken']);
  })()`);
  expect(said).toEqual(
    sends.map(([, , named]) => ['invalid', 'not-sent', expect.stringContaining(named ?? '')]),
  );
  await expectReport(server, { messages: 0 });
});

test('a socket keeps to what a WebSocket does', async ({ page, allowedErrors }) => {
  allowedErrors.push(...socketErrors);
  await page.routeWebSocket('**/echo', (socket) => {
    socket.onMessage((text) => socket.send(text));
  });
  await openPage(page);
  await page.evaluate(async () => {
    const path = '/socket.js'; // unknown to tsc
    /** @type {typeof import('../web/socket.d.ts')} */
    const { LongwireSocket } = await import(path);
    const log = (/** @type {string} */ text) => void window.log.push(text);
    const attempt = (/** @type {string} */ label, /** @type {() => void} */ call) => {
      try {
        call();
        log(`${label} taken`);
      } catch (error) {
        log(`${label} ${/** @type {Error} */ (error).name}`);
      }
    };
    const socket = new LongwireSocket('/echo');
    log(`${socket.readyState} ${socket.url.replace(location.host, 'host')}`);
    attempt('early', () => socket.send('a'));
    socket.onopen = () => {
      log(`open ${socket.readyState} "${socket.protocol}"`);
      attempt('binary', () => socket.send(new Uint8Array(1)));
      attempt('code', () => socket.close(1001));
      attempt('reason', () => socket.close(1000, 'é'.repeat(62)));
      socket.send('{"not": [json');
      log(`buffered ${socket.bufferedAmount}`);
    };
    socket.onmessage = ({ data }) => {
      log(`message ${data} ${socket.bufferedAmount}`);
      socket.close(3000, 'enough');
      socket.close(3000, 'enough');
      attempt('late', () => socket.send('a'));
      log(`${socket.readyState}`);
    };
    socket.addEventListener('close', ({ code, reason, wasClean }) =>
      log(`close ${code} ${reason} ${wasClean} ${socket.readyState}`),
    );
    socket.onerror = () => log('error');
    const never = new LongwireSocket('/echo');
    never.onerror = () => log('never error');
    never.onclose = ({ code }) => log(`never close ${code}`);
    never.close();
    await new Promise((resolve) => socket.addEventListener('close', resolve));
    const refused = new (LongwireSocket.with({ maxAttempts: 1 }))('/nowhere', 'soap');
    refused.onerror = () => log(`refused error ${refused.protocol}`);
    refused.onclose = ({ code, wasClean }) => log(`refused close ${code} ${wasClean}`);
  });
  await expectLines(page, [
    '0 ws://host/echo',
    'early InvalidStateError',
    'never error',
    'never close 1006',
    'open 1 ""',
    'binary TypeError',
    'code InvalidAccessError',
    'reason SyntaxError',
    'buffered 13',
    /^message \{"not": \[json \d+$/,
    'late taken',
    '2',
    'close 3000 enough true 3',
    'refused error ',
    'refused close 1006 false',
  ]);
});
