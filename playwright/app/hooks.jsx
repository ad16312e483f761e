// A page in React, in the way of its documentation.
import { version } from 'longwire';
import 'longwire/inspector';
import { useLongwire, useStream } from 'longwire/react';
import { StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';

/** @typedef {{ n: number }} Event */

/** @param {{ live: import('longwire').Connection | null }} props */
function Total({ live }) {
  const { data, seq, gaps } = useStream(
    live,
    'test/a',
    (/** @type {number | undefined} */ sum = 0, /** @type {Event} */ event) => sum + event.n,
  );
  return (
    <li>
      {data ?? 'nothing'} at {seq ?? 'no place'}, {gaps} gaps
    </li>
  );
}

/** @param {{ live: import('longwire').Connection | null }} props */
function Newest({ live }) {
  const { data } = useStream(live, 'test/b');
  return <li>{JSON.stringify(data)}</li>;
}

/** @param {{ live: import('longwire').Connection | null }} props */
function Chat({ live }) {
  const { data } = useStream(live, 'chat', (/** @type {unknown[]} */ lines = [], line) => [
    ...lines,
    line,
  ]);
  return <li>{data?.length ?? 'no'} lines</li>;
}

/** @param {{ live: import('longwire').Connection | null }} props */
function Refused({ live }) {
  return <li>{useStream(live, 'secret').error?.code}</li>;
}

function Live() {
  const [name, setName] = useState('one');
  const { live, status } = useLongwire({
    url: () => new URL(`/ws?name=${name}`, location.href),
    baseMs: 10,
    closeCodes: { 4000: 'end' },
  });
  return (
    <>
      <output>
        {status?.state} {live && <Watch live={live} />}
      </output>
      <ul>
        <Total live={live} />
        <Total live={live} />
        <Newest live={live} />
        <Chat live={live} />
        <Refused live={live} />
      </ul>
      <button type="button" onClick={() => setName('two')}>
        name
      </button>
    </>
  );
}

/** @param {{ live: import('longwire').Connection }} props */
function Watch({ live }) {
  return useLongwire(live).status?.state;
}

function App() {
  const [there, setThere] = useState(true);
  return (
    <>
      {there && <Live />}
      <button type="button" onClick={() => setThere(!there)}>
        toggle
      </button>
      <footer>{version}</footer>
    </>
  );
}

Object.assign(window, { hooks: { useLongwire, useStream } }); // to be called wrongly

const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
