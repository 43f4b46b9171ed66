// Controls of the charts, and the line that says what is selected.
import { CHARTS, CHART_HINTS, chart } from "./charts.js";
import { KIND_WORDS, categories, css } from "./colours.js";
import { byteNames, byTime, devices, rowCount, runs, seconds, sortedDimensions } from "./data.js";
import { announce, byId, checkControl, closePops, make, markTab, selectControl, shorten, soon, tabKeys } from "./dom.js";
import { formatCount, formatOf, formatPercent, formatSeconds, known, resourceLabel } from "./format.js";
import { pictureOf } from "./picture.js";
import { ceilingList, runUses } from "./roofline.js";
import { allTime, filter, isFiltered, light, look, showAll, shownRows, state, sums } from "./state.js";
import { hideTooltip } from "./tooltip.js";

export function chooseChart(kind) {
  look({ tab: kind });
  const list = byId("chart-tabs");
  const tab = list.querySelector(`[data-chart="${kind}"]`);
  markTab(list, tab);
  byId("chart-panel").setAttribute("aria-labelledby", tab.id);
  writeControls();
}

export function makeChartTabs() {
  const list = byId("chart-tabs");
  for (const [kind, text] of CHARTS) {
    list.append(make("button", { type: "button", role: "tab", id: `tab-${kind}`, "data-chart": kind, "aria-controls": "chart-panel", title: CHART_HINTS[kind], onclick: () => chooseChart(kind) }, text));
  }
  tabKeys(list, (tab) => chooseChart(tab.dataset.chart));
  chooseChart(state.tab);
}

// A slider's place 0…100 as seconds: the shortest row to the longest, in equal ratios.
const positive = Array.from(byTime, seconds).filter((t) => t > 0);
const shortest = positive[positive.length - 1] || 1e-9;
const longest = positive[0] || 1;
const sliderSeconds = (at) => (at <= 0 ? 0 : shortest * (longest / shortest) ** (at / 100));

function sizeText() {
  if (!state.minTime) return "Hide short rows: none";
  const small = byTime.filter((i) => seconds(i) < state.minTime);
  return `Hide rows under ${formatSeconds(state.minTime, 2)}: ${formatCount(small.length)} (${formatPercent(sums(small).time / allTime)})`;
}

function sizeControl() {
  const text = make("span", { id: "size-text" }, sizeText());
  const slider = make("input", { type: "range", id: "size", min: 0, max: 100, step: 1, "aria-label": "Hide rows shorter than", oninput: (event) => {
    state.minTime = sliderSeconds(Number(event.target.value));
    text.textContent = sizeText();
    soon("size", () => filter({}));
  } });
  slider.value = state.minTime ? Math.round(100 * Math.log(state.minTime / shortest) / Math.log(longest / shortest)) : 0;
  return make("label", { class: "control" }, text, slider);
}

function roofControls() {
  const run = runs[state.roofRun];
  const flopRoofs = Object.keys(run.roofs).filter((r) => r.startsWith("flop/")).sort((a, b) => run.roofs[b][0] - run.roofs[a][0]);
  const levels = byteNames.filter((name) => run.roofs[name] || !Object.keys(run.roofs).length);
  const roofs = flopRoofs.map((r) => [r, `${resourceLabel(r)}${runUses(r) ? "" : " (not used)"}: ${formatOf(r, run.roofs[r][0], true)}`]);
  const made = [];
  const machines = new Set(runs.map((r) => r.machine));
  if (machines.size > 1) made.push(selectControl("Roofs of", runs.map((r, k) => [String(k), `${r.name}: ${r.machine || "no machine"}`]), String(state.roofRun), (value) => {
    const roofRun = Number(value);
    look({ roofRun, roof: runs[roofRun].pair[0], level: runs[roofRun].level || state.level, views: {} });
    writeControls();
  }, "roof-run"));
  if (levels.length) made.push(selectControl("Memory level", levels.map((name) => [name, `${resourceLabel(name)}${run.roofs[name] ? `: ${formatOf(name, run.roofs[name][0], true)}` : ""}`]), state.level, (level) => look({ level, views: {} }), "level"));
  if (roofs.length && state.tab !== "roofline") made.push(selectControl("Precision (compute roof)", [...roofs, ["own", "each row's own"]], state.roof, (roof) => look({ roof, views: {} }), "roof"));
  return made;
}

function ceilingControl() {
  const list = make("div", { class: "ceiling-list" });
  for (const c of ceilingList()) {
    list.append(checkControl(`${resourceLabel(c.resource)} ${formatOf(c.resource, c.rate, true)} (${c.origin})`, !state.ceilingsOff.has(c.resource), (checked) => {
      const off = new Set(state.ceilingsOff);
      if (checked) off.delete(c.resource);
      else off.add(c.resource);
      look({ ceilingsOff: off });
    }));
  }
  return make("details", { class: "pop", id: "ceilings" }, make("summary", {}, "Ceilings"), list);
}

export function writeControls() {
  const box = byId("controls");
  const wasOpen = byId("more")?.open || false;
  const roofline = state.tab === "roofline";
  const checks = make("div", { class: "checks" });
  if (!roofline) {
    checks.append(checkControl("launch corner", state.boxes, (boxes) => look({ boxes }), "boxes"), checkControl("guide lines", state.guides, (guides) => look({ guides }), "guides"));
  } else {
    checks.append(checkControl("all memory levels", state.allLevels, (allLevels) => look({ allLevels, views: {} }), "all-levels"), checkControl("datasheet ceilings too", state.printed, (printed) => look({ printed }), "printed"));
  }
  if (state.tab === "combined") checks.append(checkControl("lines", state.segments, (segments) => look({ segments }), "segments"));
  checks.append(checkControl("names", state.names, (names) => look({ names }), "names"));
  const [level, others] = [roofControls().filter((control) => control.querySelector("#level")), roofControls().filter((control) => !control.querySelector("#level"))];
  const more = make("details", { class: "pop", id: "more" }, make("summary", {}, "More"), make("div", { class: "ceiling-list more-list" },
    ...others,
    selectControl("Amounts", [["total", "total of all calls"], ["call", "per call"]], state.perCall ? "call" : "total", (value) => look({ perCall: value === "call", views: {} }), "per-call"),
    sizeControl(),
    selectControl("Drag to", [["zoom", "zoom"], ["select", "select a box"], ["lasso", "select freely"], ["pan", "move"], ["none", "scroll the page"]], state.drag, (drag) => look({ drag }), "drag"),
    checks));
  more.open = wasOpen;
  box.replaceChildren(
    selectControl("Show", [["groups", "one symbol per kernel"], ["rows", "every row"]], state.points, (points) => look({ points, views: {} }), "points"),
    selectControl("Colour by", sortedDimensions(), state.colour, (colour) => { state.colour = colour; filter({ hidden: new Set() }); }, "colour"),
    ...level,
    ...(roofline ? [ceilingControl()] : []),
    more,
    make("button", { type: "button", id: "reset-view", onclick: () => look({ views: {}, everything: false }) }, "Reset view"),
    make("button", { type: "button", id: "save-image", title: "Save the chart as a picture", onclick: savePicture }, "PNG"),
  );
}

// The chart as a PNG of twice its size, with the colours that are on the screen.
async function savePicture() {
  const blob = await pictureOf(chart.querySelector("svg.plot"), css("--sheet"));
  const link = make("a", { download: `timeroof-${state.tab}.png`, href: URL.createObjectURL(blob) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// What is selected, in chips that can be taken away, and what it sums to.
export function writeSelection() {
  const line = byId("selection");
  line.textContent = "";
  const total = sums(shownRows);
  const all = shownRows.length === rowCount;
  // Gaps count the idle time before kernels: without it they would seem to exceed the time.
  const waiting = total.elapsed > 1.001 * total.time ? `, idle before them ${formatSeconds(total.elapsed - total.time)}` : "";
  // Of a whole run the report says what it could be; rows that overlap or wait do not add up to it.
  const whole = all && runs.length === 1 ? runs[0] : null;
  const bounded = whole ? (known(whole.roof_s) ? `; the run of ${formatSeconds(whole.measured_s)} could be ${formatSeconds(whole.roof_s)}, ${formatSeconds(whole.recoverable_s)} less` : "") : `, bound ${formatSeconds(total.bound)}, gap ${formatSeconds(total.gap)}`;
  const together = devices > 1 ? ` over ${formatCount(devices)} devices` : "";
  const text = `${all ? `All ${formatCount(rowCount)} rows` : `${formatCount(shownRows.length)} of ${formatCount(rowCount)} rows`}: ${formatSeconds(total.time)}${together}${all ? "" : ` (${formatPercent(total.time / allTime)})`}${waiting}${bounded}`;
  line.append(make("span", { class: "sum", "data-time": total.time, "data-rows": shownRows.length }, text));
  const chip = (name, clear) => line.append(make("button", { type: "button", class: "chip", title: "Take this filter away", onclick: () => { clear(); byId("selection").querySelector("button")?.focus(); } }, make("span", { class: "clip" }, name), "✕"));
  if (state.isolated) chip(`only ${shorten(state.isolatedName, 80)}`, () => filter({ isolated: null, isolatedName: "" }));
  if (state.box) chip(`box: ${formatCount(state.box.size)} rows`, () => filter({ box: null }));
  if (state.limiter) chip(`only ${{ communication: "communication", copy: "copies" }[state.limiter] ?? `limited by ${KIND_WORDS[state.limiter]}`}`, () => filter({ limiter: null }));
  if (state.search) chip(`search: ${shorten(state.search, 60)}`, () => filter({ search: "" }));
  if (state.minTime) chip(`at least ${formatSeconds(state.minTime, 2)}`, () => { filter({ minTime: 0 }); writeControls(); });
  if (state.hidden.size) chip(`without ${[...state.hidden].map((name) => categories(state.colour).label(name)).join(", ")}`, () => filter({ hidden: new Set() }));
  if (isFiltered()) line.append(make("button", { type: "button", id: "show-all", class: "quiet", onclick: () => { showAll(); writeControls(); } }, "Show all"));
}

// Escape, wherever the focus is: a list closes, the search empties, else what was picked is let go.
export function escapeKey() {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    if (closePops()) return;
    hideTooltip();
    light([]);
    if (event.target === byId("search") && state.search) {
      event.preventDefault();
      filter({ search: "" });
    } else if (state.isolated || state.box || state.limiter) {
      filter({ isolated: null, isolatedName: "", box: null, limiter: null });
      announce(byId("selection").textContent);
    }
  });
}
