// @ts-check
// The charts of the host: one minute, redrawn from the samples each time.
import { byId, make } from './demo.dom.js';

/**
 * One event of the stream `host`; what the server could not read is null.
 *
 * @typedef {object} Sample
 * @property {number} t ms since 1970, by the clock of the server
 * @property {number} cpus
 * @property {number | null} load
 * @property {number | null} memUsed bytes
 * @property {number | null} memTotal bytes
 * @property {number | null} rx bytes per second
 * @property {number | null} tx bytes per second
 *
 * @typedef {[from: number, to: number]} Span in ms since 1970, by the clock of the server
 */

const windowMs = 60_000;
const maxStepMs = 2_500; // between samples that a line joins
const width = 600;
const height = 100;

/** @param {number} bytes */
function inBytes(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let n = bytes;
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${n.toFixed(unit === 0 || n >= 100 ? 0 : 1)} ${units[unit]}`;
}

/**
 * @typedef {object} Chart
 * @property {string} id of its figure
 * @property {string} title
 * @property {((s: Sample) => number | null)[]} series one, or two: then the second is drawn downwards
 * @property {string[]} names of the series, if there are two
 * @property {(values: (number | null)[], s: Sample) => string[]} say the newest values in words
 * @property {(s: Sample) => number | null} [full] what the chart is scaled to at least, drawn as a line
 */

/** @param {number | null} value @param {(n: number) => string} format */
const known = (value, format) => (value === null ? 'not known' : format(value));

/** @type {Chart[]} */
const charts = [
  {
    id: 'load',
    title: 'Load',
    series: [(s) => s.load],
    names: [],
    say: ([load = null], s) => [
      `${known(load, (n) => n.toFixed(2))} on ${s.cpus} ${s.cpus === 1 ? 'processor' : 'processors'}`,
    ],
    full: (s) => s.cpus,
  },
  {
    id: 'memory',
    title: 'Memory',
    series: [(s) => s.memUsed],
    names: [],
    say: ([used = null], s) => [`${known(used, inBytes)} of ${known(s.memTotal, inBytes)}`],
    full: (s) => s.memTotal,
  },
  {
    id: 'network',
    title: 'Network',
    series: [(s) => s.rx, (s) => s.tx],
    names: ['received', 'sent'],
    say: (values) => values.map((value) => `${known(value, inBytes)}/s`),
  },
];

/** @param {string} className */
function path(className) {
  const created = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  created.setAttribute('class', className);
  return created;
}

/**
 * Fills the figure of a chart and returns what draws it.
 *
 * @param {Chart} chart
 * @returns {(samples: Sample[], gaps: Span[], end: number) => void}
 */
function prepare(chart) {
  const values = chart.series.map(() => make('b', '', '–'));
  const caption = make('figcaption', '', make('span', '', chart.title));
  const series = make('span', 'series');
  for (const [i, value] of values.entries()) {
    const name = chart.names[i];
    const label = name ? [make('span', i ? 'second' : 'first', `${name} `)] : [];
    series.append(make('span', '', ...label, value));
  }
  caption.append(series);
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true'); // the caption says the values
  const gapPath = path('gaps');
  const top = path('top');
  const areas = chart.series.map((_, i) => path(i ? 'area second' : 'area'));
  const lines = chart.series.map((_, i) => path(i ? 'second' : 'first'));
  svg.append(gapPath, top, ...areas, ...lines);
  byId(chart.id, HTMLElement).replaceChildren(caption, svg);

  return (samples, gaps, end) => {
    const newest = samples.at(-1);
    if (!newest) {
      return;
    }
    const said = chart.say(
      chart.series.map((of) => of(newest)),
      newest,
    );
    for (const [i, value] of values.entries()) {
      value.textContent = said[i] ?? '';
    }
    const x = (/** @type {number} */ t) =>
      (Math.min(Math.max(1 - (end - t) / windowMs, 0), 1) * width).toFixed(1);
    const full = chart.full?.(newest) ?? 0;
    const max = Math.max(
      full,
      1e-9,
      ...samples.flatMap((s) => chart.series.map((of) => of(s) ?? 0)),
    );
    const base = height / chart.series.length; // where zero is
    const y = (/** @type {number} */ value) => (base - (value / (max * 1.08)) * base).toFixed(1);
    top.setAttribute('d', full ? `M0 ${y(full)}H${width}` : `M0 ${base}H${width}`);
    gapPath.setAttribute(
      'd',
      gaps.map(([from, to]) => `M${x(from)} 0H${x(to)}V${height}H${x(from)}Z`).join(''),
    );
    for (const [i, of] of chart.series.entries()) {
      const sign = i ? -1 : 1;
      const runs = runsOf(samples, of).map((run) =>
        run.map(([t, value]) => `${x(t)} ${y(sign * value)}`),
      );
      const closed = runs.map((run) => `M${run.join('L')}V${base}H${run[0]?.split(' ')[0]}Z`);
      areas[i]?.setAttribute('d', closed.join(''));
      lines[i]?.setAttribute('d', runs.map((run) => `M${run.join('L')}`).join(''));
    }
  };
}

/**
 * The points of a series, in runs without a hole.
 *
 * @param {Sample[]} samples
 * @param {(s: Sample) => number | null} of
 */
function runsOf(samples, of) {
  /** @type {[t: number, value: number][][]} */
  const runs = [];
  let last = Number.NEGATIVE_INFINITY;
  for (const s of samples) {
    const value = of(s);
    if (value === null) {
      continue;
    }
    if (s.t - last > maxStepMs) {
      runs.push([]);
    }
    runs.at(-1)?.push([s.t, value]);
    last = s.t;
  }
  return runs;
}

/**
 * Prepares all charts. The result takes the state of the stream, its events, and
 * when the connection went and came; it draws once a second by itself.
 */
export function startCharts() {
  const draws = charts.map(prepare);
  /** @type {Sample[]} */
  let samples = [];
  /** @type {Span[]} */
  let gaps = [];
  let ahead = Number.NEGATIVE_INFINITY; // how far the clock of the server is ahead, at least
  /** @type {number | null} */
  let lostAt = null;

  const draw = () => {
    const now = Date.now() + (Number.isFinite(ahead) ? ahead : 0);
    const end = Math.max(now, samples.at(-1)?.t ?? 0);
    samples = samples.filter((s) => end - s.t <= windowMs);
    gaps = gaps.filter(([, to]) => end - to <= windowMs);
    const shown = lostAt === null ? gaps : [...gaps, /** @type {Span} */ ([lostAt, now])];
    for (const drawOne of draws) {
      drawOne(samples, shown, end);
    }
  };
  setInterval(draw, 1000);

  const newest = (/** @type {Sample | undefined} */ s) => {
    if (s) {
      ahead = Math.max(ahead, s.t - Date.now());
    }
    draw();
  };
  return {
    /** @param {Sample[]} state */
    snapshot(state) {
      samples = state;
      newest(samples.at(-1));
    },
    /** @param {Sample} sample */
    event(sample) {
      samples.push(sample);
      newest(sample);
    },
    /** @param {boolean} live */
    connection(live) {
      const now = Date.now() + (Number.isFinite(ahead) ? ahead : 0);
      if (live && lostAt !== null) {
        gaps.push([lostAt, now]);
        lostAt = null;
      } else if (!live && lostAt === null && samples.length > 0) {
        lostAt = now;
      }
    },
  };
}
