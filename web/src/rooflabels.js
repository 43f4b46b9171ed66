// Names of the slanted roofs: along their lines where there is room, else in a list above the
// chart, fastest first.
import { narrow, pixelsIn } from "./charts.js";
import { noteAt } from "./guides.js";

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
  const half = text.length * 3.3 + 8;
  for (let at = from + half / slope; at <= to - half / slope; at += 12 / slope) {
    const spots = alongText([(at - x0) * perX, (at + shift - y0) * perY], [perX / slope, perY / slope], half);
    if (!isFree(spots, taken)) continue;
    taken.push(...spots.map(([x, y]) => [x, y, LABEL_GAP]));
    return noteAt(at, at + shift, text, { textangle: -Math.atan2(perY, perX) * 180 / Math.PI, xanchor: "center" });
  }
  return null;
}

// `roofs` are { text, rate, end } with the intensity at which each ends.
export function roofNotes(roofs, points, area) {
  const pixel = pixelsIn(area);
  const taken = points.flatMap((p) => p.marks.map((mark) => [...pixel(mark), 12]));
  const notes = [];
  const listed = [];
  for (const { text, rate, end } of roofs) {
    const note = narrow() ? null : placeOnRoof(rate, text, end, area, taken);
    if (note) notes.push(note);
    else listed.push(text);
  }
  const text = listed.map((name, k) => (k ? (narrow() && k % 2 === 0 ? "<br>" : " · ") : "") + name).join("");
  if (text) notes.push(noteAt(0, 1, text, { xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", align: "left" }));
  return notes;
}
