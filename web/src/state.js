// One selection for all charts, the table and the lists.
import { categories } from "./colours.js";
import {
  bound, byTime, byteNames, calls, efficiency, elapsed, gap, kernelEfficiency, labelNames, launches, partOf, rowCount, runOf, runs, seconds, time, words, workBound,
} from "./data.js";
import { known } from "./format.js";

export const state = {
  tab: "combined", colour: runs.length > 1 ? "run" : "limit", level: null, roof: null, roofRun: 0, perCall: false,
  minTime: 0, search: "", limiter: null, box: null, isolated: null, isolatedName: "", hidden: new Set(),
  lit: [], drag: "zoom", views: {}, boxes: true, guides: true, segments: true, names: true, printed: false,
  allLevels: true, ceilingsOff: new Set(), points: "groups", everything: false, example: true,
};
// A case of a study is a point of its own; kernels of one name are one.
if (words("kind").dict.includes("unit")) state.points = "rows";
const firstRoofed = runs.findIndex((run) => Object.keys(run.roofs).length > 0);
state.roofRun = Math.max(0, firstRoofed);
state.roof = runs[state.roofRun].pair[0];
state.level = runs[state.roofRun].level;
if (state.level === null) state.level = byteNames.includes("byte/dram") ? "byte/dram" : byteNames[0] || null;

const listeners = { filter: [], look: [], lit: [], table: [] };
export const on = (event, run) => listeners[event].push(run);
export const emit = (event) => listeners[event].forEach((run) => run());

export const shown = new Uint8Array(rowCount);
export const ghost = new Uint8Array(rowCount);
export let shownRows = [];

const SEARCHED = ["name", "short_name", "op", "module", "shape", "dtype", "phase", "kind", "limiter", "run"].concat(
  labelNames.map((name) => `label.${name}`));

// A test per term: does any word of a row contain it?
function searchTests(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean).map((term) => {
    const columns = SEARCHED.map((name) => words(name)).map(({ dict, codes }) => {
      const hit = dict.map((w) => w.toLowerCase().includes(term));
      return hit.some(Boolean) ? { hit, codes } : null;
    }).filter(Boolean);
    return (i) => columns.some(({ hit, codes }) => codes[i] >= 0 && hit[codes[i]]);
  });
}

export function refilter() {
  const tests = searchTests(state.search);
  const category = categories(state.colour);
  shownRows = [];
  for (const i of byTime) {
    const drawn = seconds(i) >= state.minTime && !state.hidden.has(category.of(i));
    const chosen = (!state.isolated || state.isolated.has(i)) && (!state.box || state.box.has(i)) &&
      (!state.limiter || partOf(i) === state.limiter) && tests.every((test) => test(i));
    shown[i] = drawn && chosen ? 1 : 0;
    ghost[i] = drawn && !chosen ? 1 : 0;
    if (shown[i]) shownRows.push(i);
  }
}

export function filter(changes) {
  Object.assign(state, changes);
  refilter();
  emit("filter");
}

export function look(changes) {
  Object.assign(state, changes);
  emit("look");
}

export function light(rows) {
  const same = rows.length === state.lit.length && rows.every((row, k) => row === state.lit[k]);
  if (same) return;
  state.lit = rows;
  emit("lit");
}

export function isolate(rows, name) {
  const same = state.isolated && rows.length === state.isolated.size && rows.every((row) => state.isolated.has(row));
  filter(same ? { isolated: null, isolatedName: "" } : { isolated: new Set(rows), isolatedName: name });
}

export const showAll = () => filter({ isolated: null, isolatedName: "", box: null, search: "", limiter: null, hidden: new Set(), minTime: 0 });
export const isFiltered = () => Boolean(state.isolated || state.box || state.search || state.limiter || state.hidden.size || state.minTime);

// Sums over rows; a sum is NaN where nothing is known.
export function sums(list) {
  const total = { rows: list.length, time: 0, elapsed: 0, bound: NaN, gap: NaN, work: NaN, calls: 0, launches: 0, settledBound: 0, settledElapsed: 0, settledWork: 0, settledTime: 0 };
  const add = (key, value) => { if (known(value)) total[key] = (known(total[key]) ? total[key] : 0) + value; };
  for (const i of list) {
    add("time", time[i]); add("elapsed", elapsed[i]); add("bound", bound[i]); add("gap", gap[i]); add("work", workBound[i]);
    add("calls", calls[i]); add("launches", launches[i]);
    // A row has an efficiency where its limiter is known; only such rows count in that of many.
    if (known(efficiency[i])) { add("settledBound", bound[i]); add("settledElapsed", elapsed[i]); }
    if (known(kernelEfficiency[i])) { add("settledWork", workBound[i]); add("settledTime", time[i]); }
  }
  return total;
}
// What shares are shares of, as on the first screen: the time of the runs, on every device.
export const allTime = runs.reduce((sum, run, r) => sum + (run.measured_s ? run.measured_s * run.devices : sums(byTime.filter((i) => runOf[i] === r)).time), 0);
