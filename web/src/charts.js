// The chart on the page: drawn by plotly, lit and isolated by pointer and keys.
import { categories, css } from "./colours.js";
import { amountOf, byteNames, flops, rowCount, runs, seconds, time, word } from "./data.js";
import { announce, byId, make, shorten, soon } from "./dom.js";
import { levelButtons, whyEmpty } from "./empty.js";
import { formatCount, formatPercent, formatSeconds, known, resourceLabel } from "./format.js";
import { boxTrace, lineTrace, noteAt, p10 } from "./guides.js";
import { LEADS, markerSize, planeFigure } from "./planes.js";
import { LEVEL_SYMBOLS, rooflineFigure } from "./roofline.js";
import { allTime, filter, isolate, light, shownRows, state, sums } from "./state.js";
import { hideTooltip, limiterText, rowName, showTooltip } from "./tooltip.js";

export const CHARTS = [["combined", "Combined (4D)"], ["complexity", "Complexity plane"], ["time", "Time plane"], ["roofline", "Roofline"]];
export const chart = byId("chart");
export let current = null;
let litTrace = -1;
let keyAt = -1;

const escapeMarkup = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
export const narrow = () => chart.clientWidth < 560;

function margins(kind) {
  const second = kind === "combined" || kind === undefined;
  const roofline = kind === "roofline";
  if (narrow()) return { l: 52, r: second ? 62 : 12, t: second ? 46 : roofline ? 40 : 12, b: 44 };
  return { l: 76, r: second ? 78 : 20, t: second ? 56 : roofline ? 26 : 16, b: 52 };
}

function axisLayout(axis, range, more = {}) {
  const { title, shift = 0, ...ticks } = axis;
  return {
    type: "log", range: range.map((end) => end - shift), title: { text: title, font: { size: narrow() ? 11 : 13 }, standoff: 6 }, ...ticks,
    showgrid: false, zeroline: false, showline: true, linecolor: css("--line"), ticks: "outside", ticklen: 4, tickcolor: css("--line"),
    tickfont: { size: narrow() ? 10 : 12 }, tickangle: 0, automargin: false, ...more,
  };
}

// A place of the chart's data in pixels from its lower left corner.
export function pixelsIn({ range, width, height }) {
  return (mark) => [(Math.log10(mark[0]) - range.x[0]) / (range.x[1] - range.x[0]) * width, (Math.log10(mark[1]) - range.y[0]) / (range.y[1] - range.y[0]) * height];
}

// A label of a guide line gives way to symbols.
function clearNotes(figure) {
  const pixel = pixelsIn(figure.area);
  const symbols = figure.points.flatMap((p) => p.marks.map((mark) => [...pixel(mark), markerSize(p.share, figure.largest) / 2]));
  return figure.notes.filter((note) => {
    if (note.xanchor) return true;
    const [x, y] = pixel([p10(note.x), p10(note.y)]);
    return !symbols.some(([sx, sy, r]) => Math.hypot(sx - x, sy - y) < r + 12);
  });
}

// Names of the longest rows beside their symbols, where there is room.
function nameNotes(figure) {
  if (!state.names) return [];
  const { width, height } = figure.area;
  const pixel = pixelsIn(figure.area);
  const singles = figure.points.filter((p) => !p.merged).slice(0, 150);
  const taken = singles.map((p) => { const [x, y] = pixel(p.marks[figure.last]); const r = markerSize(p.share, figure.largest) / 2; return [x - r, y - r, x + r, y + r]; });
  for (const note of figure.notes.filter((n) => n.xref !== "paper")) {
    const [x, y] = pixel([p10(note.x), p10(note.y)]);
    const half = note.text.length * 2.9;
    taken.push(note.xanchor === "right" ? [x - 2.2 * half, y - 2, x, y + 16] : [x - half, y - 12, x + half, y + 12]);
  }
  const free = (box) => box[0] > 2 && box[2] < width - 2 && box[1] > 2 && box[3] < height - 2 && taken.every((o) => box[2] < o[0] || box[0] > o[2] || box[3] < o[1] || box[1] > o[3]);
  const notes = [];
  const seen = new Set();
  for (const p of singles.slice(0, 40)) {
    if (notes.length >= (narrow() ? 3 : 7)) break;
    const text = shorten(rowName(p.rows[0]), narrow() ? 18 : 30);
    if (seen.has(text)) continue;
    const [x, y] = pixel(p.marks[figure.last]);
    const r = markerSize(p.share, figure.largest) / 2 + 3;
    const w = text.length * 6.1 + 4;
    const spots = [[x + r, y - 8], [x - r - w, y - 8], [x - w / 2, y + r], [x - w / 2, y - r - 16]];
    const spot = spots.find(([left, low]) => free([left, low, left + w, low + 16]));
    if (!spot) continue;
    seen.add(text);
    taken.push([spot[0], spot[1], spot[0] + w, spot[1] + 16]);
    notes.push(noteAt(Math.log10(p.marks[figure.last][0]), Math.log10(p.marks[figure.last][1]), escapeMarkup(text), {
      xshift: spot[0] + w / 2 - x, yshift: spot[1] + 8 - y, font: { size: 11, color: css("--ink") }, bgcolor: css("--veil"), borderpad: 0, opacity: 1,
    }));
  }
  return notes;
}

function figureOf(kind) {
  const room = margins(kind);
  const size = { width: Math.max(80, chart.clientWidth - room.l - room.r), height: Math.max(80, chart.clientHeight - room.t - room.b) };
  return kind === "roofline" ? rooflineFigure(size) : planeFigure(kind, size);
}

export function draw() {
  if (!window.Plotly) return null;
  // Without a chart there is a message, which takes less room than the next chart.
  if (!current) chart.textContent = "";
  const figure = figureOf(state.tab);
  byId("chart-lead").textContent = LEADS[state.tab];
  const message = figure.message || whyEmpty(figure);
  if (message) {
    current = null;
    Plotly.purge(chart);
    chart.replaceChildren(make("p", { class: "empty" }, message), ...(figure.message ? [] : levelButtons()));
    byId("chart-words").textContent = "";
    return null;
  }
  current = figure;
  figure.notes = clearNotes(figure);
  current.pointOf = new Map();
  figure.points.forEach((p, k) => p.rows.forEach((row) => current.pointOf.set(row, k)));
  const { axes, range } = figure;
  const traces = figure.traces.concat(litTraces());
  litTrace = figure.traces.length;
  const layout = {
    width: chart.clientWidth, height: chart.clientHeight, margin: margins(figure.kind), paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", hoverdistance: 12, showlegend: false, dragmode: state.drag === "none" ? false : state.drag,
    font: { family: getComputedStyle(document.body).fontFamily, color: css("--ink") }, selections: [],
    newselection: { line: { color: css("--accent"), width: 1.5 } },
    xaxis: axisLayout(axes.x, range.x), yaxis: axisLayout(axes.y, range.y), annotations: figure.notes.concat(nameNotes(figure)),
  };
  if (axes.x2) {
    traces.push({ type: "scatter", x: [1], y: [1], xaxis: "x2", yaxis: "y2", mode: "markers", marker: { opacity: 0 }, hoverinfo: "skip", showlegend: false });
    layout.xaxis2 = axisLayout(axes.x2, range.x, { overlaying: "x", side: "top", anchor: "y", fixedrange: true });
    layout.yaxis2 = axisLayout(axes.y2, range.y, { overlaying: "y", side: "right", anchor: "x", fixedrange: true });
  }
  const first = !chart.data;
  const drawn = Plotly.react(chart, traces, layout, { displayModeBar: false, doubleClick: false, showTips: false, responsive: false, scrollZoom: false, displaylogo: false });
  if (first) listen();
  writeWords(figure);
  return drawn;
}

// The lit row: rings around its symbols, their segment, and its launch box.
function litTraces() {
  const marks = [[], []];
  const colour = css("--ink");
  let box = [[], []];
  for (const row of state.lit.slice(0, 200)) {
    const p = current && current.points[current.pointOf.get(row)];
    if (!p) continue;
    p.marks.forEach((mark) => { marks[0].push(mark[0]); marks[1].push(mark[1]); });
    marks[0].push(null);
    marks[1].push(null);
    if (state.lit.length === 1 && state.boxes && current.kind !== "roofline" && known(current.roofs.t0 * current.roofs.beta * current.roofs.peak) && p.n > 0) {
      const b = boxTrace(p.n, current.roofs, current.area, current.kind === "time", colour, 1.6);
      box = [b.x, b.y];
    }
  }
  return [
    { ...lineTrace(box[0], box[1], colour, 1.6, "5px,4px"), opacity: 0.8 },
    { type: "scatter", mode: "lines+markers", x: marks[0], y: marks[1], hoverinfo: "skip", showlegend: false, line: { color: colour, width: 1.6 },
      marker: { size: 15, symbol: "circle-open", color: colour, line: { width: 2.2 } } },
  ];
}

export function drawLit() {
  if (!current) return;
  const [box, marks] = litTraces();
  Plotly.restyle(chart, { x: [box.x, marks.x], y: [box.y, marks.y] }, [litTrace, litTrace + 1]);
}

const pointName = (p) => (p.rows.length > 1 ? `${formatCount(p.rows.length)} small rows` : rowName(p.rows[0]));

function listen() {
  const pointAt = (event) => {
    const hit = event.points.find((point) => point.customdata !== undefined);
    return hit && current ? current.points[hit.customdata] : null;
  };
  chart.on("plotly_hover", (event) => {
    const p = pointAt(event);
    if (!p) return;
    keyAt = current.points.indexOf(p);
    light(p.rows);
    showTooltip(p.rows, event.event.clientX, event.event.clientY);
  });
  chart.on("plotly_unhover", () => { hideTooltip(); light([]); });
  chart.on("plotly_click", (event) => {
    const p = pointAt(event);
    if (p) isolate(p.rows, pointName(p));
  });
  chart.on("plotly_selected", (event) => {
    if (!event || !event.points || !event.points.length) return;
    const rows = event.points.filter((point) => point.customdata !== undefined).flatMap((point) => current.points[point.customdata].rows);
    if (rows.length) filter({ box: new Set(rows) });
  });
  chart.on("plotly_doubleclick", () => { delete state.views[current.kind]; draw(); });
  chart.on("plotly_relayout", (change) => {
    const { xaxis, yaxis } = chart.layout;
    if (!current || !Object.keys(change).some((key) => /^[xy]axis\.range/.test(key))) return;
    state.views[current.kind] = { x: [...xaxis.range], y: [...yaxis.range] };
    soon("draw", draw);
  });
}

// Where a point's last symbol is in the window.
export function pixelOf(p) {
  const { left, top } = chart.getBoundingClientRect();
  const room = margins(current.kind);
  const [x, y] = p.marks[current.last].map(Math.log10);
  const { range, width, height } = current.area;
  return [left + room.l + (x - range.x[0]) / (range.x[1] - range.x[0]) * width, top + room.t + (1 - (y - range.y[0]) / (range.y[1] - range.y[0])) * height];
}

// Arrow keys go through the points by time.
export function chartKeys() {
  chart.addEventListener("keydown", (event) => {
    if (!current || !current.points.length) return;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      keyAt = (keyAt + step + current.points.length) % current.points.length;
      const p = current.points[keyAt];
      light(p.rows);
      showTooltip(p.rows, ...pixelOf(p));
      announce(`${pointName(p)}, ${formatSeconds(p.share)}, ${limiterText(p.rows[0])}`);
    } else if (event.key === "Enter" && keyAt >= 0 && current.points[keyAt]) {
      event.preventDefault();
      isolate(current.points[keyAt].rows, pointName(current.points[keyAt]));
    }
  });
  chart.addEventListener("blur", () => { hideTooltip(); light([]); });
}

// What the chart does not show, in words.
function writeWords(figure) {
  const share = (rows) => `${formatCount(rows.length)} ${rows.length === 1 ? "row" : "rows"}, ${formatPercent(sums(rows).time / allTime)} of the time`;
  const texts = shownRows.length ? [] : ["No row is selected: take a filter away."];
  const merged = figure.points.filter((p) => p.merged);
  if (merged.length) {
    const inside = merged.flatMap((p) => p.rows);
    texts.push(`The longest ${formatCount(figure.points.length - merged.length)} rows are drawn one by one; ${formatCount(inside.length)} shorter ones (${formatPercent(sums(inside).time / allTime)} of the time) are merged into ${formatCount(merged.length)} ${figure.kind === "roofline" ? "hexagons" : "squares"}.`);
  }
  const flopless = figure.flopless || [];
  if (flopless.length) texts.push(`Without FLOPs and so not here: ${share(flopless)}; the planes show them.`);
  const level = state.level ? resourceLabel(state.level) : "memory";
  if (figure.byteless && figure.byteless.length) texts.push(`Without bytes at ${level} and so not here: ${share(figure.byteless)}; the planes show them.`);
  const workless = (i) => time[i] > 0 && flops[i] === 0 && state.level && amountOf(state.level, i) === 0;
  const instant = figure.lost.filter((i) => time[i] === 0);
  const [none, unknown] = [figure.lost.filter(workless), figure.lost.filter((i) => time[i] !== 0 && !workless(i))];
  if (none.length) texts.push(`Not drawn, as ${none.length === 1 ? "it has" : "they have"} neither FLOPs nor bytes at ${level}: ${share(none)}.`);
  if (instant.length) texts.push(`Not drawn, as no time was measured for ${instant.length === 1 ? "it" : "them"}: ${formatCount(instant.length)} ${instant.length === 1 ? "row" : "rows"}.`);
  if (unknown.length) texts.push(`Not drawn, as FLOPs, bytes at ${level} or time are not known: ${share(unknown)}.`);
  if (figure.kind === "combined" && figure.points.some((p) => p.F === 0)) texts.push("▼ on the dotted line: no FLOPs.");
  const above = figure.points.filter((p) => !p.merged && word("above_roof", p.rows[0])).length;
  if (above) texts.push(`Ringed: ${formatCount(above)} above ${above === 1 ? "its" : "their"} roof.`);
  if (state.boxes && figure.kind !== "roofline" && known(figure.roofs.t0)) texts.push(`Dashed: what fits into the launches alone, ${formatSeconds(figure.roofs.t0)} each.`);
  const drawn = byteNames.filter((name) => name === state.level || figure.points.some((p) => p.rows.some((i) => amountOf(name, i) > 0)));
  if (figure.kind === "roofline" && state.allLevels && drawn.length > 1) texts.push(`Symbols: ${drawn.map((name) => `${{ "triangle-up": "△", square: "□", diamond: "◇", circle: "○" }[LEVEL_SYMBOLS[name]]}\u00a0${resourceLabel(name)}`).join(", ")}; the filled one is ${resourceLabel(state.level)}.`);
  const machines = new Set(runs.map((run) => run.machine));
  if (machines.size > 1) texts.push(`The runs were judged on different machines; the axes use the roofs of ${runs[state.roofRun].machine || "the first"}, limiters and gaps each run's own.`);
  byId("chart-words").textContent = texts.join(" ");
}

export function writeLegend() {
  const category = categories(state.colour);
  const legend = byId("legend");
  legend.textContent = "";
  const time_s = new Map();
  for (let i = 0; i < rowCount; i++) time_s.set(category.of(i), (time_s.get(category.of(i)) || 0) + seconds(i));
  for (const name of category.names) {
    const shownNow = !state.hidden.has(name);
    legend.append(make("button", {
      type: "button", "aria-pressed": shownNow ? "true" : "false", title: category.label(name),
      onclick: () => {
        const hidden = new Set(state.hidden);
        if (hidden.has(name)) hidden.delete(name);
        else hidden.add(name);
        filter({ hidden });
        [...legend.children][category.names.indexOf(name)].focus();
      },
    }, make("i", { style: { background: category.colour(name) } }), make("span", { class: "label" }, shorten(category.label(name), 60)), make("small", {}, formatPercent((time_s.get(name) || 0) / allTime))));
  }
}
