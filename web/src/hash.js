// A link to what is on the screen: the choices in the address, after "#/".
import { CHARTS } from "./charts.js";
import { KIND_WORDS } from "./colours.js";
import { columnOf } from "./columns.js";
import { DIMENSIONS, byteNames, numbers, rowOfId, runOf, runs } from "./data.js";
import { GROUPINGS } from "./groups.js";
import { state } from "./state.js";
import { setGroup, tableState } from "./table.js";

const PLAIN = ["tab", "colour", "level", "roof", "points", "search", "limiter"];
const FIRST = Object.fromEntries(PLAIN.map((key) => [key, state[key]]));
const MOST_ROWS = 60;

/** Choices that differ from those a page opens with. */
function hashOf() {
  const parts = new URLSearchParams();
  for (const key of PLAIN) if (state[key] !== FIRST[key] && state[key] !== null) parts.set(key, String(state[key]));
  if (state.minTime) parts.set("least", state.minTime.toPrecision(4));
  if (tableState.group !== "none") parts.set("group", tableState.group);
  if (tableState.sort !== "time_s" || !tableState.down) parts.set("sort", `${tableState.down ? "" : "-"}${tableState.sort}`);
  if (state.isolated && state.isolated.size <= MOST_ROWS) {
    parts.set("rows", [...state.isolated].map((i) => `${runOf[i]}:${numbers("id")[i]}`).join(","));
    parts.set("name", state.isolatedName);
  }
  const view = state.views[state.tab];
  if (view) parts.set("view", [...view.x, ...view.y].map((end) => end.toFixed(3)).join(","));
  const text = parts.toString();
  return text ? `#/${text}` : "";
}

// Written when a choice has settled, without a new entry in the history.
let pending = null;
export function writeHash() {
  clearTimeout(pending);
  pending = setTimeout(() => {
    const wanted = hashOf();
    const has = location.hash.startsWith("#/");
    if ((wanted || has) && location.hash !== wanted) history.replaceState(null, "", wanted || location.pathname + location.search);
  }, 150);
}

/** Take the choices of an address; one that names nothing of this page is left out. */
export function readHash() {
  if (!location.hash.startsWith("#/")) return false;
  const parts = new URLSearchParams(location.hash.slice(2));
  const allowed = {
    tab: CHARTS.map(([kind]) => kind), colour: DIMENSIONS.map(([name]) => name), level: byteNames, roof: [...Object.keys(runs[state.roofRun].roofs), "own"], points: ["groups", "rows"], limiter: Object.keys(KIND_WORDS),
  };
  for (const key of PLAIN) {
    const value = parts.get(key);
    if (value !== null && (!allowed[key] || allowed[key].includes(value))) state[key] = value;
  }
  const least = Number(parts.get("least"));
  if (least > 0) state.minTime = least;
  if (GROUPINGS.some(([name]) => name === parts.get("group"))) setGroup(parts.get("group"));
  const sort = parts.get("sort") || "";
  if (columnOf.has(sort.replace(/^-/, ""))) Object.assign(tableState, { sort: sort.replace(/^-/, ""), down: !sort.startsWith("-") });
  const rows = (parts.get("rows") || "").split(",").map((pair) => pair.split(":").map(Number)).map(([r, id]) => rowOfId[r]?.get(id)).filter((row) => row !== undefined);
  if (rows.length) Object.assign(state, { isolated: new Set(rows), isolatedName: parts.get("name") || `${rows.length} rows` });
  const view = (parts.get("view") || "").split(",").map(Number);
  if (view.length === 4 && view.every(Number.isFinite) && view[0] < view[1] && view[2] < view[3]) state.views = { [state.tab]: { x: view.slice(0, 2), y: view.slice(2) } };
  return true;
}
