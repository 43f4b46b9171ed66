// Where rows stand: work in bytes and FLOPs, time on the same two axes. Small rows are merged.
import { categories } from "./colours.js";
import { amountOf, boundNames, boundOf, byTime, calls, launchCost, launches, numbers, owed, runOf, runs, seconds, time } from "./data.js";
import { known } from "./format.js";
import { state } from "./state.js";

export const MAX_SINGLE = 800;
const MAX_MERGED = 400;

export function chartRoofs() {
  const run = runs[state.roofRun];
  const rate = (resource) => (resource && run.roofs[resource] ? run.roofs[resource][0] : NaN);
  const own = state.roof === "own";
  const compute = own ? run.pair[0] : state.roof;
  return { level: state.level, beta: rate(state.level), compute, peak: rate(compute), own, t0: launchCost(state.roofRun) };
}

// FLOPs that a row has to do; with its own roofs, what the chart's roof would do in the same time.
function flopsAt(i, roofs) {
  if (!roofs.own || !known(owed[i])) return owed[i];
  return roofs.peak * Math.max(0, ...boundNames.filter((r) => r.startsWith("flop/")).map((r) => boundOf(r, i)).filter(known));
}

// Whether a row stands where its report says, or on roofs that somebody chose for the chart.
const isReported = (i, roofs) => runOf[i] === state.roofRun && !roofs.own && roofs.compute === runs[runOf[i]].pair[0] && roofs.level === runs[runOf[i]].pair[1];

// Time on the two axes: as it was judged, or as the model would judge it on the chosen roofs.
function timesOf(i, roofs, F, B, T, scale) {
  if (isReported(i, roofs)) return { bandwidth: numbers("bandwidth_time_s")[i] * scale, compute: numbers("compute_time_s")[i] * scale };
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
  return Array.from(byTime, (i) => placeOf(i, { level, beta: rate(level), compute, peak: rate(compute), own: false }));
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

// Points of rows (longest first), and the rows that have no place with their seconds.
export function collect(list, roofs) {
  const found = [];
  const lost = [];
  for (const i of list) {
    const point = placeOf(i, roofs);
    if (point) found.push(point);
    else lost.push(i);
  }
  const points = found.length <= MAX_SINGLE * 1.25 ? found : found.slice(0, MAX_SINGLE).concat(merge(found.slice(MAX_SINGLE), 0.2));
  return { points, lost, placed: found.length };
}
