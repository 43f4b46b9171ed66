// Ticks of logarithmic axes in units that people read. Ranges are powers of ten.
const PREFIX = { "-18": "a", "-15": "f", "-12": "p", "-9": "n", "-6": "µ", "-3": "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E" };
const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** A power of ten as a text. @type {(power: number) => string} */
const powerText = (power) => `10${[...String(power)].map((sign) => RAISED[sign]).join("")}`;

function tickText(value, unit) {
  const power = Math.floor(Math.log10(value) + 1e-9);
  if (!unit && power >= -3 && power < 4) return String(Number(value.toPrecision(3)));
  const third = Math.max(-18, Math.min(18, 3 * Math.floor(power / 3)));
  if (power < -18 || power > 20) return `${powerText(power)} ${unit}`.trim();
  return `${Number((value / 10 ** third).toPrecision(3))} ${PREFIX[third]}${unit}`.trim();
}

/** Ticks between two powers of ten on so many pixels: places with texts, and small ones without.
 * @type {(low: number, high: number, pixels: number, unit: string) => { value: number, text: string }[]} */
export function ticksOf(low, high, pixels, unit) {
  const decades = high - low;
  const room = Math.max(2, pixels / 62);
  const named = decades * 3 <= room ? [1, 2, 5] : decades * 2 <= room ? [1, 3] : [1];
  const step = named.length > 1 ? 1 : Math.max(1, Math.ceil(decades / room));
  const ticks = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++) {
    for (let sub = 1; sub < 10; sub++) {
      const said = named.includes(sub) && power % step === 0;
      if (said || pixels / decades > 40) ticks.push({ value: sub * 10 ** power, text: said ? tickText(sub * 10 ** power, unit) : "" });
    }
  }
  return ticks;
}

/** Limits around positive values in powers of ten, with room on both sides.
 * @type {(values: number[], pad?: number) => [number, number]} */
export function logRange(values, pad = 0.06) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!(value > 0) || !Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) [low, high] = [1, 10];
  let [a, b] = [Math.log10(low), Math.log10(high)];
  if (b - a < 1) [a, b] = [(a + b) / 2 - 0.5, (a + b) / 2 + 0.5];
  const room = Math.max(0.15, (b - a) * pad);
  return [a - room, b + room];
}
