// Joins the parts: colours, what happens when the selection changes, links of the static page.
import { chart, chartKeys, chartPointer, current, draw, drawLit, pixelOf } from "./charts.js";
import { cssCache } from "./colours.js";
import { chooseChart, escapeKey, makeChartTabs, writeSelection } from "./controls.js";
import { byTime, rowCount, rowOfId, runOf, runs, word } from "./data.js";
import { announce, around, byId, closePopsOnOutside, markTab, soon, tabKeys } from "./dom.js";
import { formatAmount, formatCount, formatPercent, formatSeconds } from "./format.js";
import { boundOfSums } from "./groups.js";
import { readHash, writeHash } from "./hash.js";
import { writeIcicle, writeIcicleControls } from "./icicle.js";
import { placesOn } from "./points.js";
import { ceilingList, runUses } from "./roofline.js";
import { writePareto, writeParetoControls } from "./seconds.js";
import { exampleSwitch, writeLegend } from "./side.js";
import { filter, isolate, on, refilter, shownRows, state } from "./state.js";
import { lightTable, tableEvents, tableState, writeTable, writeTableControls } from "./table.js";
import { applyTheme, startTheme } from "./theme.js";
import { drawTimeline, makeTimeline, timelineState, writeTimelineKey } from "./timeline.js";
import { rowName } from "./tooltip.js";

function redrawAll() {
  draw();
  writeLegend();
  writePareto();
  writeIcicle();
  drawTimeline();
}

function goTo(id) {
  byId(id).scrollIntoView({ block: "start" });
}

function staticLinks() {
  document.addEventListener("click", (event) => {
    const kernel = around(event, ".kernel-link");
    if (kernel) {
      const r = Number(kernel.dataset.run);
      const { finding, name } = kernel.dataset;
      // All rows of a finding, or those of one of its kernels.
      const rows = runs[r].findings[Number(finding)].map((id) => rowOfId[r].get(id)).filter((row) => row !== undefined && (name === undefined || word("short_name", row) === name));
      if (!rows.length) return;
      state.isolated = null;
      isolate(rows, name ?? (rows.length === 1 ? rowName(rows[0]) : `${formatCount(rows.length)} rows of a finding`));
      goTo("charts");
    }
    const group = around(event, ".group-link");
    if (group) {
      const run = Number(group.dataset.run);
      const rows = [...byTime].filter((row) => runOf[row] === run && word("short_name", row) === group.dataset.name);
      if (!rows.length) return;
      state.isolated = null;
      isolate(rows, group.dataset.name);
      goTo("charts");
    }
    // Time in which no kernel runs has no rows: it is seen on the timeline.
    const part = around(event, ".part-link");
    if (part && ["idle", "unexplained"].includes(part.dataset.part)) {
      if (!byId("timeline").hidden) goTo("timeline");
    } else if (part) {
      filter({ limiter: state.limiter === part.dataset.part ? null : part.dataset.part });
      announce(byId("selection").textContent);
    }
  });
}

function runTabs() {
  const list = byId("run-tabs");
  if (!list) return;
  const choose = (tab) => {
    markTab(list, tab);
    /** @type {NodeListOf<HTMLElement>} */
    const panels = document.querySelectorAll(".run-panel");
    for (const panel of panels) panel.hidden = panel.id !== tab.getAttribute("aria-controls");
  };
  list.addEventListener("click", (event) => { const tab = around(event, '[role="tab"]'); if (tab) choose(tab); });
  tabKeys(list, choose);
}

// On paper: light colours, a chart that fits the sheet, the first rows of the table.
function printing() {
  window.addEventListener("beforeprint", () => {
    document.documentElement.dataset.theme = "light";
    cssCache.clear();
    tableState.printing = true;
    if (tableState.group === "none") Object.assign(tableState, { group: "name", groupedForPrint: true });
    chart.style.width = "680px";
    redrawAll();
    writeTable();
  });
  window.addEventListener("afterprint", () => {
    tableState.printing = false;
    if (tableState.groupedForPrint) Object.assign(tableState, { group: "none", groupedForPrint: false });
    chart.style.width = "";
    applyTheme();
    cssCache.clear();
    redrawAll();
    writeTable();
  });
}

function start() {
  startTheme(() => { cssCache.clear(); redrawAll(); });
  for (const c of ceilingList()) if (!runUses(c.resource) && c.resource !== state.roof && c.resource !== "byte/dram") state.ceilingsOff.add(c.resource);
  if (window.matchMedia("(pointer: coarse)").matches) state.drag = "none";
  if (window.innerWidth < 960) byId("controls-box").open = false;
  exampleSwitch();
  readHash();
  refilter();
  writeSelection();
  writeTableControls();
  writeTable();
  writeParetoControls();
  writePareto();
  writeIcicleControls();
  writeIcicle();
  makeTimeline();
  makeChartTabs();
  writeLegend();
  drawTimeline();
  tableEvents();
  chartPointer();
  chartKeys();
  staticLinks();
  runTabs();
  closePopsOnOutside();
  escapeKey();
  printing();
  on("filter", () => {
    for (const part of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("button.part-link"))) part.setAttribute("aria-pressed", String(part.dataset.part === state.limiter));
    writeSelection();
    soon("draw", draw);
    writeLegend();
    writeTable({ top: true });
    writePareto();
    writeIcicle();
    drawTimeline();
    if (timelineState.run >= 0) writeTimelineKey();
    const search = byId("search");
    if (search && search.value !== state.search) search.value = state.search;
  });
  on("look", () => soon("draw", draw));
  for (const event of ["filter", "look", "table"]) on(event, writeHash);
  window.addEventListener("hashchange", () => {
    if (!readHash()) return;
    chooseChart(state.tab);
    writeTableControls();
    filter({});
  });
  on("lit", () => { soon("lit", () => { drawLit(); lightTable(); drawTimeline(); }); });
  window.addEventListener("resize", () => soon("draw", () => { draw(); drawTimeline(); }));
  document.documentElement.dataset.usable = String(Math.round(performance.now()));
  draw();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start();
window.timeroofPage = { nameOf: (i) => word("name", i), boundOfSums, placesOn, state, shownRows: () => shownRows, figure: () => current, pixelOf, rowCount, streams: () => timelineState.lanes, formatSeconds, formatAmount, formatPercent };
