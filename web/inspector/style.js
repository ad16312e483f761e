// @ts-check
// A constructed style sheet, which the strictest style-src lets pass.

export const css = `
:host {
  all: initial;
  color-scheme: inherit;
  display: block;
  container-type: inline-size;
  --text: light-dark(#1b2420, #e7ecea);
  --soft: light-dark(#56625d, #9aa7a2);
  --edge: light-dark(#d9dedb, #2c3733);
  --field: light-dark(#f4f6f5, #121916);
  --accent: var(--longwire-accent, light-dark(#0b7a70, #3ec9b8));
  --good: light-dark(#0b7a70, #3ec9b8);
  --busy: light-dark(#8a5a00, #e8b54a);
  --bad: light-dark(#b3261e, #ff8a80);
  color: var(--text);
  font: 0.9375rem / 1.45 system-ui, sans-serif;
}
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; }
.top {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 0.5rem 1rem;
  --now: var(--soft);
}
.top[data-state="live"] { --now: var(--good); }
.top[data-state="connecting"], .top[data-state="waiting"] { --now: var(--busy); }
.top[data-state="ended"] { --now: var(--bad); }
.state { flex: 1 1 14rem; min-width: 0; overflow-wrap: anywhere; color: var(--soft); }
.state b { margin-right: 0.4rem; font-size: 1.1rem; color: var(--now); }
.state b::before {
  content: "";
  display: inline-block;
  width: 0.65em;
  height: 0.65em;
  margin-right: 0.4em;
  border-radius: 50%;
  background: var(--now);
}
.retry {
  display: flex;
  align-items: center;
  gap: 0.6rem;
  white-space: nowrap;
  font-variant-numeric: tabular-nums;
}
progress { width: 7rem; height: 0.5rem; accent-color: var(--now); }
.buttons { display: flex; flex-wrap: wrap; gap: 0.5rem; }
button {
  min-height: 2.25rem;
  padding: 0.3rem 0.8rem;
  border: 1px solid var(--edge);
  border-radius: 0.5rem;
  background: var(--field);
  color: inherit;
  font: inherit;
  font-weight: 600;
  cursor: pointer;
}
button:hover { border-color: var(--accent); }
button:disabled { opacity: 0.6; cursor: default; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
p { margin: 0.5rem 0 0; overflow-wrap: anywhere; }
.said:empty { display: none; }
.stale { color: var(--busy); }
.body { display: grid; gap: 1.1rem 2rem; margin-top: 1rem; }
section, .body > div { min-width: 0; }
section + section { margin-top: 1.1rem; }
h3 { margin: 0 0 0.5rem; font-size: 0.9375rem; }
dl {
  display: grid;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 7.5rem), 1fr));
  gap: 0.6rem 1rem;
  margin: 0;
}
dl div { min-width: 0; }
section:first-child > dl div:last-child { grid-column: 1 / -1; }
dt, th { font-size: 0.8125rem; font-weight: 400; color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
table { width: 100%; border-collapse: collapse; }
th, td { padding: 0.3rem 0.75rem 0.3rem 0; text-align: left; vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
td { border-top: 1px solid var(--edge); overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
td:nth-child(3) { font-family: ui-monospace, monospace; font-size: 0.875em; }
.wide { grid-column: 1 / -1; }
ol {
  max-height: 15rem;
  margin: 0;
  padding: 0.5rem 0.75rem;
  overflow-y: auto;
  list-style: none;
  border-radius: 0.5rem;
  background: var(--field);
}
li { display: grid; grid-template-columns: minmax(5.5rem, max-content) 6.5rem minmax(0, 1fr); gap: 0 0.75rem; padding: 0.1rem 0; }
li > * { overflow-wrap: anywhere; }
li time { color: var(--soft); font-variant-numeric: tabular-nums; }
li b { font-weight: 600; }
li .live { color: var(--good); }
li .connecting, li .waiting { color: var(--busy); }
li .ended { color: var(--bad); }
li small { display: block; font-size: 0.8125rem; color: var(--soft); }
textarea {
  width: 100%;
  height: 12rem;
  margin-top: 0.5rem;
  padding: 0.5rem;
  border: 1px solid var(--edge);
  border-radius: 0.5rem;
  background: var(--field);
  color: inherit;
  font: 0.8125rem / 1.4 ui-monospace, monospace;
}
@container (width < 30rem) {
  li { grid-template-columns: minmax(5.5rem, max-content) minmax(0, 1fr); padding: 0.25rem 0; }
  li span { grid-column: 1 / -1; }
  th:nth-child(3), td:nth-child(3) { display: none; }
}
@container (width >= 52rem) {
  .body { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); }
}
`;
