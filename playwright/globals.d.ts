interface Window {
  /** What happened in the page, one line each; see fixtures.js. */
  log: string[];
}
