// Where rows stand: work in bytes and FLOPs, time on the same two axes. Small rows are merged.
import { LOOK, categories, partColour } from "./colours.js";
import { sharedWord, sumOf } from "./columns.js";
import {
  amountOf, bound, boundNames, boundOf, byTime, calls, efficiency, elapsed, gap, kernelEfficiency, launchCost, launches, numbers, owed, partOf, runOf, runs, seconds, time, word, words, workBound,
} from "./data.js";
import { formatCount, known, resourceLabel } from "./format.js";
import { largestPart, topLimiter } from "./groups.js";
import { isFiltered, shownRows, state } from "./state.js";
import { rowName } from "./tooltip.js";

export const MAX_SINGLE = 800;
const MAX_MERGED = 400;

export function chartRoofs() {
  const run = runs[state.roofRun];
  const rate = (resource) => (resource && run.roofs[resource] ? run.roofs[resource][0] : NaN);
  const own = state.roof === "own";
  const compute = own ? run.pair[0] : state.roof;
  return {
    level: state.level, beta: rate(state.level), computeRoof: compute, peak: rate(compute), own, t0: launchCost(state.roofRun),
    memory: state.level ? resourceLabel(state.level) : "memory", compute: compute ? resourceLabel(compute) : "compute",
  };
}

// FLOPs that a row has to do; with its own roofs, what the chart's roof would do in the same time.
function flopsAt(i, roofs) {
  if (!roofs.own || !known(owed[i])) return owed[i];
  return roofs.peak * Math.max(0, ...boundNames.filter((r) => r.startsWith("flop/")).map((r) => boundOf(r, i)).filter(known));
}

// Whether a row stands where its report says, or on roofs that somebody chose for the chart.
const isReported = (i, roofs) => runOf[i] === state.roofRun && !roofs.own && roofs.computeRoof === runs[runOf[i]].pair[0] && roofs.level === runs[runOf[i]].pair[1];

// Time on the two axes: as it was judged, or as the model would judge it on the chosen roofs.
function timesOf(i, roofs, F, B, T, scale) {
  if (isReported(i, roofs)) return { bandwidth: numbers("bandwidth_time_s")[i] * scale, compute: numbers("compute_time_s")[i] * scale };
  return timesOn(roofs, F, B, T);
}

// Time on the axes' scales: along the diagonal of the work, as far as the slower of the two says.
function timesOn(roofs, F, B, T) {
  const [memory, compute] = [B / roofs.beta, F / roofs.peak];
  const slowest = Math.max(memory, compute);
  return { bandwidth: T * memory / slowest, compute: T * compute / slowest };
}

// One row's place, or nothing where it has none: its work is unknown, or it took no time.
function placeOf(i, roofs) {
  const scale = state.perCall && calls[i] > 0 ? 1 / calls[i] : 1;
  const F = flopsAt(i, roofs) * scale;
  const B = (roofs.level ? amountOf(roofs.level, i) : NaN) * scale;
  const T = time[i] * scale;
  if (!(T > 0) || !known(F) || !known(B) || F + B === 0) return null;
  return { rows: [i], F, B, T, n: launches[i] * scale, share: seconds(i), ...timesOf(i, roofs, F, B, T, scale) };
}

// Places of all rows, longest first, on roofs of one's choice.
export function placesOn(level, compute) {
  const rate = (resource) => runs[state.roofRun].roofs[resource][0];
  return Array.from(byTime, (i) => placeOf(i, { level, beta: rate(level), computeRoof: compute, peak: rate(compute), own: false }));
}

const meanLog = (list, key) => Math.exp(list.reduce((sum, p) => sum + Math.log(p[key]), 0) / list.length);

function mergedPoint(list) {
  const point = { rows: list.flatMap((p) => p.rows), share: list.reduce((sum, p) => sum + p.share, 0), merged: true };
  for (const key of ["F", "B", "T", "n", "bandwidth", "compute"]) point[key] = list[0][key] === 0 ? 0 : meanLog(list, key);
  return point;
}

function merge(list, cell) {
  const category = categories(state.colour);
  const bins = new Map();
  const at = (value) => (value > 0 ? Math.round(Math.log10(value) / cell) : "zero");
  for (const point of list) {
    const axes = known(point.bandwidth) ? [point.bandwidth, point.compute] : [point.B, point.F];
    const key = `${category.place.get(category.of(point.rows[0]))}|${at(axes[0])}|${at(axes[1])}`;
    if (bins.has(key)) bins.get(key).push(point);
    else bins.set(key, [point]);
  }
  if (bins.size > MAX_MERGED && cell < 3) return merge(list, cell * 1.6);
  return [...bins.values()].map((members) => (members.length > 1 ? mergedPoint(members) : members[0]));
}

// Several rows as one: their work, time and launches together, or per call. The group's time is
// that of all its rows; its place is that of the rows whose work is known.
function groupPlace({ rows, unplaced }, roofs) {
  if (rows.length === 1 && !unplaced.length) return placeOf(rows[0], roofs);
  const scale = state.perCall ? 1 / (sumOf(rows, (i) => calls[i]) || 1) : 1;
  const [F, B, T] = [(i) => flopsAt(i, roofs), (i) => amountOf(roofs.level, i), (i) => time[i]].map((of) => sumOf(rows, of) * scale);
  const placed = sumOf(rows, seconds);
  const all = unplaced.length ? rows.concat(unplaced).sort((a, b) => seconds(b) - seconds(a)) : rows;
  return { rows: all, F, B, T, n: sumOf(rows, (i) => launches[i]) * scale, share: sumOf(all, seconds), placed: unplaced.length ? placed : undefined, ...timesOn(roofs, F, B, T) };
}

/** Whether kernels of one name are one symbol: not where a single kernel was picked, whose rows are wanted then. */
export function isGrouped() {
  if (state.points !== "groups") return false;
  const { codes } = words("short_name");
  return !isFiltered() || shownRows.some((i) => codes[i] !== codes[shownRows[0]]);
}

// Points of rows (longest first), the rows that have no place, and those that have none of their own
// but count in the time of their group.
export function collect(list, roofs, grouped = isGrouped()) {
  const found = [];
  const lost = [];
  for (const i of list) {
    const point = placeOf(i, roofs);
    if (point) found.push(point);
    else lost.push(i);
  }
  if (grouped) {
    const { codes } = words("short_name");
    const groups = new Map();
    for (const point of found) {
      const code = codes[point.rows[0]];
      if (groups.has(code)) groups.get(code).rows.push(point.rows[0]);
      else groups.set(code, { rows: [point.rows[0]], unplaced: [] });
    }
    for (const i of lost) groups.get(codes[i])?.unplaced.push(i);
    const points = [...groups.values()].map((group) => groupPlace(group, roofs)).sort((a, b) => b.share - a.share);
    return { points: thinned(points), lost: lost.filter((i) => !groups.has(codes[i])), partly: lost.filter((i) => groups.has(codes[i])), placed: found.length };
  }
  return { points: thinned(found), lost, partly: [], placed: found.length };
}

// More points than a screen can show: the longest one by one, the rest merged where they lie close.
const thinned = (found) => (found.length <= MAX_SINGLE * 1.25 ? found : found.slice(0, MAX_SINGLE).concat(merge(found.slice(MAX_SINGLE), 0.2)));

/** What a point is called and looks like: colour by choice, symbol by what limits it. */
export function dressed(points) {
  const category = categories(state.colour);
  for (const p of points) {
    const i = p.rows[0];
    p.kind = p.rows.length > 1 ? topLimiter(p.rows) : word("limit", i);
    p.name = p.merged ? `${formatCount(p.rows.length)} small kernels` : p.rows.length > 1 ? sharedWord(p.rows, rowName) || rowName(i) : rowName(i);
    const part = p.rows.length > 1 ? largestPart(p.rows) : partOf(i);
    p.paint = state.colour === "limit" ? `var(${partColour(part)})` : category.colour(category.of(i));
    p.symbol = p.merged ? "hexagon" : LOOK.symbols[part] || "circle";
    p.hatched = part === "unknown" && state.colour === "limit";
    p.flagged = !p.merged && p.rows.some((row) => word("above_roof", row));
    // As "of its limit" on the first screen: the time of the kernels over the least for their work, or
    // for launching them where that is the limit. The line on the chart is the former.
    const launching = p.kind === "launch";
    const settled = p.rows.filter((row) => known((launching ? efficiency : kernelEfficiency)[row]));
    const ratio = (taken, least) => { const over = sumOf(settled, (row) => taken[row]) / sumOf(settled, (row) => least[row]); return Number.isFinite(over) && 2 * sumOf(settled, seconds) >= p.share ? over : NaN; };
    p.line = ratio(time, workBound);
    p.over = launching ? ratio(elapsed, bound) : p.line;
    p.gap = sumOf(p.rows, (row) => gap[row]);
  }
  return points;
}
