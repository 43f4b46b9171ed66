// The chart on the page: drawn, lit and isolated by pointer and keys.
import { amountOf, byteNames, runs } from "./data.js";
import { announce, around, byId, make, soon } from "./dom.js";
import { levelButtons, whyEmpty } from "./empty.js";
import { formatCount, formatPercent, formatSeconds, known, resourceLabel } from "./format.js";
import { cornerPath } from "./plane.js";
import { LEADS, planeFigure } from "./planes.js";
import { drawLitPoints, drawScene, pixelsOf, pointAt } from "./plot.js";
import { LEVEL_SYMBOLS, rooflineFigure } from "./roofline.js";
import { writeSide } from "./side.js";
import { allTime, filter, isolate, light, look, shownRows, state, sums } from "./state.js";
import { shape } from "./svg.js";
import { hideTooltip, limiterText, showTooltip } from "./tooltip.js";

export const CHARTS = [["combined", "Overview"], ["complexity", "Work"], ["time", "Time"], ["roofline", "Roofline"]];
export const CHART_HINTS = { combined: "Work and time in one chart (the paper's 4D chart)", complexity: "Bytes and FLOPs (the paper's complexity plane)", time: "The time plane", roofline: "The classic roofline" };
export const chart = byId("chart");
export let current = null;
let plot = null;
let keyAt = -1;

/** @type {(kind: string, size: { width: number, height: number }) => any} */
const figureOf = (kind, size) => (kind === "roofline" ? rooflineFigure(size) : planeFigure(kind, size));

export function draw() {
  const figure = figureOf(state.tab, { width: chart.clientWidth, height: parseFloat(getComputedStyle(chart).getPropertyValue("--chart-height")) || 600 });
  byId("chart-lead").textContent = LEADS[state.tab];
  const message = figure.message || whyEmpty(figure);
  if (message) {
    current = null;
    plot = null;
    chart.replaceChildren(make("p", { class: "empty" }, message), ...(figure.message ? [] : levelButtons()));
    byId("chart-words").textContent = "";
    writeSide(figure.message ? null : figure);
    return;
  }
  if (!current) chart.replaceChildren();
  current = figure;
  plot = drawScene(chart, figure);
  drawLit();
  writeSide(figure);
  byId("chart-words").textContent = wordsOf(figure);
  writeBadge(figure);
}

// Which point a row is in. Zooming moves the axes and keeps the points: they are not asked again.
const pointCache = { points: null, of: null };
function pointOfRow(row) {
  if (pointCache.points !== current.points) {
    const of = new Map();
    current.points.forEach((p) => p.rows.forEach((one) => of.set(one, p)));
    Object.assign(pointCache, { points: current.points, of });
  }
  return pointCache.of.get(row);
}

// What lies outside of the axes, below the chart; pressing it shows everything.
function writeBadge(figure) {
  const outside = figure.outside.length > 0;
  if (!outside && !(state.everything && figure.kind !== "roofline")) return;
  const noun = figure.grouped ? "kernel" : "row";
  const many = `${formatCount(figure.outside.length)} ${noun}${figure.outside.length === 1 ? "" : "s"}`;
  const share = figure.outside.reduce((sum, p) => sum + p.share, 0) / allTime;
  const text = outside ? `◣ ${many} outside, ${formatPercent(share)} of the time` : "Fit the axes to 99 % of the time";
  byId("chart-words").prepend(make("button", { type: "button", class: "edge-badge", title: outside ? "Show everything" : "", onclick: () => look({ everything: outside, views: {} }) }, text));
}

// The lit row: rings around its symbols, their segment, and its launch corner.
export function drawLit() {
  if (!current || !plot) return;
  const points = [...new Set(state.lit.slice(0, 2000).map(pointOfRow).filter(Boolean))].slice(0, 200);
  const single = points.length === 1 && state.boxes && current.kind !== "roofline" && known(current.roofs.t0 * current.roofs.beta * current.roofs.peak) && points[0].n > 0;
  drawLitPoints(plot, current, points, single ? [{ path: cornerPath(points[0].n, current.roofs, current.kind, current.range), dash: "5 4" }] : []);
}

function pointName(p) {
  if (p.merged || p.rows.length === 1) return p.name;
  return `${p.name}, ${formatCount(p.rows.length)} rows`;
}

/** @type {(event: MouseEvent) => [number, number]} */
const placeIn = (event) => { const { left, top } = plot.getBoundingClientRect(); return [event.clientX - left, event.clientY - top]; };
const isInArea = ([x, y]) => x >= current.margin.l && x <= current.width - current.margin.r && y >= current.margin.t && y <= current.height - current.margin.b;

// A place of the chart in powers of ten.
function valueAt([x, y]) {
  const { margin, range, width, height } = current;
  return [range.x[0] + (x - margin.l) / (width - margin.l - margin.r) * (range.x[1] - range.x[0]), range.y[0] + (1 - (y - margin.t) / (height - margin.t - margin.b)) * (range.y[1] - range.y[0])];
}

/** @type {(corners: [number, number][], place: [number, number]) => boolean} */
function isWithin(corners, [x, y]) {
  let inside = false;
  corners.forEach(([ax, ay], k) => {
    const [bx, by] = corners[(k + corners.length - 1) % corners.length];
    if ((ay > y) !== (by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax) inside = !inside;
  });
  return inside;
}

function zoomTo(a, b) {
  const [from, to] = [valueAt(a), valueAt(b)];
  const sortedPair = (k) => [Math.min(from[k], to[k]), Math.max(from[k], to[k])];
  look({ views: { ...state.views, [current.kind]: { x: sortedPair(0), y: sortedPair(1) } } });
}

function selectWithin(corners) {
  const pixel = pixelsOf(current);
  const rows = current.points.filter((p) => isWithin(corners, pixel(p.marks[current.last]))).flatMap((p) => p.rows);
  if (rows.length) filter({ box: new Set(rows) });
}

/** @type {(a: number[], b: number[]) => [number, number][]} */
const rectangle = ([ax, ay], [bx, by]) => [[ax, ay], [bx, ay], [bx, by], [ax, by]];
/** @type {any} */
let drag = null;

function dragMove(event) {
  const at = placeIn(event);
  drag.moved ||= Math.hypot(at[0] - drag.from[0], at[1] - drag.from[1]) > 4;
  if (!drag.moved) return;
  hideTooltip();
  if (state.drag === "pan") {
    const [from, to] = [valueAt(drag.from), valueAt(at)];
    const moved = (axis, k) => drag.range[axis].map((end) => end - (to[k] - from[k]));
    drag.view = { x: moved("x", 0), y: moved("y", 1) };
    soon("pan", () => { if (drag?.view) look({ views: { ...state.views, [current.kind]: drag.view } }); });
    return;
  }
  drag.path.push(at);
  const corners = state.drag === "lasso" ? drag.path : rectangle(drag.from, at);
  plot.querySelector(".dragged").replaceWith(shape("path", { class: "dragged", d: `M${corners.map((c) => c.join(",")).join("L")}Z` }));
}

function dragEnd(event) {
  const { moved, from, path } = drag;
  drag = null;
  plot.querySelector(".dragged").setAttribute("d", "");
  if (!moved) {
    const p = pointAt(current, from[0], from[1]);
    if (p) isolate(p.rows, pointName(p));
    return;
  }
  const to = placeIn(event);
  if (state.drag === "zoom") zoomTo(from, to);
  else if (state.drag !== "pan") selectWithin(state.drag === "lasso" ? path : rectangle(from, to));
}

function hoverAt(event) {
  const p = isInArea(placeIn(event)) ? pointAt(current, ...placeIn(event)) : null;
  chart.style.cursor = p ? "pointer" : "";
  if (!p) {
    hideTooltip();
    light([]);
    return;
  }
  keyAt = current.points.indexOf(p);
  light(p.rows);
  showTooltip(p.rows, event.clientX, event.clientY, p);
}

export function chartPointer() {
  chart.addEventListener("pointermove", (event) => {
    if (!plot) return;
    if (drag) dragMove(event);
    else if (event.pointerType !== "touch") hoverAt(event);
  });
  chart.addEventListener("pointerleave", () => { if (!drag) { hideTooltip(); light([]); } });
  chart.addEventListener("pointerdown", (event) => {
    if (!plot || event.button !== 0 || around(event, "button") || !isInArea(placeIn(event))) return;
    if (event.pointerType === "touch") { hoverAt(event); return; }
    if (state.drag === "none") { drag = { from: placeIn(event), path: [], moved: false, range: current.range }; return; }
    event.preventDefault();
    chart.focus({ preventScroll: true });
    drag = { from: placeIn(event), path: [placeIn(event)], moved: false, range: { x: [...current.range.x], y: [...current.range.y] } };
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener("pointerup", (event) => { if (drag && plot) dragEnd(event); });
  chart.addEventListener("pointercancel", () => { drag = null; });
  chart.addEventListener("dblclick", () => { if (current) look({ views: { ...state.views, [current.kind]: undefined } }); });
  chart.addEventListener("wheel", (event) => {
    if (!plot || !(event.ctrlKey || event.metaKey) || !isInArea(placeIn(event))) return;
    event.preventDefault();
    const [x, y] = valueAt(placeIn(event));
    const factor = event.deltaY > 0 ? 1.2 : 1 / 1.2;
    const around_ = ([low, high], at) => [at - (at - low) * factor, at + (high - at) * factor];
    look({ views: { ...state.views, [current.kind]: { x: around_(current.range.x, x), y: around_(current.range.y, y) } } });
  }, { passive: false });
}

// Where a point's last symbol is in the window.
export function pixelOf(p) {
  const { left, top } = plot.getBoundingClientRect();
  const [x, y] = pixelsOf(current)(p.marks[current.last]);
  return [left + x, top + y];
}

// Arrow keys go through the points by time.
export function chartKeys() {
  chart.addEventListener("keydown", (event) => {
    if (!current || !current.points.length || event.target !== chart) return;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      keyAt = (keyAt + step + current.points.length) % current.points.length;
      const p = current.points[keyAt];
      light(p.rows);
      const [x, y] = pixelOf(p);
      showTooltip(p.rows, x, y, p);
      announce(`${pointName(p)}, ${formatSeconds(p.share)}, ${limiterText(p.rows[0])}`);
    } else if (event.key === "Enter" && keyAt >= 0 && current.points[keyAt]) {
      event.preventDefault();
      isolate(current.points[keyAt].rows, pointName(current.points[keyAt]));
    }
  });
  chart.addEventListener("blur", () => { hideTooltip(); light([]); });
}

// What the chart leaves out or merges, in words.
function wordsFor(figure) {
  const share = (rows) => `${formatCount(rows.length)} ${rows.length === 1 ? "row" : "rows"}, ${formatPercent(sums(rows).time / allTime)} of the time`;
  const texts = shownRows.length ? [] : ["No row is selected: take a filter away."];
  const merged = figure.points.filter((p) => p.merged);
  if (merged.length) {
    const inside = merged.flatMap((p) => p.rows);
    texts.push(`The longest ${formatCount(figure.points.length - merged.length)} are drawn one by one. ${formatCount(inside.length)} shorter ones (${formatPercent(sums(inside).time / allTime)} of the time) are merged into ${formatCount(merged.length)} hexagons.`);
  }
  if (figure.flopless?.length) texts.push(`Not here, as they have no FLOPs: ${share(figure.flopless)}. The other charts show them.`);
  const level = state.level ? resourceLabel(state.level) : "memory";
  if (figure.byteless?.length) texts.push(`Not here, as they move no bytes at ${level}: ${share(figure.byteless)}. The other charts show them.`);
  if (figure.kind !== "roofline" && figure.points.some((p) => p.F === 0)) texts.push("On the dotted line: kernels without FLOPs.");
  const above = figure.points.filter((p) => p.flagged).length;
  if (above) texts.push(`Black outline: ${formatCount(above)} above ${above === 1 ? "its" : "their"} roof.`);
  const drawn = byteNames.filter((name) => name === state.level || figure.points.some((p) => p.rows.some((i) => amountOf(name, i) > 0)));
  if (figure.kind === "roofline" && state.allLevels && drawn.length > 1) texts.push(`Filled symbols: ${resourceLabel(state.level)}. Open symbols: ${drawn.filter((name) => name !== state.level).map((name) => `${{ triangle: "△", square: "□", diamond: "◇", circle: "○" }[LEVEL_SYMBOLS[name]]}\u00a0${resourceLabel(name)}`).join(", ")}.`);
  const machines = new Set(runs.map((run) => run.machine));
  if (machines.size > 1) texts.push(`The runs were judged on different machines. The axes use the roofs of ${runs[state.roofRun].machine || "the first"}, limiters and gaps each run's own.`);
  return texts.join(" ");
}

// The same words while the same points are drawn in the same way.
const wordsCache = { points: null, key: "", text: "" };
function wordsOf(figure) {
  const key = [figure.kind, state.level, state.allLevels, state.roofRun, shownRows.length].join("|");
  if (wordsCache.points !== figure.points || wordsCache.key !== key) Object.assign(wordsCache, { points: figure.points, key, text: wordsFor(figure) });
  return wordsCache.text;
}
