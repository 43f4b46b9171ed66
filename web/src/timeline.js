// The timeline of one step: kernels per stream, phases above them, idle time with its cause.
import { PALETTES, categories, css, isDark, rowColour } from "./colours.js";
import { cellsOf, rowOfId, runs, word } from "./data.js";
import { announce, byId, make, selectControl, shorten, soon } from "./dom.js";
import { formatCount, formatSeconds } from "./format.js";
import { isolate, light, shown, state } from "./state.js";
import { hideTooltip, rowName, showTooltip } from "./tooltip.js";

const canvas = byId("timeline-canvas");
const LANE = 26;
const AXIS = 24;
const PHASES_LANE = 20;
const gutter = () => 104;
// A lane of its own for a stream that is busy for this share of the time, and so many lanes at most.
const BUSY = 0.01;
const MAX_LANES = 12;
export const timelineState = { run: runs.findIndex((run) => run.timeline), from: 0, to: 1, at: -1, events: [], lanes: [], laneNames: [], drag: null, first: 0, last: 1 };

function plainColumn(column, n, words_) {
  const cells = words_ || "c" in column ? null : cellsOf(column);
  const at = (k) => ("c" in column ? column.c : words_ ? (column.i[k] < 0 ? null : column.d[column.i[k]]) : cells[k]);
  return Array.from({ length: n }, (_, k) => at(k));
}

// Streams as lanes: hardly busy ones share the last lane.
function shareLanes(stream, duration) {
  const busy = new Map(timelineState.lanes.map((lane) => [lane, 0]));
  stream.forEach((lane, k) => busy.set(lane, busy.get(lane) + duration[k]));
  const whole = [...busy.values()].reduce((sum, s) => sum + s, 0);
  const longest = [...timelineState.lanes].sort((a, b) => busy.get(b) - busy.get(a));
  const all = longest.length <= MAX_LANES && longest.every((lane) => longest.length <= 4 || busy.get(lane) >= BUSY * whole);
  const own = new Set(all ? longest : longest.filter((lane) => busy.get(lane) >= BUSY * whole).slice(0, MAX_LANES - 1));
  if (!own.size) own.add(longest[0]);
  const named = timelineState.lanes.filter((lane) => own.has(lane));
  const others = timelineState.lanes.length - named.length;
  const laneOf = new Map(timelineState.lanes.map((lane) => [lane, own.has(lane) ? named.indexOf(lane) : named.length]));
  timelineState.laneNames = [...named.map((lane) => `stream ${lane ?? "?"}`), ...(others ? [`${formatCount(others)} other`] : [])];
  timelineState.lanes = [...named, ...(others ? [`${others} other streams`] : [])];
  return laneOf;
}

// What the colours of the intervals mean.
export function writeTimelineKey() {
  const category = categories(state.colour);
  const seen = new Set(timelineState.events.filter((e) => e.row >= 0).map((e) => category.of(e.row)));
  const entries = category.names.filter((name) => seen.has(name)).map((name) => make("li", {}, make("i", { style: { background: category.colour(name) } }), category.label(name)));
  const isIdle = timelineState.events.some((e) => e.row < 0);
  byId("timeline-key").replaceChildren(...entries, ...(isIdle ? [make("li", {}, make("i", { class: "idle" }), "idle")] : []));
}

function loadTimeline() {
  const run = runs[timelineState.run];
  const source = run.timeline;
  const length = (c) => ("c" in c ? 0 : (c.i || cellsOf(c)).length);
  const n = Math.max(...["start_s", "duration_s", "stream", "kernel", "idle_cause"].map((name) => length(source[name])), 1);
  const [start, duration, kernel] = ["start_s", "duration_s", "kernel"].map((name) => plainColumn(source[name], n, false));
  const [stream, cause] = ["stream", "idle_cause"].map((name) => plainColumn(source[name], n, true));
  // Streams are numbers, or a device's number and a stream's: 7 before 14, 0:7 before 1:7.
  timelineState.lanes = [...new Set(stream)].sort((a, b) => Number(a === null) - Number(b === null) || String(a).localeCompare(String(b), "en", { numeric: true }));
  const laneOf = shareLanes(stream, duration);
  timelineState.events = start.map((s, k) => ({
    start: s, end: s + duration[k], lane: laneOf.get(stream[k]), row: kernel[k] === null ? -1 : rowOfId[timelineState.run].get(kernel[k]) ?? -1, cause: cause[k],
  })).sort((a, b) => a.start - b.start);
  timelineState.first = timelineState.events[0].start;
  timelineState.last = timelineState.events.reduce((most, e) => Math.max(most, e.end), 0);
  Object.assign(timelineState, { from: timelineState.first, to: timelineState.last, at: -1 });
  canvas.style.height = `${AXIS + PHASES_LANE + timelineState.lanes.length * (LANE + 4) + 8}px`;
  const kept = timelineState.events.length;
  byId("timeline-words").textContent = `${formatCount(kept)} intervals${source.events > kept ? ` (the longest of ${formatCount(source.events)})` : ""} over ${formatSeconds(timelineState.last - timelineState.first)}; hatched is idle. Drag moves, Ctrl and the wheel or W and S zoom, A and D move, a click isolates.`;
  writeTimelineKey();
}

const timeX = (t, width) => gutter() + (t - timelineState.from) / (timelineState.to - timelineState.from) * (width - gutter());
const timeAt = (x) => timelineState.from + (x - gutter()) / (canvas.clientWidth - gutter()) * (timelineState.to - timelineState.from);

function hatch(context) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = css("--soft");
  pen.globalAlpha = 0.6;
  pen.beginPath();
  pen.moveTo(0, 6);
  pen.lineTo(6, 0);
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

function drawAxis(pen, width) {
  const span = timelineState.to - timelineState.from;
  const rough = span / Math.max(2, width / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  pen.fillStyle = css("--soft");
  pen.strokeStyle = css("--line");
  pen.font = "11px system-ui, sans-serif";
  pen.beginPath();
  for (let k = Math.ceil((timelineState.from - timelineState.first) / step); k * step <= timelineState.to - timelineState.first; k++) {
    const x = timeX(timelineState.first + k * step, width);
    pen.moveTo(x, AXIS - 6);
    pen.lineTo(x, canvas.clientHeight);
    const text = k === 0 ? "0" : formatSeconds(Number((k * step).toPrecision(6)), 3);
    if (x + 50 < width) pen.fillText(text, x + 3, AXIS - 9);
  }
  pen.stroke();
}

function drawPhases(pen, width) {
  const spans = [];
  for (const e of timelineState.events) {
    const phase = e.row >= 0 ? word("phase", e.row) : null;
    if (!phase || phase === "other") continue;
    const last = spans[spans.length - 1];
    if (last && last.phase === phase) last.end = Math.max(last.end, e.end);
    else {
      // Streams overlap: a phase ends where the next one starts.
      if (last) last.end = Math.min(last.end, e.start);
      spans.push({ phase, start: e.start, end: e.end });
    }
  }
  const palette = PALETTES[isDark() ? "dark" : "light"];
  const names = [...new Set(spans.map((s) => s.phase))];
  for (const s of spans) {
    const [x0, x1] = [timeX(s.start, width), timeX(s.end, width)];
    if (x1 < 0 || x0 > width || x1 - x0 < 0.5) continue;
    pen.globalAlpha = 0.25;
    pen.fillStyle = palette[names.indexOf(s.phase) % palette.length];
    pen.fillRect(x0, AXIS, x1 - x0, PHASES_LANE - 4);
    pen.globalAlpha = 1;
    pen.fillStyle = css("--ink");
    if (x1 - x0 > s.phase.length * 6.5 + 8) pen.fillText(s.phase, Math.max(x0, 0) + 4, AXIS + 12);
  }
}

// A text as far as it fits, with a sign where it was cut.
function fitted(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let length = text.length - 1;
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > room) length--;
  return length > 1 ? `${text.slice(0, length)}…` : "";
}

export function drawTimeline() {
  if (timelineState.run < 0 || byId("timeline").hidden) return;
  const width = canvas.clientWidth;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = canvas.clientHeight * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  drawAxis(pen, width);
  drawPhases(pen, width);
  const idleFill = hatch(pen);
  const litRows = new Set(state.lit);
  const edge = new Float64Array(timelineState.lanes.length).fill(-1);
  for (const e of timelineState.events) {
    const [x0, x1] = [timeX(e.start, width), timeX(e.end, width)];
    if (x1 < 0 || x0 > width) continue;
    const lit = litRows.has(e.row);
    // Of many intervals in one pixel one is drawn.
    if (x1 - edge[e.lane] < 0.4 && !lit) continue;
    edge[e.lane] = x1;
    const y = AXIS + PHASES_LANE + e.lane * (LANE + 4);
    const w = Math.max(0.8, x1 - x0 - (x1 - x0 > 4 ? 0.6 : 0));
    pen.globalAlpha = e.row >= 0 && !shown[e.row] ? 0.15 : 1;
    pen.fillStyle = e.row >= 0 ? rowColour(e.row) : idleFill;
    pen.fillRect(x0, y, w, LANE);
    const label = e.row >= 0 ? rowName(e.row) : e.cause ? `idle: ${e.cause}` : "";
    if (w > 46 && label) {
      pen.save();
      pen.beginPath();
      pen.rect(x0, y, w - 3, LANE);
      pen.clip();
      pen.fillStyle = css(e.row < 0 ? "--ink" : [css("--fault"), css("--latency")].includes(rowColour(e.row)) ? "--on-fault" : "--on-kind");
      const left = Math.max(x0, 0) + 4;
      pen.fillText(fitted(pen, shorten(label, 60), x0 + w - 4 - left), left, y + 17);
      pen.restore();
    }
    if (lit) {
      pen.globalAlpha = 1;
      pen.strokeStyle = css("--ink");
      pen.lineWidth = 2;
      pen.strokeRect(x0, y, Math.max(2, w), LANE);
    }
  }
  pen.globalAlpha = 1;
  if (!gutter()) return;
  pen.fillStyle = css("--sheet");
  pen.fillRect(0, AXIS - 6, gutter() - 2, canvas.clientHeight);
  pen.fillStyle = css("--soft");
  timelineState.laneNames.forEach((name, k) => pen.fillText(fitted(pen, name, gutter() - 10), 6, AXIS + PHASES_LANE + k * (LANE + 4) + 17));
}

function zoomTimeline(factor, centre = (timelineState.from + timelineState.to) / 2) {
  const span = Math.min(timelineState.last - timelineState.first, Math.max(1e-9, (timelineState.to - timelineState.from) * factor));
  const share = (centre - timelineState.from) / (timelineState.to - timelineState.from);
  moveTimeline(centre - share * span, span);
}

function moveTimeline(from, span = timelineState.to - timelineState.from) {
  const start = Math.max(timelineState.first, Math.min(from, timelineState.last - span));
  Object.assign(timelineState, { from: start, to: start + span });
  soon("timeline", drawTimeline);
}

function eventAt(x, y) {
  const t = timeAt(x);
  const lane = Math.floor((y - AXIS - PHASES_LANE) / (LANE + 4));
  const near = (timelineState.to - timelineState.from) / canvas.clientWidth * 1.5;
  return timelineState.events.find((e) => e.lane === lane && t >= e.start - near && t <= e.end + near) || null;
}

function stepEvent(step) {
  const count = timelineState.events.length;
  timelineState.at = (timelineState.at + step + count) % count;
  const e = timelineState.events[timelineState.at];
  if (e.start < timelineState.from || e.end > timelineState.to) moveTimeline(e.start - (timelineState.to - timelineState.from) * 0.3);
  light(e.row >= 0 ? [e.row] : []);
  announce(e.row >= 0 ? `${rowName(e.row)}, ${formatSeconds(e.end - e.start)}` : `idle ${formatSeconds(e.end - e.start)}, ${e.cause || "cause unknown"}`);
  const box = canvas.getBoundingClientRect();
  if (e.row >= 0) showTooltip([e.row], box.left + timeX((e.start + e.end) / 2, box.width), box.top + AXIS + PHASES_LANE + (e.lane + 1) * LANE);
}

function timelineEvents() {
  canvas.addEventListener("pointermove", (event) => {
    if (timelineState.drag) {
      const { x, from } = timelineState.drag;
      timelineState.drag.moved = timelineState.drag.moved || Math.abs(event.clientX - x) > 3;
      moveTimeline(from - (event.clientX - x) / canvas.clientWidth * (timelineState.to - timelineState.from));
      return;
    }
    const e = eventAt(event.offsetX, event.offsetY);
    if (e && e.row >= 0) { light([e.row]); showTooltip([e.row], event.clientX, event.clientY); }
    else { light([]); hideTooltip(); }
    canvas.title = e && e.row < 0 ? `idle ${formatSeconds(e.end - e.start)}: ${shorten(e.cause || "cause unknown", 200)}` : "";
  });
  canvas.addEventListener("pointerleave", () => { light([]); hideTooltip(); });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse") { timelineState.drag = { x: event.clientX, from: timelineState.from, moved: false }; canvas.setPointerCapture(event.pointerId); }
  });
  canvas.addEventListener("pointerup", (event) => {
    const moved = timelineState.drag && timelineState.drag.moved;
    timelineState.drag = null;
    const e = moved ? null : eventAt(event.offsetX, event.offsetY);
    if (e && e.row >= 0) isolate([e.row], rowName(e.row));
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    zoomTimeline(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const span = timelineState.to - timelineState.from;
    const act = {
      ArrowLeft: () => moveTimeline(timelineState.from - span / 5), ArrowRight: () => moveTimeline(timelineState.from + span / 5), "+": () => zoomTimeline(0.6), "=": () => zoomTimeline(0.6), "-": () => zoomTimeline(1.6),
      w: () => zoomTimeline(0.6), s: () => zoomTimeline(1.6), a: () => moveTimeline(timelineState.from - span / 5), d: () => moveTimeline(timelineState.from + span / 5),
      0: () => zoomTimeline(1e12), ".": () => stepEvent(1), ",": () => stepEvent(-1),
      Enter: () => { const e = timelineState.events[timelineState.at]; if (e && e.row >= 0) isolate([e.row], rowName(e.row)); },
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  canvas.addEventListener("blur", hideTooltip);
}

export function makeTimeline() {
  if (timelineState.run < 0) return;
  byId("timeline").hidden = false;
  byId("timeline-link").hidden = false;
  const withTimeline = runs.map((run, r) => [String(r), run.name, run.timeline]).filter((entry) => entry[2]);
  const button = (text, label, act) => make("button", { type: "button", "aria-label": label, onclick: act }, text);
  byId("timeline-controls").replaceChildren(
    ...(withTimeline.length > 1 ? [selectControl("Run", withTimeline, String(timelineState.run), (value) => { timelineState.run = Number(value); loadTimeline(); drawTimeline(); }, "timeline-run")] : []),
    button("+", "Zoom in", () => zoomTimeline(0.5)), button("−", "Zoom out", () => zoomTimeline(2)), button("‹", "Earlier", () => moveTimeline(timelineState.from - (timelineState.to - timelineState.from) / 3)),
    button("›", "Later", () => moveTimeline(timelineState.from + (timelineState.to - timelineState.from) / 3)), button("Whole step", "Show the whole step", () => zoomTimeline(1e12)));
  loadTimeline();
  timelineEvents();
}
