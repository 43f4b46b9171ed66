// Beside the chart: how to read it, what the colours and symbols mean, and the time that it cannot show.
import { chart } from "./charts.js";
import { LOOK, categories, partColour } from "./colours.js";
import { amountOf, devices, flops, rowCount, runs, seconds, time, word } from "./data.js";
import { byId, make, shorten } from "./dom.js";
import { formatCount, formatPercent, formatSeconds } from "./format.js";
import { recall, remember } from "./memory.js";
import { discSize } from "./plane.js";
import { allTime, filter, isolate, light, look, state, sums } from "./state.js";
import { shape, symbolPath } from "./svg.js";

/** A symbol as the chart draws it. */
const sign = (symbol, paint, open = false, hatched = false, size = 16) => shape("svg", { class: `sign${hatched ? " hatched" : ""}`, width: size, height: size, viewBox: `0 0 ${size} ${size}`, "aria-hidden": "true" },
  shape("path", { d: symbolPath(symbol, size / 2, size / 2, size * 0.34), style: open ? { fill: "var(--sheet)", stroke: paint, strokeWidth: 2 } : { fill: paint } }));

// Pointing at a part of the legend shows that part of the chart alone.
function emphasise(element, part) {
  const set = (on) => { chart.dataset.only = on ? part : ""; };
  for (const event of ["pointerenter", "focus"]) element.addEventListener(event, () => set(true));
  for (const event of ["pointerleave", "blur"]) element.addEventListener(event, () => set(false));
  return element;
}

// Round times whose discs show what area means.
function sizeSamples(largest) {
  const top = 10 ** Math.floor(Math.log10(largest));
  return [top, top / 10].filter((t) => t > 0).map((t) => ({ text: formatSeconds(t, 1), size: discSize(t, largest) }));
}

function readingList(figure) {
  const item = (mark, text, part) => emphasise(make("li", { tabindex: 0, "data-part": part }, mark, make("span", {}, text)), part);
  const discs = sizeSamples(figure.largest || 1);
  const room = Math.ceil(discs[0].size) + 2;
  const samples = shape("svg", { class: "sign", width: room, height: room, "aria-hidden": "true" }, ...discs.map(({ size }) => shape("path", { d: symbolPath("circle", room / 2, room - 1 - size / 2, size / 2), style: { fill: "none", stroke: "var(--soft)" } })));
  const area = item(samples, `area is time: ${discs.map(({ text }) => text).join(" and ")}`, "discs");
  if (figure.kind !== "combined") return [area];
  return [
    item(sign("circle", "var(--soft)", true), "ring: the work it has to do", "rings"), item(sign("circle", "var(--soft)"), "disc: the time it took", "discs"), area,
    item(shape("svg", { class: "sign", width: 16, height: 16, "aria-hidden": "true" }, shape("path", { d: "M2,14L14,2", style: { stroke: "var(--soft)", strokeWidth: 2.4 } })), "line: lost time", "segments"),
  ];
}

/** @type {[string, (i: number) => boolean][]} */
const WHY_LOST = [
  ["communication", (i) => word("kind", i) === "collective"],
  ["copies", (i) => word("kind", i) === "copy" || word("kind", i) === "memset"],
  ["no time measured", (i) => time[i] === 0],
  ["neither FLOPs nor bytes here", (i) => time[i] > 0 && flops[i] === 0 && Boolean(state.level) && amountOf(state.level, i) === 0],
  ["no FLOP or byte count", () => true],
];

// What has no place on the chart, as bars of one scale: all of the time is the whole width.
function writeStrip(lost, partly) {
  const box = byId("strip");
  const parts = WHY_LOST.map(([text]) => ({ text, rows: [] }));
  const inDiscs = sums(partly);
  for (const i of lost) parts[WHY_LOST.findIndex(([, is]) => is(i))].rows.push(i);
  const filled = parts.filter(({ rows }) => rows.length).map((part) => ({ ...part, time: sums(part.rows).time })).sort((a, b) => b.time - a.time);
  const told = inDiscs.time > 0 ? partly : [];
  box.hidden = !filled.length && !told.length;
  if (box.hidden) return;
  const whole = filled.reduce((sum, part) => sum + part.time, 0);
  box.replaceChildren(...(filled.length ? [make("h3", {}, `Not on this chart: ${formatPercent(whole / allTime)} of the run`), make("ul", {}, ...filled.map((part) => make("li", {}, make("button", {
    type: "button", title: `Show only these ${formatCount(part.rows.length)} rows`, onclick: () => isolate(part.rows, part.text), onpointerenter: () => light(part.rows), onpointerleave: () => light([]),
  }, make("span", { class: "strip-name" }, part.text), make("span", { class: "strip-time" }, formatSeconds(part.time / devices)), make("span", { class: "strip-track" }, make("i", { style: { width: `${Math.min(100, 100 * part.time / allTime)}%` } })), make("small", {}, `${formatCount(part.rows.length)} ${part.rows.length === 1 ? "row" : "rows"}, ${formatPercent(part.time / allTime)}`)))))] : []), ...(told.length ? [make("p", { class: "partly soft" }, `${formatSeconds(inDiscs.time / devices)} (${formatPercent(inDiscs.time / allTime)}) in ${formatCount(told.length)} rows ${told.length === 1 ? "has" : "have"} no FLOP or byte count: in the size of ${told.length === 1 ? "its" : "their"} kernel's disc, not in its place. `, make("button", { type: "button", class: "inline", onclick: () => isolate(told, "no FLOP or byte count") }, "Show"))] : []));
}

// What the side was written for: zooming keeps it, and the element that a pointer is over.
let sideOf = null;
/** @param {any} figure */
export function writeSide(figure) {
  const from = figure ? [figure.kind, figure.largest, figure.width < 560, state.example, figure.points.length > 0, figure.lost, figure.partly] : [null];
  if (sideOf && from.length === sideOf.length && from.every((one, k) => one === sideOf[k])) return;
  sideOf = from;
  const list = byId("reading");
  list.replaceChildren(...(figure && figure.points.length ? readingList(figure) : []));
  const button = byId("example-switch");
  button.hidden = !figure || figure.kind !== "combined" || figure.width < 560;
  button.setAttribute("aria-pressed", state.example ? "true" : "false");
  button.textContent = state.example ? "✕ Hide the example" : "Show an example";
  writeStrip(figure ? figure.lost : [], figure?.partly || []);
}

export function exampleSwitch() {
  state.example = recall("example") !== "off";
  byId("example-switch").addEventListener("click", () => {
    remember("example", state.example ? "off" : "on");
    look({ example: !state.example });
  });
}

const LEGEND_TITLES = { limit: "Limited by: share of the run" };

export function writeLegend() {
  const category = categories(state.colour);
  const legend = byId("legend");
  legend.textContent = "";
  const [time_s, rowsOf] = [new Map(), new Map()];
  for (let i = 0; i < rowCount; i++) {
    const name = category.of(i);
    time_s.set(name, (time_s.get(name) || 0) + seconds(i));
    if (!rowsOf.has(name)) rowsOf.set(name, []);
    if (rowsOf.get(name).length < 2000) rowsOf.get(name).push(i);
  }
  byId("legend-title").textContent = LEGEND_TITLES[state.colour] || "Share of the run";
  // What limits the run: the parts of the bar on the first screen, and their shares.
  const steps = runs.reduce((sum, run) => sum + Object.values(run.parts).reduce((all, s) => all + s, 0), 0);
  const longest = Math.max(0, ...runs.flatMap((run) => Object.values(run.parts)));
  // Shares of the profiled step where a part of it is longer than the whole step.
  const whole = longest > steps ? runs.reduce((sum, run) => sum + Object.values(run.parts).reduce((all, s) => all + Math.max(0, s), 0), 0) : steps;
  const shareOf = (name) => (state.colour === "limit" && whole > 0 ? runs.reduce((sum, run) => sum + (run.parts[name] || 0), 0) / whole : (time_s.get(name) || 0) / allTime);
  for (const name of category.names) {
    const shownNow = !state.hidden.has(name);
    const symbol = state.colour === "limit" ? LOOK.symbols[name] || "circle" : "circle";
    legend.append(make("button", {
      type: "button", "aria-pressed": shownNow ? "true" : "false", title: `${shownNow ? "Hide" : "Show"} ${category.label(name)}`,
      onpointerenter: () => light(rowsOf.get(name) || []), onpointerleave: () => light([]),
      onclick: () => {
        const hidden = new Set(state.hidden);
        if (hidden.has(name)) hidden.delete(name);
        else hidden.add(name);
        filter({ hidden });
        legend.querySelectorAll("button")[category.names.indexOf(name)].focus();
      },
    }, sign(symbol, state.colour === "limit" ? `var(${partColour(name)})` : category.colour(name), false, state.colour === "limit" && name === "unknown"), make("span", { class: "name" }, shorten(category.label(name), 60)), make("small", {}, formatPercent(shareOf(name)))));
  }
}
