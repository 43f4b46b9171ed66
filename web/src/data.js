// The embedded columns of all runs as one table. A number that is not known is NaN.
import { FURTHER } from "./dom.js";
import { isInteger, known } from "./format.js";

export const payload = JSON.parse(document.getElementById("data").textContent);
export const runs = payload.runs;
// Devices that the rows of a single run are summed over: lists say the seconds of a mean one.
export const devices = runs.length === 1 ? runs[0].devices || 1 : 1;
/** What stands beside sums over the devices of one run. */
export const togetherWords = devices > 1 ? ` Times here are sums over ${devices} devices.` : "";
const runStart = [];
export let rowCount = 0;
for (const run of runs) {
  runStart.push(rowCount);
  rowCount += run.rows;
}
export const runOf = new Int32Array(rowCount);
runs.forEach((run, r) => runOf.fill(r, runStart[r], runStart[r] + run.rows));

const numberCache = new Map();
const wordCache = new Map();

// Numbers of a column: a list, or the bytes of 32-bit floats in base64.
export function cellsOf(column) {
  if (column.v) return column.v;
  const text = atob(column.f);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = text.charCodeAt(k);
  return new Float32Array(bytes.buffer);
}

function each(name, absent, put) {
  runs.forEach((run, r) => {
    const column = run.columns[name];
    const cells = column === undefined || "c" in column ? null : cellsOf(column);
    for (let k = 0; k < run.rows; k++) {
      const value = column === undefined ? absent : cells ? cells[k] : column.c;
      put(runStart[r] + k, value);
    }
  });
}

// A column of numbers; `absent` is what a run without that column has.
export function numbers(name, absent = null) {
  if (!numberCache.has(name)) {
    const values = new Float64Array(rowCount);
    each(name, absent, (i, value) => { values[i] = value === null ? NaN : value; });
    numberCache.set(name, values);
  }
  return numberCache.get(name);
}

// A column of words: the different ones, and which of them each row has (-1: none).
export function words(name) {
  if (wordCache.has(name)) return wordCache.get(name);
  const dict = [];
  const place = new Map();
  const codes = new Int32Array(rowCount).fill(-1);
  // Words that were shortened for the page may look alike and still differ: within a run
  // the place counts, between runs the text.
  runs.forEach((run, r) => {
    const column = run.columns[name];
    if (column === undefined) return;
    const source = "c" in column ? (column.c === null ? [] : [column.c]) : column.d || [];
    const taken = new Set();
    const mapped = source.map((raw) => {
      const word = String(raw);
      let code = place.get(word);
      if (code === undefined || taken.has(code)) {
        code = dict.push(word) - 1;
        if (!place.has(word)) place.set(word, code);
      }
      taken.add(code);
      return code;
    });
    for (let k = 0; k < run.rows; k++) {
      const at = "c" in column ? (column.c === null ? -1 : 0) : column.i ? column.i[k] : -1;
      codes[runStart[r] + k] = at < 0 ? -1 : mapped[at];
    }
  });
  const result = { dict, codes };
  wordCache.set(name, result);
  return result;
}

export const word = (name, i) => {
  const column = words(name);
  return column.codes[i] < 0 ? null : column.dict[column.codes[i]];
};

export const amountNames = [...new Set(runs.flatMap((run) => run.amounts))];
const flopNames = amountNames.filter((a) => a.startsWith("flop/"));
// From the level next to the cores outwards.
export const byteNames = amountNames.filter((a) => a.startsWith("byte/")).sort((a, b) => Number(a === "byte/dram") - Number(b === "byte/dram") || a.localeCompare(b));
export const labelNames = [...new Set(runs.flatMap((run) => run.labels))];
// Calls as a tool recorded them, for counting: shapes and dtype say the same for people.
export const callLabels = [...new Set(runs.flatMap((run) => run.call_labels))];
export const saidLabels = labelNames.filter((name) => !callLabels.includes(name));
export const originNames = [...new Set(runs.flatMap((run) => run.origins))];
export const time = numbers("time_s");
export const calls = numbers("calls");
export const launches = numbers("launches");
export const bound = numbers("bound_s");
export const workBound = numbers("work_bound_s");
export const gap = numbers("gap_s");
export const idle = numbers("idle_before_s");
export const spread = numbers("time_spread");
export const elapsed = numbers("elapsed_s");
export const efficiency = numbers("efficiency");
export const kernelEfficiency = numbers("kernel_efficiency");
export const padding = numbers("padding_flops");
// All FLOPs, and those that have to be done: a convolution's padding is counted, not owed.
export const flops = numbers("total_flops");
export const owed = numbers("owed_flops");
export const seconds = (i) => time[i] || 0;

const PART_OF_KIND = { collective: "communication", copy: "copy", memset: "copy" };
/** The part of the run's time that a row counts in: communication, copies, else what limits it. */
export const partOf = (i) => PART_OF_KIND[word("kind", i)] ?? word("limit", i);

// Bytes at a level are unknown to a run that has no such column; FLOPs of a precision are none.
export const amountOf = (name, i) => numbers(name, name.startsWith("byte/") ? null : 0)[i];

// The unit of the operations of rows: FLOP, unless some are on integers.
export const integerNames = flopNames.filter(isInteger);
export const workUnit = (rows) => (integerNames.some((name) => rows.some((i) => amountOf(name, i) > 0)) ? "OP" : "FLOP");

const roofRate = (i, resource) => (runs[runOf[i]].roofs[resource] || [NaN])[0];
export const launchCost = (r) => (runs[r].roofs.launch ? 1 / runs[r].roofs.launch[0] : NaN);

// Bounds of a row: seconds per resource, largest first.
export const boundNames = [...new Set(runs.flatMap((run) => run.bounds))];
export const boundOf = (resource, i) => numbers(`bound.${resource}`)[i];
export function boundsOf(i) {
  return boundNames
    .map((resource) => ({ resource, seconds: boundOf(resource, i), rate: roofRate(i, resource) }))
    .filter((b) => known(b.seconds) && b.seconds > 0)
    .map((b) => ({ ...b, amount: b.seconds * b.rate }))
    .sort((a, b) => b.seconds - a.seconds);
}

// FLOPs per byte at a level; at DRAM it is the report's own column.
export const intensityOf = (level, i) => (level === "byte/dram" ? numbers("ai")[i] : owed[i] / amountOf(level, i));

export const limiterKind = (resource) => payload.kind_of_head[(resource || "").replace(/^pipe\//, "").split("/")[0]] || "unknown";

// The precision that most FLOPs of a row are in.
function precisionOf(i) {
  if (!known(flops[i])) return "unknown";
  if (flops[i] === 0) return "no FLOPs";
  return flopNames.reduce((best, name) => (amountOf(name, i) > amountOf(best, i) ? name : best)).slice(5);
}

function derivedWords(name, of) {
  const place = new Map();
  const codes = new Int32Array(rowCount);
  for (let i = 0; i < rowCount; i++) {
    const value = of(i);
    if (!place.has(value)) place.set(value, place.size);
    codes[i] = place.get(value);
  }
  wordCache.set(name, { dict: [...place.keys()], codes });
}
derivedWords("precision", precisionOf);
derivedWords("run", (i) => runs[runOf[i]].name);

// All rows, longest first.
export const byTime = Int32Array.from({ length: rowCount }, (_, i) => i);
if (runs.length > 1) byTime.sort((a, b) => seconds(b) - seconds(a) || a - b);

export const rowOfId = runs.map((run, r) => {
  const ids = numbers("id");
  const map = new Map();
  for (let k = 0; k < run.rows; k++) map.set(ids[runStart[r] + k], runStart[r] + k);
  return map;
});

// What rows can be coloured and grouped by, where it says anything.
const varies = (name) => words(name).dict.length > 0;
export const DIMENSIONS = /** @type {[string, string][]} */ ([
  ["limit", "limiter"], ["phase", "phase"], ["op", "op"], ["module", "module"], ["precision", "precision"],
  ["dtype", "dtype"], ["kind", "kind"], ["device", "device"], ["stream", "stream"], ["paper_class", "paper's class"],
  ...labelNames.map((name) => [`label.${name}`, name]),
]).filter(([name]) => varies(name) && (words(name).dict.length > 1 || ["limit", "precision"].includes(name)));
if (runs.length > 1) DIMENSIONS.unshift(["run", "run"]);
/** @type {(dimension: [string, string]) => boolean} */
const isUsual = ([name]) => !name.startsWith("label.") || DIMENSIONS.length < 9;
/** The dimensions as lists offer them: labels of files come last, under "more". */
export function sortedDimensions() {
  const further = DIMENSIONS.filter((dimension) => !isUsual(dimension));
  return [...DIMENSIONS.filter(isUsual), ...(further.length ? [[FURTHER, "more"], ...further] : [])];
}

// How the numbers of a row came about, where the page has it: title, value and words of each.
export const whyOf = (i) => (runs[runOf[i]].why || [])[i - runStart[runOf[i]]] || [];
