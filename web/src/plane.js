// Work, time, and both on one diagonal: the planes' geometry, from places that know nothing of the page.
import { formatAmount, formatIntensity, formatPercent, formatSeconds, known } from "./format.js";
import { boxAround, placeLabels } from "./labels.js";
import { pixelsOf } from "./plot.js";
import { textWidth } from "./svg.js";
import { logRange, ticksOf } from "./ticks.js";

/** A kernel or a group of them: amounts, time, and its time on the two axes; `over` is how many times its limit it took, `line` how many times the least for its work.
 * @typedef {{ name: string, F: number, B: number, T: number, bandwidth: number, compute: number, share: number, n: number, kind: string, paint: string,
 *   symbol: string, hatched?: boolean, over?: number, line?: number, gap?: number, placed?: number, merged?: boolean, flagged?: boolean, alone?: boolean, rows?: number[], marks?: [number, number][], size?: number }} Place */
/** @typedef {{ beta: number, peak: number, t0: number, memory: string, compute: string }} Roofs */

export const FAR = 8;
export const p10 = (power) => 10 ** power;
// Axes are fitted to the kernels that hold so much of the time.
const FITTED = 0.99;
const RINGED = 0.95;
const NAMED = 5;
const LARGEST_DISC = 38;
const SMALLEST_DISC = 9;
const ALONE_SIZE = 12;

/** The diameter of a disc: its area is time, and it is never smaller than a ring. @type {(share: number, largest: number) => number} */
export const discSize = (share, largest) => Math.max(SMALLEST_DISC, LARGEST_DISC * Math.sqrt(share / (largest || 1)));

/** How a place reads its symbols' coordinates on a plane: the work, the time on the same axes, or one of them. */
function symbolsOf(kind, roofs) {
  const work = { x: (p) => p.B, y: (p) => p.F };
  const timed = kind === "time" ? { x: (p) => p.bandwidth, y: (p) => p.compute } : { x: (p) => p.bandwidth * roofs.beta, y: (p) => p.compute * roofs.peak };
  return kind === "combined" ? [work, timed] : [kind === "time" ? timed : work];
}

// Where what is zero stands on an axis that has no zero.
function zeroAxis(values) {
  let low = Infinity;
  let high = 0;
  for (const value of values) if (value > 0) { low = Math.min(low, value); high = Math.max(high, value); }
  return low > high ? 1 : low / 10 ** Math.max(0.35, Math.log10(high / low) * 0.07);
}

/** Marks of places; what is zero goes to the lower end of its axis. */
function setMarks(places, floor, kind, roofs) {
  const pairs = symbolsOf(kind, roofs);
  const at = (pair, axis, p) => pair[axis](p) || floor[axis] || NaN;
  for (const p of places) p.marks = pairs.map((pair) => [at(pair, "x", p), at(pair, "y", p)]);
}

/** The places that hold 99 % of the time of all of them, longest first. */
function fittedPlaces(places, share) {
  const sorted = [...places].sort((a, b) => b.share - a.share);
  const whole = sorted.reduce((sum, p) => sum + p.share, 0);
  let held = 0;
  const kept = [];
  for (const p of sorted) {
    if (held >= share * whole && kept.length >= Math.min(NAMED, sorted.length)) break;
    kept.push(p);
    held += p.share;
  }
  return kept;
}

/** Axes of all places, so that a selection does not move them; where zero stands on each.
 * @param {string} kind
 * @param {Place[]} places
 * @param {Roofs} roofs
 * @param {boolean} everything  fit the axes to all places, however short */
export function measurePlane(kind, places, roofs, everything = false) {
  const kept = fittedPlaces(places, everything ? 2 : FITTED);
  const pairs = symbolsOf(kind, roofs);
  const floor = {};
  for (const [axis, amount] of [["x", "B"], ["y", "F"]]) {
    floor[axis] = places.some((p) => p[amount] === 0) ? zeroAxis(pairs.flatMap((pair) => kept.map(pair[axis]))) : null;
  }
  setMarks(kept, floor, kind, roofs);
  // A tiny kernel's ring lies decades from its disc: rings count where the time is.
  const ringed = new Set(everything ? kept : fittedPlaces(places, RINGED));
  const values = (k) => kept.flatMap((p) => p.marks.filter((_, which) => which === p.marks.length - 1 || ringed.has(p)).map((mark) => mark[k]));
  return { floor, range: { x: logRange(values(0), 0.09), y: logRange(values(1), 0.09) } };
}

/** A range in which a decade is as long on both axes, and the width that this takes.
 * A chart is at most as wide as there is room, and hardly narrower than high. */
function squared(range, width, height) {
  const [dx, dy] = [range.x[1] - range.x[0], range.y[1] - range.y[0]];
  const used = Math.max(Math.min(width, 1.25 * height), Math.min(width, dx * height / dy));
  const scale = Math.min(used / dx, height / dy);
  const grown = ([low, high], wanted) => { const room = (wanted - (high - low)) / 2; return [low - room, high + room]; };
  return { width: used, range: { x: grown(range.x, used / scale), y: grown(range.y, height / scale) } };
}

const lineOf = (path, stroke, width = 1, dash = undefined) => ({ path, stroke, width, dash });

// A line y = x + shift in powers of ten.
const diagonalLine = (shift, range) => [[p10(range.x[0] - FAR), p10(range.x[0] - FAR + shift)], [p10(range.x[1] + FAR), p10(range.x[1] + FAR + shift)]];

function balanceNote(shift, text, range) {
  const from = Math.max(range.x[0], range.y[0] - shift);
  const to = Math.min(range.x[1], range.y[1] - shift);
  if (to - from < 0.6) return [];
  const at = from + Math.min((to - from) * 0.2, 2);
  return [{ x: p10(at), y: p10(at + shift), text, angle: -45, dy: -6, anchor: "start", name: "note strong" }];
}

// Faint lines of equal intensity where something is drawn, the balance line, and the two regions on its sides.
function workGuides(roofs, range, guides, narrow) {
  const { x: [x0, x1], y: [y0, y1] } = range;
  const balance = Math.log10(roofs.peak / roofs.beta);
  const [under, notes] = [[], []];
  if (Number.isFinite(balance)) {
    const far = [p10(x0 - FAR), p10(x1 + FAR), p10(y1 + 2 * FAR), p10(y0 - 2 * FAR)];
    const line = diagonalLine(balance, range);
    under.push({ path: [...line, [far[1], far[2]], [far[0], far[2]]], fill: "var(--compute)", opacity: "var(--tint)", name: "region" },
      { path: [...line, [far[1], far[3]], [far[0], far[3]]], fill: "var(--memory)", opacity: "var(--tint)", name: "region" });
    // A region that is out of sight has no name.
    if (y1 - x0 > balance) notes.push({ x: p10(x0), y: p10(y1), text: narrow ? "COMPUTE" : "COMPUTE is the limit", anchor: "start", dx: 10, dy: 20, name: "region-name compute" });
    if (y0 - x1 < balance) notes.push({ x: p10(x1), y: p10(y0), text: narrow ? "MEMORY" : "MEMORY is the limit", anchor: "end", dx: -10, dy: -12, name: "region-name memory" });
  }
  if (guides) for (let power = Math.ceil(y0 - x1); power <= Math.floor(y1 - x0); power++) under.push(lineOf(diagonalLine(power, range), "var(--line)"));
  if (Number.isFinite(balance)) {
    under.push(lineOf(diagonalLine(balance, range), "var(--soft)", 1.8));
    notes.push(...balanceNote(balance, `balance: ${formatIntensity(roofs.peak / roofs.beta)} FLOP per byte`, range));
  }
  return { under, notes };
}

function timeGuides(range, guides) {
  const { x: [x0, x1], y: [y0, y1] } = range;
  const under = [];
  if (guides) {
    for (let power = Math.ceil(Math.min(x0, y0)); power <= Math.floor(Math.max(x1, y1)); power++) {
      under.push(lineOf([[p10(x0 - FAR), p10(power)], [p10(power), p10(power)], [p10(power), p10(y0 - FAR)]], "var(--line)"));
    }
  }
  under.push(lineOf(diagonalLine(0, range), "var(--soft)", 1.8));
  return { under, notes: balanceNote(0, "compute time = memory time", range) };
}

/** The lines of the corner in which so many launches take longer than the work. */
/** @returns {[number, number][]} */
export function cornerPath(n, roofs, kind, range) {
  const t = n * roofs.t0;
  const [x, y] = kind === "time" ? [t, t] : [t * roofs.beta, t * roofs.peak];
  return [[p10(range.x[0] - FAR), y], [x, y], [x, p10(range.y[0] - FAR)]];
}

// One shaded corner: what takes less time than launching it.
function launchCorner(kind, roofs, range, width) {
  if (!known(roofs.t0) || !known(roofs.beta * roofs.peak)) return { under: [], notes: [] };
  const path = cornerPath(1, roofs, kind, range);
  const [x, y] = path[1];
  const text = `less than one launch (${formatSeconds(roofs.t0, 2)})`;
  const perDecade = width / (range.x[1] - range.x[0]);
  const isSeen = (Math.min(Math.log10(x), range.x[1]) - range.x[0]) * perDecade > textWidth(text) + 12 && (Math.log10(y) - range.y[0]) * perDecade > 20;
  return {
    under: [{ path: [...path, [path[0][0], path[2][1]]], fill: "var(--launch)", opacity: "var(--tint-strong)", name: "corner" }],
    notes: isSeen ? [{ x: Math.min(x, p10(range.x[1])), y: Math.min(y, p10(range.y[1])), text, anchor: "end", dx: -6, dy: 14, name: "note" }] : [],
  };
}

function zeroLines(floor, range) {
  const [under, notes] = [[], []];
  if (floor.y) {
    under.push(lineOf([[p10(range.x[0] - FAR), floor.y], [p10(range.x[1] + FAR), floor.y]], "var(--soft)", 1, "2 3"));
    notes.push({ x: p10(range.x[0]), y: floor.y, text: "no FLOPs", anchor: "start", dx: 6, dy: -5 });
  }
  if (floor.x) {
    under.push(lineOf([[floor.x, p10(range.y[0] - FAR)], [floor.x, p10(range.y[1] + FAR)]], "var(--soft)", 1, "2 3"));
    notes.push({ x: floor.x, y: p10(range.y[1]), text: "no bytes", anchor: "start", dx: 4, dy: 34 });
  }
  return { under, notes };
}

const cut = (text, limit) => (text.length > limit ? `${text.slice(0, limit - 1)}…` : text);
export const timesText = (over) => `${over >= 10 ? over.toFixed(0) : over.toFixed(1)}×`;

// Times are those of one device, as on the first screen.
function labelLines(p, total, narrow, devices) {
  const over = known(p.over) && p.over > 0 ? `, ${timesText(p.over)} its limit` : "";
  // Cases of a study are no parts of one time.
  const share = known(total) ? ` (${formatPercent(p.share / total)})` : "";
  return [cut(p.name, narrow ? 16 : 34), `${formatSeconds(p.share / devices)}${share}${narrow ? "" : over}`];
}

const lineOver = (p) => p.line ?? p.over;

// The kernel to explain the chart with: the largest loss whose two symbols stand apart, best one that work limits.
function exampleOf(scene, pixel) {
  const isApart = (p) => {
    const [[ax, ay], [bx, by]] = p.marks.map(pixel);
    const inside = ([x, y]) => x > scene.margin.l && x < scene.width - scene.margin.r && y > scene.margin.t && y < scene.height - scene.margin.b;
    return Math.hypot(ax - bx, ay - by) > 42 && inside([ax, ay]) && inside([bx, by]);
  };
  return scene.points.filter((p) => !p.merged && p.placed === undefined && p.gap > 0 && lineOver(p) > 1.2 && p.F > 0 && isApart(p)).sort((a, b) => Number(a.kind === "launch") - Number(b.kind === "launch") || b.gap - a.gap)[0] || null;
}

function calloutWishes(p, pixel, roofs) {
  const [ring, disc] = p.marks.map(pixel);
  const middle = [(ring[0] + disc[0]) / 2, (ring[1] + disc[1]) / 2];
  const memoryBound = p.bandwidth >= p.compute;
  const equal = memoryBound ? `what ${formatAmount(p.bandwidth * roofs.beta, "B", 2)} would take` : `what ${formatAmount(p.compute * roofs.peak, "FLOP", 2)} would take`;
  return [
    { at: ring, r: 6, lines: ["① the work it has to do:", `${formatAmount(p.B, "B", 2)}, ${formatAmount(p.F, "FLOP", 2)}`] },
    { at: disc, r: p.size / 2 + 2, lines: [`② the time it took: ${formatSeconds(p.T, 2)},`, equal] },
    { at: middle, r: 4, lines: [`③ the line is lost time: ${timesText(lineOver(p))} too slow`], paint: p.paint },
  ];
}

/** Texts of a scene: the five longest always, others where there is room, and the worked example. */
export function sceneTexts(scene, { names, example, total, roofs, devices = 1 }) {
  const { width, height, margin } = scene;
  const pixel = pixelsOf(scene);
  const narrow = width < 560;
  const area = { left: margin.l + 4, top: margin.t + 4, right: width - margin.r - 4, bottom: height - margin.b - 4 };
  const disc = scene.rings ? 1 : 0;
  const isSeen = (p) => { const [x, y] = pixel(p.marks[disc]); return x >= margin.l && x <= width - margin.r && y >= margin.t && y <= height - margin.b; };
  const listed = scene.points.filter((p) => !p.merged && !p.alone && isSeen(p)).slice(0, 40);
  const obstacles = scene.points.slice(0, 150).flatMap((p) => p.marks.map((mark, k) => ({ mark, k })).filter(({ mark }) => mark.every(Number.isFinite)).map(({ mark, k }) => boxAround(...pixel(mark), (k === disc ? p.size / 2 : 5) + 1)));
  const paths = scene.rings ? scene.points.slice(0, 40).map((p) => p.marks.filter((mark) => mark.every(Number.isFinite)).map(pixel)) : [];
  for (const note of scene.notes.filter(({ name }) => (name || "").startsWith("region-name") || name === "note")) {
    const [x, y] = pixel([note.x, note.y]);
    const w = textWidth(note.text, 14, true);
    const left = note.anchor === "end" ? x + note.dx - w : x + note.dx;
    obstacles.push({ left, right: left + w, top: y + note.dy - 14, bottom: y + note.dy + 4 });
  }
  for (const note of scene.notes.filter(({ angle }) => angle)) {
    const [x, y] = pixel([note.x, note.y]);
    const along = textWidth(note.text, 11) * Math.SQRT1_2;
    paths.push([[x, y - 8], [x + along, y - 8 - along]]);
  }
  const shown = example && scene.rings && !narrow ? exampleOf(scene, pixel) : null;
  const wishes = [];
  const seen = new Set();
  for (const p of names ? listed : []) {
    const must = wishes.length < (narrow ? 3 : NAMED);
    if (wishes.length >= (narrow ? 3 : 12)) break;
    const lines = must ? labelLines(p, total, narrow, devices) : [cut(p.name, 26)];
    if (seen.has(lines.join())) continue;
    seen.add(lines.join());
    const [x, y] = pixel(p.marks[disc]);
    wishes.push({ x, y, r: p.size / 2, width: Math.max(...lines.map((line, k) => textWidth(line, 11.5, k === 0))), height: lines.length * 14, must, lines, p, name: must ? "longest" : "other" });
  }
  const callouts = shown ? calloutWishes(shown, pixel, roofs).map(({ at: [x, y], r, lines, paint }) => ({ x, y, r: r + 14, width: Math.max(...lines.map((line) => textWidth(line, 11.5, true))) + 4, height: lines.length * 14, must: true, leads: true, lines, paint, name: "callout" })) : [];
  const all = [...wishes.filter((w) => w.must), ...callouts, ...wishes.filter((w) => !w.must)];
  return placeLabels(all, obstacles, area, paths).flatMap((box, k) => {
    if (!box) return [];
    const wish = all[k];
    const isCallout = wish.name === "callout";
    return [{ ...box, lines: wish.lines, bold: wish.name === "longest" || isCallout, name: wish.name, paint: wish.paint, arrow: isCallout, to: isCallout || box.leads ? [wish.x, wish.y] : null }];
  });
}

function planeAxes(kind, roofs, range, area, words) {
  const ticks = (axis, shift, unit) => ticksOf(range[axis][0] - shift, range[axis][1] - shift, axis === "x" ? area.width : area.height * 1.6, unit);
  const axis = (name, title, shift, unit) => ({ title, shift, ticks: ticks(name, shift, unit) });
  const each = words.each || "";
  const narrow = area.width < 430;
  if (kind === "time") return { x: axis("x", `time at ${roofs.memory} speed${each}`, 0, "s"), y: axis("y", `time at ${roofs.compute} speed${each}`, 0, "s") };
  const ring = kind === "combined" ? " (ring)" : "";
  const axes = { x: axis("x", `bytes moved at ${roofs.memory}${each}${ring} →`, 0, "B"), y: axis("y", `FLOPs${each}${words.scaled || ""}${ring} →`, 0, "") };
  if (kind !== "combined") return axes;
  const [beta, peak] = [Math.log10(roofs.beta), Math.log10(roofs.peak)];
  return { ...axes, x2: axis("x", narrow ? `time at ${roofs.memory} speed (disc) →` : `time it takes, if ${roofs.memory} sets the pace (disc) →`, beta, "s"), y2: axis("y", narrow ? "time at compute speed (disc) →" : "time it takes, if arithmetic sets the pace (disc) →", peak, "s") };
}

const marginsOf = (kind, narrow) => {
  const second = kind === "combined";
  if (narrow) return { l: 66, r: second ? 72 : 14, t: second ? 44 : 12, b: 42 };
  return { l: 78, r: second ? 82 : 20, t: second ? 50 : 16, b: 48 };
};

/** The scene of a plane: "combined", "complexity" (work alone) or "time".
 * @param {string} kind
 * @param {Place[]} places  longest first
 * @param {{ roofs: Roofs, size: { width: number, height: number }, whole: any, view?: any, ghosts?: Place[], total: number, devices?: number, guides?: boolean, corner?: boolean,
 *   segments?: boolean, names?: boolean, example?: boolean, words?: Record<string, string>, largest?: number }} options */
export function planeScene(kind, places, options) {
  const { roofs, size, whole, view, ghosts = [], total, devices = 1, guides = true, corner = true, segments = true, names = true, example = false, words = {}, largest = places.reduce((most, p) => Math.max(most, p.share), 0) } = options;
  const margin = marginsOf(kind, size.width < 560);
  const room = { width: Math.max(80, size.width - margin.l - margin.r), height: Math.max(80, size.height - margin.t - margin.b) };
  const fit = squared(view || whole.range, room.width, room.height);
  const { range } = fit;
  const { floor } = whole;
  setMarks(places.concat(ghosts), floor, kind, roofs);
  // Where both are drawn, another machine's work would lie on this one's: its time alone is shown.
  for (const p of places) if (p.alone && kind === "combined") p.marks[0] = [NaN, NaN];
  for (const p of places) p.size = p.alone ? ALONE_SIZE : discSize(p.share, largest);
  const parts = [kind === "time" ? timeGuides(range, guides) : workGuides(roofs, range, guides, size.width < 560), corner ? launchCorner(kind, roofs, range, fit.width) : { under: [], notes: [] }, zeroLines(floor, range)];
  const last = kind === "combined" ? 1 : 0;
  const scene = {
    kind, width: fit.width + margin.l + margin.r, height: size.height, margin, range, points: places, roofs, largest, last, rings: kind === "combined", segments: kind === "combined" && segments,
    under: parts.flatMap((part) => part.under), notes: parts.flatMap((part) => part.notes), ghosts: ghosts.map((p) => p.marks[last]).filter((mark) => mark.every(Number.isFinite)), extras: [], texts: [],
    axes: planeAxes(kind, roofs, range, { width: fit.width, height: room.height }, words), area: { range, width: fit.width, height: room.height },
  };
  const off = ([x, y]) => Math.log10(x) < range.x[0] - 1e-9 || Math.log10(x) > range.x[1] + 1e-9 || Math.log10(y) < range.y[0] - 1e-9 || Math.log10(y) > range.y[1] + 1e-9;
  scene.outside = places.filter((p) => off(p.marks[last]));
  scene.texts = sceneTexts(scene, { names, example, total, roofs, devices });
  return scene;
}
