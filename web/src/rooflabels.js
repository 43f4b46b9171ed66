// Names of the slanted roofs: along their lines where there is room, else in a list above the
// chart, fastest first.
import { p10 } from "./plane.js";
import { textWidth } from "./svg.js";

const LABEL_GAP = 17;

// Points along a text of that many pixels, centred on a place of a line with that direction.
const alongText = ([x, y], [dx, dy], half) => [-1, -0.5, 0, 0.5, 1].map((share) => [x + share * half * dx, y + share * half * dy]);

const isFree = (spots, taken) => spots.every(([x, y]) => taken.every(([tx, ty, room]) => Math.hypot(tx - x, ty - y) > room));

// The first place on a roof's visible part that meets neither symbols nor other names.
function placeOnRoof(rate, text, end, area, taken) {
  const { x: [x0, x1], y: [y0, y1] } = area.range;
  const shift = Math.log10(rate);
  const [from, to] = [Math.max(x0, y0 - shift), Math.min(x1, y1 - shift, Math.log10(end))];
  const [perX, perY] = [area.width / (x1 - x0), area.height / (y1 - y0)];
  const slope = Math.hypot(perX, perY);
  const half = textWidth(text, 11) / 2 + 4;
  for (let at = from + half / slope; at <= to - half / slope; at += 12 / slope) {
    const spots = alongText([(at - x0) * perX, (at + shift - y0) * perY], [perX / slope, perY / slope], half);
    if (!isFree(spots, taken)) continue;
    taken.push(...spots.map(([x, y]) => [x, y, LABEL_GAP]));
    return { x: p10(at), y: p10(at + shift), text, angle: -Math.atan2(perY, perX) * 180 / Math.PI, dy: 4, name: "note strong" };
  }
  return null;
}

/** Names of roofs { text, rate, end } with the intensity at which each ends: notes on their lines, and texts that found no place.
 * @returns {{ notes: any[], listed: string[] }} */
export function roofNotes(roofs, points, area, narrow) {
  const pixel = ([x, y]) => [(Math.log10(x) - area.range.x[0]) / (area.range.x[1] - area.range.x[0]) * area.width, (Math.log10(y) - area.range.y[0]) / (area.range.y[1] - area.range.y[0]) * area.height];
  const taken = points.flatMap((p) => p.marks.map((mark) => [...pixel(mark), 12]));
  const notes = [];
  const listed = [];
  for (const { text, rate, end } of roofs) {
    const note = narrow ? null : placeOnRoof(rate, text, end, area, taken);
    if (note) notes.push(note);
    else listed.push(text);
  }
  return { notes, listed };
}
