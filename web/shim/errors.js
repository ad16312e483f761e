// @ts-check
// The error of this library, and the text of anybody's.

/** @import * as Types from '../types.d.ts' */

/** @type {typeof Types.LongwireError} */
export const LongwireError = class extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ outcome?: Types.Outcome, cause?: unknown }} [more]
   */
  constructor(code, message, more = {}) {
    super(`longwire: ${message}`, { cause: more.cause });
    this.name = 'LongwireError';
    this.code = code;
    /** @type {Types.Outcome | null} */
    this.outcome = more.outcome ?? null;
  }
};

/** @param {unknown} error */
export const textOf = (error) => {
  try {
    const { message } = /** @type {Error} */ (error ?? {});
    return String(message ?? error);
  } catch {
    return 'unprintable';
  }
};
