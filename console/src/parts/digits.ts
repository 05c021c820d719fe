// JSON whose whole numbers keep their digits, as ids of 64 bits need it: a double holds fewer. Browsers that
// cannot are told by `written`; what they read is rounded.

interface Context { source: string }

const raw = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON;
const LONG = /\d{16}/;
const WHOLE = /^-?(0|[1-9]\d*)$/;

/** A text as JSON; throws SyntaxError where it is none. */
export function parsed(text: string): unknown {
  if (raw === undefined || !LONG.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_key, value: unknown, context?: Context) =>
    typeof value === "number" && context !== undefined && !Number.isSafeInteger(value) && WHOLE.test(context.source) ? raw(context.source) : value);
}

/** A whole number as JSON.stringify writes it digit by digit; null where it would be another. */
export function written(text: string): unknown {
  if (Number.isSafeInteger(Number(text))) return Number(text);
  return raw !== undefined && WHOLE.test(text) ? raw(text) : null;
}
