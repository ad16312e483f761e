// @ts-check
// The charts of the host: one minute, drawn by uPlot.
import { byId, make } from './demo.dom.js';
import uPlot from './uplot/uPlot.esm.js';

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

export const windowMs = 60_000;
const maxStepMs = 2_500; // between samples that a line joins

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
 * @property {(values: (number | null)[], s: Sample) => string[]} say values in words
 * @property {(n: number) => string} tick a number on the axis in words
 * @property {(n: number) => number} round the end of the axis, above its highest value
 * @property {(s: Sample) => number | null} [full] what the chart is scaled to at least, drawn as a line
 * @property {boolean} [times] whether it has the times below it
 */

/** @param {number | null} value @param {(n: number) => string} format */
const known = (value, format) => (value === null ? 'not known' : format(value));

/** The next of 1, 1.5, 2, 3, 4, 6, 8 and so on below base, times a power of it. @param {number} n @param {number} base */
function roundUp(n, base) {
  const unit = base ** Math.floor(Math.log(n) / Math.log(base) + 1e-9);
  let step = 1;
  while (step * unit < n * (1 - 1e-9)) {
    step *= Number.isInteger(Math.log2(step)) ? 3 / 2 : 4 / 3;
  }
  return unit * Math.min(Math.round(step * 2) / 2, base);
}

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
    tick: (n) => String(Number(n.toFixed(2))),
    round: (n) => roundUp(n, 10),
    full: (s) => s.cpus,
  },
  {
    id: 'memory',
    title: 'Memory',
    series: [(s) => s.memUsed],
    names: [],
    say: ([used = null], s) => [`${known(used, inBytes)} of ${known(s.memTotal, inBytes)}`],
    tick: (n) => (n ? inBytes(n) : '0'),
    round: (n) => n,
    full: (s) => s.memTotal,
  },
  {
    id: 'network',
    title: 'Network',
    series: [(s) => s.rx, (s) => s.tx],
    names: ['received', 'sent'],
    say: (values) => values.map((value) => `${known(value, inBytes)}/s`),
    tick: (n) => (n ? inBytes(Math.abs(n)) : '0'),
    round: (n) => roundUp(n, 1024),
    times: true,
  },
];

/** @param {string} name of a custom property of the page */
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {string} name @param {number} opacity of 1 */
const pale = (name, opacity) => `color-mix(in srgb, ${color(name)} ${opacity * 100}%, transparent)`;

/**
 * What a chart shows at present.
 *
 * @typedef {object} Scene
 * @property {Sample[]} samples
 * @property {Span[]} gaps
 * @property {number} end
 */

/** A row of the table that uPlot draws, null where the line breaks. @typedef {Sample | null} Row */

/** @param {Sample[]} samples @returns {{ rows: Row[], times: number[] }} */
function rowsOf(samples) {
  /** @type {Row[]} */
  const rows = [];
  const times = [];
  let last = Number.POSITIVE_INFINITY;
  for (const s of samples) {
    if (s.t - last > maxStepMs) {
      rows.push(null);
      times.push((last + 1) / 1000);
    }
    rows.push(s);
    times.push(s.t / 1000);
    last = s.t;
  }
  return { rows, times };
}

/** Fills the figure of a chart. */
class Figure {
  /** @type {Row[]} */ #rows = [];
  /** @type {Scene} */ #scene = { samples: [], gaps: [], end: 0 };
  #chart;
  #values;
  #plot;

  /** @param {Chart} chart */
  constructor(chart) {
    this.#chart = chart;
    this.#values = chart.series.map(() => make('b', '', '–'));
    const series = make('span', 'series');
    for (const [i, value] of this.#values.entries()) {
      const name = chart.names[i];
      const label = name ? [make('span', i ? 'second' : 'first', `${name} `)] : [];
      series.append(make('span', '', ...label, value));
    }
    const place = make('div', 'plot');
    place.setAttribute('aria-hidden', 'true'); // the caption says the values
    const caption = make('figcaption', '', make('span', '', chart.title), series);
    byId(chart.id, HTMLElement).replaceChildren(caption, place);
    this.#plot = new uPlot(this.#options(), [[], ...chart.series.map(() => [])], place);
    new ResizeObserver(() => {
      const { width, height } = place.getBoundingClientRect();
      this.#plot.setSize({ width: Math.floor(width), height: Math.floor(height) });
    }).observe(place);
  }

  /** @returns {uPlot.Options} */
  #options() {
    const { series, tick, times } = this.#chart;
    const line = (/** @type {string} */ name) => ({
      stroke: () => color(name),
      fill: () => pale(name, 0.14),
      width: 2,
      points: { show: false },
    });
    const soft = () => color('--soft');
    const font = '12px system-ui, sans-serif';
    return {
      width: 300,
      height: 100,
      padding: [8, 0, times ? 0 : 8, 0],
      legend: { show: false },
      cursor: { sync: { key: 'host' }, y: false, drag: { x: false, y: false } },
      scales: {
        x: { range: () => [(this.#scene.end - windowMs) / 1000, this.#scene.end / 1000] },
        y: { range: () => this.#range() },
      },
      axes: [
        {
          show: !!times,
          size: 22,
          gap: 4,
          font,
          stroke: soft,
          ticks: { show: false },
          grid: { show: false },
          splits: (_u, _axis, _min, max) => [max - 45, max - 30, max - 15],
          values: () => ['45 s ago', '30 s ago', '15 s ago'],
        },
        {
          size: 64,
          gap: 8,
          font,
          stroke: soft,
          ticks: { show: false },
          grid: { stroke: () => color('--edge'), width: 1 },
          splits: () => this.#splits(),
          values: (_u, splits) => splits.map(tick),
        },
      ],
      series: [{}, ...series.map((_, i) => line(i ? '--second' : '--accent'))],
      hooks: {
        drawClear: [(u) => this.#shade(u)],
        drawAxes: [(u) => this.#line(u)],
        setCursor: [() => this.#say()],
      },
    };
  }

  /** The highest value that the chart must have room for, of all series. */
  #top() {
    const { series, full, round } = this.#chart;
    const { samples } = this.#scene;
    const newest = samples.at(-1);
    const values = samples.flatMap((s) => series.map((of) => of(s) ?? 0));
    return round(Math.max((newest && full?.(newest)) ?? 0, 1e-9, ...values));
  }

  /** @returns {[number, number]} */
  #range() {
    const top = this.#top() * 1.04;
    return [this.#chart.series.length > 1 ? -top : 0, top];
  }

  #splits() {
    const top = this.#top();
    return this.#chart.series.length > 1 ? [-top, 0, top] : [0, top / 2, top];
  }

  /** Shades when there was no connection. @param {uPlot} u */
  #shade(u) {
    const { left, top, width, height } = u.bbox;
    u.ctx.save();
    u.ctx.fillStyle = color('--field');
    u.ctx.fillRect(left, top, width, height);
    u.ctx.fillStyle = color('--gap');
    for (const [from, to] of this.#scene.gaps) {
      const x = Math.max(left, u.valToPos(from / 1000, 'x', true));
      const end = Math.min(left + width, u.valToPos(to / 1000, 'x', true));
      u.ctx.fillRect(x, top, Math.max(0, end - x), height);
    }
    u.ctx.restore();
  }

  /** Draws what the chart is full at. @param {uPlot} u */
  #line(u) {
    const newest = this.#scene.samples.at(-1);
    const full = newest && this.#chart.full?.(newest);
    if (!full) {
      return;
    }
    const { left, width } = u.bbox;
    const y = Math.round(u.valToPos(full, 'y', true)) + 0.5;
    u.ctx.save();
    u.ctx.strokeStyle = color('--soft');
    u.ctx.setLineDash([3 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
    u.ctx.beginPath();
    u.ctx.moveTo(left, y);
    u.ctx.lineTo(left + width, y);
    u.ctx.stroke();
    u.ctx.restore();
  }

  /** Says the values under the pointer, else the newest. */
  #say() {
    const i = this.#plot?.cursor.idx;
    const sample = (i != null && this.#rows[i]) || this.#scene.samples.at(-1);
    if (!sample) {
      return;
    }
    const { series, say } = this.#chart;
    const said = say(
      series.map((of) => of(sample)),
      sample,
    );
    for (const [j, value] of this.#values.entries()) {
      value.textContent = said[j] ?? '';
    }
  }

  /** @param {Scene} scene */
  draw(scene) {
    this.#scene = scene;
    const { rows, times } = rowsOf(scene.samples);
    this.#rows = rows;
    const columns = this.#chart.series.map((of, i) =>
      rows.map((row) => {
        const value = row && of(row);
        return value === null ? null : i ? -value : value;
      }),
    );
    this.#plot.setData([times, ...columns]);
    this.#say();
  }
}

/**
 * Prepares all charts. The result takes the state of the stream, its events, and
 * when the connection went and came; it draws once a second by itself.
 */
export function startCharts() {
  const figures = charts.map((chart) => new Figure(chart));
  /** @type {Sample[]} */
  let samples = [];
  /** @type {Span[]} */
  let gaps = [];
  let ahead = Number.NEGATIVE_INFINITY; // how far the clock of the server is ahead, at least
  /** @type {number | null} */
  let lostAt = null;

  const now = () => Date.now() + (Number.isFinite(ahead) ? ahead : 0);
  const draw = () => {
    if (document.hidden || samples.length === 0) {
      return;
    }
    const end = Math.max(now(), samples.at(-1)?.t ?? 0);
    samples = samples.filter((s) => end - s.t <= windowMs);
    gaps = gaps.filter(([, to]) => end - to <= windowMs);
    const shown = lostAt === null ? gaps : [...gaps, /** @type {Span} */ ([lostAt, now()])];
    for (const figure of figures) {
      figure.draw({ samples, gaps: shown, end });
    }
  };
  setInterval(draw, 1000);
  document.addEventListener('visibilitychange', draw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);

  const newest = (/** @type {Sample | undefined} */ s) => {
    if (s) {
      ahead = Math.max(ahead, s.t - Date.now());
    }
    draw();
  };
  return {
    /** The time by the clock of the server. */
    now,
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
      if (live && lostAt !== null) {
        gaps.push([lostAt, now()]);
        lostAt = null;
      } else if (!live && lostAt === null && samples.length > 0) {
        lostAt = now();
      }
    },
  };
}
