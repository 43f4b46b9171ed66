// Rows in the order of their numbers: equal ones stay as they are, those not known come last.

// From so many on they are sorted by their bits, 16 at a time, which takes no comparisons.
const MANY = 2000;
const DIGITS = 65536;

/** @param {Int32Array} rows
 * @param {(row: number) => number | null | undefined} valueOf
 * @param {boolean} down  largest first
 * @returns {Int32Array} */
export function numberOrder(rows, valueOf, down) {
  const values = new Float64Array(rows.length);
  for (let k = 0; k < rows.length; k++) {
    const value = valueOf(rows[k]) ?? NaN;
    // 0 has one sign only, NaN comes after everything.
    values[k] = Number.isNaN(value) ? Infinity : (down ? -value : value) + 0;
  }
  const places = rows.length < MANY ? byComparing(values) : byBits(values);
  return places.map((k) => rows[k]);
}

const identity = (count) => Int32Array.from({ length: count }, (_, k) => k);

/** @param {Float64Array} values */
function byComparing(values) {
  return identity(values.length).sort((a, b) => (values[a] === values[b] ? a - b : values[a] - values[b]));
}

/** @param {Float64Array} values */
function byBits(values) {
  const halves = new Uint16Array(values.buffer);
  // Bits of numbers below 0 count backwards, and all of them come before those above.
  for (let k = 0; k < values.length; k++) {
    const at = 4 * k;
    if (halves[at + 3] & 0x8000) for (let d = 0; d < 4; d++) halves[at + d] = ~halves[at + d];
    else halves[at + 3] |= 0x8000;
  }
  let from = identity(values.length);
  let to = new Int32Array(values.length);
  for (let digit = 0; digit < 4; digit++) {
    const starts = new Int32Array(DIGITS + 1);
    for (let k = 0; k < values.length; k++) starts[halves[4 * k + digit] + 1]++;
    for (let d = 0; d < DIGITS; d++) starts[d + 1] += starts[d];
    for (const k of from) to[starts[halves[4 * k + digit]]++] = k;
    [from, to] = [to, from];
  }
  return from;
}
