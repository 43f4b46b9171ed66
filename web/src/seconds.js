// Where the seconds are: rows or groups by recoverable time, largest first.
import { css } from "./colours.js";
import { rowCount, sortedDimensions, togetherWords, word, words } from "./data.js";
import { byId, endThatFits, make, selectControl, shorten } from "./dom.js";
import { formatCount, formatPercent, formatSeconds, known } from "./format.js";
import { PATHS, groupRows, topLimiter } from "./groups.js";
import { isolate, light, shownRows, sums } from "./state.js";
import { rowHint, rowName } from "./tooltip.js";

const paretoState = { by: words("short_name").dict.length < 0.6 * rowCount ? "name" : "row", more: 15 };

function paretoEntries() {
  const groups = paretoState.by === "row" ? shownRows.map((i) => ({ label: rowName(i), hint: word("limit", i) === "unknown" ? `work not known, ${rowHint(i)}` : rowHint(i), rows: [i], total: sums([i]) })) : groupRows(shownRows, paretoState.by);
  return groups.filter((g) => known(g.total.gap) && g.total.gap > 0).sort((a, b) => b.total.gap - a.total.gap);
}

function paretoBar(entry, longestBar) {
  const width = (s) => `${Math.max(0, 100 * s / longestBar)}%`;
  const colour = css(`--${topLimiter(entry.rows)}`);
  return make("span", { class: "track" }, make("i", { class: "bound", style: { width: width(entry.total.settledElapsed - entry.total.gap), background: colour } }), make("i", { class: "gap", style: { width: width(entry.total.gap), backgroundColor: colour } }));
}

// Labels that are paths keep their ends, beside how many rows they have.
function fitPaths(list, entries) {
  const labels = [...list.querySelectorAll(".label")];
  const rooms = labels.map((label) => label.clientWidth - label.querySelector("small").offsetWidth - 2);
  labels.forEach((label, k) => { label.firstChild.textContent = endThatFits(entries[k].label, rooms[k], getComputedStyle(label).font); });
}

export function writePareto() {
  const list = byId("pareto");
  const entries = paretoEntries();
  const whole = entries.reduce((sum, e) => sum + e.total.gap, 0);
  const few = entries.slice(0, paretoState.more);
  const longestBar = Math.max(...few.map((e) => e.total.settledElapsed), 1e-12);
  let running = 0;
  list.replaceChildren(...few.map((entry) => {
    running += entry.total.gap;
    const text = `${entry.label}: gap ${formatSeconds(entry.total.gap)} of ${formatSeconds(entry.total.settledElapsed)}`;
    return make("li", {}, make("button", {
      type: "button", title: shorten(text, 400), "data-gap": entry.total.gap, onclick: () => isolate(entry.rows, entry.label),
      onpointerenter: () => light(entry.rows), onpointerleave: () => light([]), onfocus: () => light(entry.rows), onblur: () => light([]),
    }, make("span", { class: "label", dir: "auto" }, make("span", {}, shorten(entry.label, 120)), make("small", {}, entry.rows.length > 1 ? ` ${formatCount(entry.rows.length)} rows` : ` ${shorten(entry.hint || "", 80)}`)), paretoBar(entry, longestBar), make("span", { class: "num" }, formatSeconds(entry.total.gap)), make("span", { class: "num cum", title: "share of all recoverable time up to here" }, formatPercent(running / whole))));
  }));
  if (PATHS.has(paretoState.by)) fitPaths(list, few);
  if (entries.length > few.length) {
    list.append(make("li", {}, make("button", { type: "button", id: "pareto-more", onclick: () => { paretoState.more += 25; writePareto(); } }, `… and ${formatCount(entries.length - few.length)} more: ${formatSeconds(whole - running)}`)));
  }
  byId("pareto-words").textContent = entries.length ? `Solid: the bound. Hatched: the gap above it, what better kernels could save. Right: the gap and its share with all above.${togetherWords}` : "No gap is known.";
}

export function writeParetoControls() {
  byId("pareto-controls").replaceChildren(selectControl("By", [["row", "row"], ["name", "kernel"], ...sortedDimensions()], paretoState.by, (by) => { paretoState.by = by; paretoState.more = 15; writePareto(); }, "pareto-by"));
}
