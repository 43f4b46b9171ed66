// Lines that guide the eye: constant intensity, balance, equal times, launch boxes, the axis of zero.
import { css, rowColour } from "./colours.js";
import { formatIntensity, known } from "./format.js";
import { state } from "./state.js";

export const FAR = 8;
const MAX_BOXES = 12;
export const p10 = (power) => 10 ** power;

export const lineTrace = (x, y, colour, width, dash = "solid") => ({
  type: "scatter", mode: "lines", x, y, line: { color: colour, width, dash }, hoverinfo: "skip", showlegend: false,
});

export const noteAt = (x, y, text, more = {}) => ({
  x, y, xref: "x", yref: "y", text, showarrow: false, font: { size: 11, color: css("--soft") }, bgcolor: css("--sheet"), borderpad: 1, opacity: 0.9, ...more,
});

// A line y = x + shift in powers of ten, and a text on it near its upper end.
function diagonal(shift, text, area, strong) {
  const { x: [x0, x1], y: [y0, y1] } = area.range;
  const trace = lineTrace([p10(x0 - FAR), p10(x1 + FAR)], [p10(x0 - FAR + shift), p10(x1 + FAR + shift)], css(strong ? "--soft" : "--line"), strong ? 1.6 : 1);
  const from = Math.max(x0, y0 - shift);
  const to = Math.min(x1, y1 - shift);
  const slopeX = area.width / (x1 - x0);
  const slopeY = area.height / (y1 - y0);
  if ((to - from) * Math.hypot(slopeX, slopeY) < (strong ? 190 : 90)) return { trace, note: null };
  // The strong line is named near its lower end, where symbols are rare, the others near the upper.
  const inset = (strong ? 100 : 26) / Math.hypot(slopeX, slopeY);
  const at = strong ? from + Math.min((to - from) * 0.5, inset) : to - Math.min((to - from) * 0.5, inset);
  return { trace, note: noteAt(at, at + shift, text, { textangle: -Math.atan2(slopeY, slopeX) * 180 / Math.PI }) };
}

export function intensityGuides(roofs, area) {
  const { x: [x0, x1], y: [y0, y1] } = area.range;
  const low = Math.ceil(y0 - x1);
  const high = Math.floor(y1 - x0);
  const step = Math.max(1, Math.ceil((high - low) / (area.width < 500 ? 5 : 8)));
  const balance = Math.log10(roofs.peak / roofs.beta);
  const lines = [];
  for (let power = low; power <= high; power += step) {
    if (known(balance) && Math.abs(power - balance) < 0.3) continue;
    lines.push(diagonal(power, power >= -3 && power < 5 ? `${Number(p10(power).toPrecision(2))}` : `10<sup>${power}</sup>`, area, false));
  }
  if (known(balance)) lines.push(diagonal(balance, `balance ${formatIntensity(roofs.peak / roofs.beta)} FLOP/B`, area, true));
  return lines;
}

export function timeGuides(area) {
  const { x: [x0, x1], y: [y0, y1] } = area.range;
  const lines = [];
  for (let power = Math.ceil(Math.min(x0, y0)); power <= Math.floor(Math.max(x1, y1)); power++) {
    const t = p10(power);
    lines.push({ trace: lineTrace([p10(x0 - FAR), t, t], [t, t, p10(y0 - FAR)], css("--line"), 1), note: null });
  }
  lines.push(diagonal(0, "compute time = bandwidth time", area, true));
  return lines;
}

// Dashed boxes: of one launch, and of the numbers of launches that rows have.
export function boxTrace(n, roofs, area, inSeconds, colour, width) {
  const t = n * roofs.t0;
  const [x, y] = inSeconds ? [t, t] : [t * roofs.beta, t * roofs.peak];
  return lineTrace([p10(area.range.x[0] - FAR), x, x], [y, y, p10(area.range.y[0] - FAR)], colour, width, "5px,4px");
}

export function launchBoxes(points, roofs, area, inSeconds) {
  if (!state.boxes || !known(roofs.t0) || !known(roofs.beta * roofs.peak)) return [];
  const counts = new Map();
  for (const p of points) {
    if (p.merged || !(p.n > 0)) continue;
    const key = Number(p.n.toPrecision(3));
    if (!counts.has(key)) counts.set(key, rowColour(p.rows[0]));
    if (counts.size > MAX_BOXES) break;
  }
  // Where every row has a number of its own, the longest ones speak for the rest.
  const few = [...counts].slice(0, counts.size <= MAX_BOXES ? MAX_BOXES : 6);
  const boxes = few.map(([n, colour]) => boxTrace(n, roofs, area, inSeconds, colour, 1));
  if (!few.some(([n]) => n === 1)) boxes.push(boxTrace(1, roofs, area, inSeconds, css("--soft"), 1));
  return boxes;
}

// Where rows without FLOPs (or bytes) stand on an axis that has no zero.
export function zeroAxis(values) {
  let low = Infinity;
  let high = 0;
  for (const value of values) if (value > 0) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low > high) return 1;
  return low / 10 ** Math.max(0.35, Math.log10(high / low) * 0.07);
}
