// Rows in groups: sums, the limiter that holds most seconds, and the bound of the summed amounts.
import { KIND_WORDS } from "./colours.js";
import { sharedWord, sumOf } from "./columns.js";
import { DIMENSIONS, boundOf, partOf, runOf, runs, seconds, word, words } from "./data.js";
import { known } from "./format.js";
import { sums } from "./state.js";
import { rowName } from "./tooltip.js";

/** What the table can be grouped by: the column, and what it is called.
 * @type {[string, string][]} */
export const GROUPINGS = [["none", "no grouping"], ["name", "kernel"], ...DIMENSIONS];
// Words whose end tells them apart, as their beginning is that of many.
export const PATHS = new Set(["module", "label.source"]);

export function groupRows(list, dimension) {
  // A kernel is called as the first screen calls it, whatever its template's arguments are.
  const column = words(dimension === "name" ? "short_name" : dimension);
  const found = new Map();
  for (const i of list) {
    const code = column.codes[i];
    if (found.has(code)) found.get(code).push(i);
    else found.set(code, [i]);
  }
  return [...found].map(([code, rows]) => ({ key: `${dimension}:${code}`, label: groupLabel(dimension, column, code, rows), rows, hint: "", total: sums(rows) }));
}

function groupLabel(dimension, column, code, rows) {
  const own = code < 0 ? "" : column.dict[code];
  if (!own.trim()) return `(no ${new Map(GROUPINGS).get(dimension)})`;
  if (dimension === "limit") return KIND_WORDS[own];
  return (dimension === "name" && sharedWord(rows, rowName)) || own;
}

// The word with most of the seconds of some rows.
function longestOf(rows, of) {
  const held = new Map();
  for (const i of rows) held.set(of(i), (held.get(of(i)) || 0) + seconds(i));
  return [...held].sort((a, b) => b[1] - a[1])[0][0];
}
export const topLimiter = (rows) => longestOf(rows, (i) => word("limit", i));
export const largestPart = (rows) => longestOf(rows, partOf);

// The least time of all the work of some rows done as one kernel per run, launches kept: the one
// bound that the page works out itself, as nobody knows beforehand which rows are picked.
// Everything overlaps, but for launching where the caller itself runs the kernels.
export function boundOfSums(rows) {
  let whole = NaN;
  runs.forEach((run, r) => {
    const mine = rows.filter((i) => runOf[i] === r);
    const summed = (resource) => sumOf(mine, (i) => boundOf(resource, i));
    const busy = run.bounds.filter((resource) => resource !== "launch").map(summed).filter(known);
    const launching = run.bounds.includes("launch") ? [summed("launch")].filter(known) : [];
    if (!busy.length && !launching.length) return;
    const [work, launch] = [Math.max(0, ...busy), Math.max(0, ...launching)];
    whole = (known(whole) ? whole : 0) + (run.synchronous ? work + launch : Math.max(work, launch));
  });
  return whole;
}
