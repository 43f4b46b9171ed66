// Charts of pages that have cases instead of a run's kernels: the combined chart and its sweeps, drawn as the report draws them.
import { byId, make, soon } from "./dom.js";
import { formatAmount, formatPercent, formatSeconds, known } from "./format.js";
import { measurePlane, planeScene, timesText } from "./plane.js";
import { drawLitPoints, drawScene, pointAt } from "./plot.js";
import { shape, symbolPath } from "./svg.js";
import { sweepScene } from "./sweep.js";
import { applyTheme, startTheme } from "./theme.js";

/** A case as the page's data has it: amounts, time and coordinates are the report's. `value` is its place among the values of its frame, `other` a case of another machine.
 * @typedef {{ name: string, value: number, series: number, flops: number | null, bytes: number | null, time_s: number, bandwidth_time_s: number | null, compute_time_s: number | null,
 *   bound_s: number | null, limiter: string, launches: number | null, words: string, other: boolean }} Case */
/** Cases that are shown together: a sweep of one parameter, or all.
 * @typedef {{ label: string, axis: string, values: string[], cases: Case[] }} Frame */
/** @typedef {{ kind: "combined" | "sweep", title: string, roofs: { bytes_per_s: number, flops_per_s: number, launch_s: number | null, memory: string, compute: string } | null, series: string[],
 *   other: string, frames: Frame[], small: boolean }} Charted */

const data = JSON.parse(byId("data")?.textContent || '{"look": null, "charts": {}}');
const LOOK = data.look;
const HEIGHTS = { large: 560, phone: 400, small: 270 };
// With more cases than this an example would be one text too many.
const FEW = 12;
const tooltip = byId("tooltip");
// The paper's three charts, by the names that the report gives them.
const PLANES = [["combined", "Overview", "Work and time in one chart (the paper's 4D chart)"], ["complexity", "Work", "Bytes and FLOPs (the paper's complexity plane)"], ["time", "Time", "The time plane"]];

/** @param {Case} c
 * @param {Charted} charted */
function placeOfCase(c, charted) {
  const kind = c.limiter in LOOK.symbols ? c.limiter : "unknown";
  const [bandwidth, compute] = [c.bandwidth_time_s ?? NaN, c.compute_time_s ?? NaN];
  const several = charted.series.length > 1;
  return {
    name: c.name, F: c.flops, B: c.bytes, T: c.time_s, bandwidth, compute, share: c.time_s, n: c.launches || 0, kind, alone: c.other, value: c.value, series: c.series, bound: c.bound_s,
    paint: c.other ? "var(--ink)" : several ? `var(--series-${c.series % 9})` : `var(--${kind})`, symbol: c.other ? "cross" : LOOK.symbols[kind] || "circle", hatched: kind === "unknown" && !several && !c.other,
    over: !c.other && c.bound_s > 0 ? c.time_s / c.bound_s : NaN, gap: !c.other && c.bound_s > 0 ? c.time_s - c.bound_s : NaN, words: c.words,
  };
}

function factsOf(p, charted) {
  return [
    ["how", charted.series.length > 1 && !p.alone ? charted.series[p.series] : ""],
    ["machine", p.alone ? charted.other : ""],
    ["time", `${formatSeconds(p.T)}${known(p.over) ? `, ${timesText(p.over)} its bound` : ""}`],
    ["bound", p.alone || !known(p.bound) ? "" : `${formatSeconds(p.bound)}, ${formatPercent(p.bound / p.T)} of the time`],
    ["limiter", LOOK.words[p.kind] || p.kind],
    ["work", known(p.F) && known(p.B) ? `${formatAmount(p.F, "FLOP")}, ${formatAmount(p.B, "B")}` : ""],
    ["case", p.words],
  ].filter(([, value]) => value);
}

function showHint(p, charted, x, y) {
  tooltip.replaceChildren(make("h4", {}, p.name), make("dl", {}, ...factsOf(p, charted).flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)])));
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(6, x + 16 + width > window.innerWidth ? x - 16 - width : x + 16)}px`;
  tooltip.style.top = `${Math.max(6, y + 16 + height > window.innerHeight ? y - 12 - height : y + 16)}px`;
}

const sentenceOf = (p, charted) => `${p.name}: ${factsOf(p, charted).filter(([key]) => ["time", "limiter"].includes(key)).map(([key, value]) => (key === "limiter" ? `limited by ${value}` : value)).join(", ")}.`;

/** A chart in an element: what it shows is chosen by chips, one case at a time by a slider or the arrow keys. */
class EmbeddedChart {
  /** @param {HTMLElement} element
   * @param {Charted} charted */
  constructor(element, charted) {
    this.charted = charted;
    const isDrawn = (p) => p.T > 0 && (charted.kind === "sweep" || p.bandwidth + p.compute > 0);
    this.frames = charted.frames.map((frame) => ({ ...frame, places: frame.cases.map((c) => placeOfCase(c, charted)).filter(isDrawn) }));
    this.at = 0;
    this.chosen = -1;
    this.plane = "combined";
    this.wholes = new Map();
    const own = this.frames.flatMap(({ places }) => places.filter((p) => !p.alone));
    this.largest = own.reduce((most, p) => Math.max(most, p.share), 0);
    if (charted.roofs) {
      const { bytes_per_s: beta, flops_per_s: peak, launch_s, memory, compute } = charted.roofs;
      this.roofs = { beta, peak, t0: launch_s ?? NaN, memory, compute };
    }
    this.drawing = make("div", { class: "embedded", tabindex: 0, role: "application", "aria-roledescription": "chart", "aria-label": `${charted.title}; arrow keys go from case to case, Escape shows all` });
    this.words = make("p", { class: "soft", "aria-live": "polite" });
    element.replaceChildren(...this.controls(), this.drawing, this.words, this.key());
    this.listen();
    this.paint();
  }

  // Axes of all cases, so that a choice does not move them; another machine's are looked at where a frame shows them.
  get whole() {
    const other = this.frame.places.some((p) => p.alone);
    const every = this.frames.flatMap(({ places }) => places.filter((p) => other || !p.alone));
    const key = `${this.plane} ${other}`;
    if (!this.wholes.has(key)) this.wholes.set(key, measurePlane(this.plane, every, this.roofs, true));
    return this.wholes.get(key);
  }

  get frame() { return this.frames[this.at]; }
  get cases() { return this.frame.places.filter((p) => !p.alone).sort((a, b) => a.value - b.value || a.series - b.series); }

  controls() {
    if (this.charted.small) return [];
    this.chips = this.frames.map((frame, k) => make("button", { type: "button", class: "choice", "aria-pressed": k === 0 ? "true" : "false", onclick: () => this.show(k) }, frame.label, make("small", {}, frame.values.join(" · "))));
    this.slider = make("input", { type: "range", min: 0, step: 1, oninput: () => this.choose(Number(this.slider.value) - 1) });
    const label = make("label", { class: "control step" }, "Case by case", this.slider);
    this.planes = this.roofs ? PLANES.map(([plane, name, title]) => make("button", { type: "button", class: "choice plane", title, "aria-pressed": plane === this.plane ? "true" : "false", onclick: () => this.turn(plane) }, name)) : [];
    const planes = this.planes.length ? [make("div", { class: "choices", role: "group", "aria-label": "Chart" }, ...this.planes)] : [];
    return [...planes, make("div", { class: "choices", role: "group", "aria-label": "What is varied" }, ...(this.frames.length > 1 ? this.chips : []), label)];
  }

  // What colours and signs mean: series where there are several, else what limits a case.
  key() {
    const all = this.frames.flatMap(({ places }) => places);
    const kinds = [...new Set(all.filter((p) => !p.alone).map((p) => p.kind))];
    const several = this.charted.series.length > 1;
    const mark = (symbol, paint, text, hatched = false) => make("li", {}, shape("svg", { class: `sign${hatched ? " hatched" : ""}`, width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" }, shape("path", { d: symbolPath(symbol, 8, 8, 5), style: { fill: paint } })), text);
    const limits = kinds.map((kind) => mark(LOOK.symbols[kind], several ? "var(--soft)" : `var(--${kind})`, `limited by ${LOOK.words[kind]}`, kind === "unknown"));
    const series = several ? this.charted.series.map((name, k) => mark("circle", `var(--series-${k % 9})`, name)) : [];
    this.othersKey = mark("cross", "var(--ink)", this.charted.other);
    return make("ul", { class: "key" }, ...series, ...limits, this.othersKey);
  }

  paint() {
    const width = Math.max(260, this.drawing.clientWidth);
    const asked = parseFloat(getComputedStyle(this.drawing).getPropertyValue("--embedded-height"));
    const height = this.charted.small ? HEIGHTS.small : width < 560 ? HEIGHTS.phone : asked || HEIGHTS.large;
    const chosen = this.cases[this.chosen];
    const { places, values, axis } = this.frame;
    this.othersKey.style.display = places.some((p) => p.alone) ? "" : "none";
    if (this.charted.kind === "sweep") this.scene = sweepScene(places, { values, axis, series: Math.max(1, this.charted.series.length), size: { width, height } });
    else {
      const shown = chosen ? [chosen, ...places.filter((p) => p.alone && p.value === chosen.value)] : [...places].sort((a, b) => b.share - a.share);
      const ghosts = chosen ? places.filter((p) => !p.alone && p !== chosen) : [];
      this.scene = planeScene(this.plane, shown, { roofs: this.roofs, size: { width, height }, whole: this.whole, ghosts, total: NaN, largest: this.largest, example: !chosen && this.at === 0 && this.plane === "combined" && shown.length <= FEW });
    }
    this.svg = drawScene(this.drawing, this.scene);
    this.words.textContent = chosen ? sentenceOf(chosen, this.charted) : "";
    this.words.hidden = !chosen;
    if (this.slider) {
      this.slider.max = String(this.cases.length);
      this.slider.value = String(this.chosen + 1);
      this.slider.setAttribute("aria-valuetext", chosen ? chosen.name : "all cases");
    }
  }

  show(frame) {
    this.at = frame;
    this.chosen = -1;
    this.chips.forEach((chip, k) => chip.setAttribute("aria-pressed", k === frame ? "true" : "false"));
    this.paint();
  }

  turn(plane) {
    this.plane = plane;
    this.planes.forEach((button, k) => button.setAttribute("aria-pressed", PLANES[k][0] === plane ? "true" : "false"));
    this.paint();
  }

  choose(index) {
    this.chosen = Math.max(-1, Math.min(index, this.cases.length - 1));
    this.paint();
    if (this.charted.kind === "sweep" && this.chosen >= 0) drawLitPoints(this.svg, this.scene, [this.cases[this.chosen]], []);
  }

  listen() {
    this.drawing.addEventListener("pointermove", (event) => {
      const { left, top } = this.svg.getBoundingClientRect();
      const p = pointAt(this.scene, event.clientX - left, event.clientY - top);
      drawLitPoints(this.svg, this.scene, p ? [p] : [], []);
      if (p) showHint(p, this.charted, event.clientX, event.clientY);
      else tooltip.hidden = true;
    });
    this.drawing.addEventListener("pointerleave", () => { tooltip.hidden = true; drawLitPoints(this.svg, this.scene, [], []); });
    this.drawing.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const count = this.cases.length + 1;
      this.choose((this.chosen + 1 + step + count) % count - 1);
    });
  }
}

// Every element that names its data draws itself: <div data-chart="KEY">.
/** @type {EmbeddedChart[]} */
const charts = [];
for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-chart]"))) charts.push(new EmbeddedChart(element, data.charts[element.dataset.chart]));
const repaint = () => soon("charts", () => charts.forEach((chart) => chart.paint()));
startTheme(repaint);
window.addEventListener("resize", repaint);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  tooltip.hidden = true;
  for (const chart of charts) if (chart.chosen >= 0) chart.choose(-1);
});
window.addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; charts.forEach((chart) => chart.paint()); });
window.addEventListener("afterprint", () => { applyTheme(); repaint(); });
window.timeroofCharts = { charts };
document.documentElement.dataset.ready = String(Math.round(performance.now()));
