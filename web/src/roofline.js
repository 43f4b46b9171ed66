// The classic roofline with every memory level and every ceiling.
import { css, rowColour } from "./colours.js";
import { byTime, byteNames, intensityOf, numbers, runs } from "./data.js";
import { formatOf, known, resourceLabel } from "./format.js";
import { FAR, lineTrace, noteAt, p10 } from "./guides.js";
import { ghostTrace, markTrace, markerSize } from "./planes.js";
import { MAX_SINGLE, chartRoofs, collect } from "./points.js";
import { roofNotes } from "./rooflabels.js";
import { ghost, isFiltered, shownRows, state } from "./state.js";
import { logRange, logTicks } from "./ticks.js";

export const LEVEL_SYMBOLS = { "byte/l1": "triangle-up", "byte/l2": "square", "byte/l3": "diamond", "byte/dram": "circle" };
const MAX_LEVELLED = 150;

export const runUses = (resource) => runs.some((run) => run.amounts.includes(resource)) && (resource.startsWith("byte/") || numbers(resource, 0).some((v) => v > 0));

export function ceilingList() {
  const run = runs[state.roofRun];
  return Object.entries(run.roofs).filter(([resource]) => /^(flop|byte)\//.test(resource))
    .map(([resource, [rate, origin]]) => ({ resource, rate, origin, printed: run.printed[resource] }))
    .sort((a, b) => a.resource.slice(0, 4).localeCompare(b.resource.slice(0, 4)) || b.rate - a.rate);
}

function ceilingTraces(points, area) {
  const { x: [x0, x1] } = area.range;
  const on = ceilingList().filter((c) => !state.ceilingsOff.has(c.resource));
  const compute = on.filter((c) => c.resource.startsWith("flop/"));
  const memory = on.filter((c) => c.resource.startsWith("byte/"));
  const top = Math.max(...compute.map((c) => c.rate), 0) || Infinity;
  const fastest = Math.max(...memory.map((c) => c.rate), 0) || Infinity;
  const traces = [];
  const notes = [];
  const placed = [];
  const slanted = [];
  const roof = (c, rate, dash, named) => {
    if (c.resource.startsWith("flop/")) {
      const start = Math.max(p10(x0 - FAR), Number.isFinite(fastest) ? rate / fastest : 0);
      traces.push(lineTrace([start, p10(x1 + FAR)], [rate, rate], css("--compute"), dash === "solid" ? 1.6 : 1, dash));
      const y = Math.log10(rate);
      const near = placed.some((other) => Math.abs(other - y) * area.height / (area.range.y[1] - area.range.y[0]) < 15);
      if (named && !near) {
        placed.push(y);
        notes.push(noteAt(x1, y, `${resourceLabel(c.resource)} ${formatOf(c.resource, rate, true)}`, { xanchor: "right", yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" }));
      }
      return;
    }
    const end = Math.min(p10(x1 + FAR), top / rate);
    traces.push(lineTrace([p10(x0 - FAR), end], [p10(x0 - FAR) * rate, end * rate], css("--memory"), dash === "solid" ? 1.6 : 1, dash));
    if (named) slanted.push({ text: `${resourceLabel(c.resource)} ${formatOf(c.resource, rate, true)}`, rate, end });
  };
  for (const c of on) {
    roof(c, c.rate, "solid", true);
    if (state.printed && c.printed && Math.abs(c.printed / c.rate - 1) > 0.005) roof(c, c.printed, "dot", false);
  }
  return { traces, notes: [...notes, ...roofNotes(slanted, points, area)] };
}

function levelTraces(points, largest) {
  const traces = [];
  const chosen = points.filter((p) => !p.merged).slice(0, MAX_LEVELLED);
  const joins = [[], []];
  for (const level of byteNames.filter((name) => name !== state.level)) {
    const there = chosen.map((p, k) => ({ p, k, ai: intensityAt(p, level) })).filter(({ ai }) => known(ai));
    for (const { p, ai } of there) {
      joins[0].push(ai, p.marks[0][0], null);
      joins[1].push(p.marks[0][1], p.marks[0][1], null);
    }
    traces.push({
      type: "scatter", mode: "markers", hoverinfo: "none", showlegend: false, customdata: there.map(({ k }) => k),
      x: there.map(({ ai }) => ai), y: there.map(({ p }) => p.marks[0][1]),
      marker: { size: there.map(({ p }) => Math.max(6, markerSize(p.share, largest) * 0.5)), symbol: `${LEVEL_SYMBOLS[level]}-open`, color: there.map(({ p }) => rowColour(p.rows[0])), line: { width: 1.3 } },
    });
  }
  return [{ ...lineTrace(joins[0], joins[1], css("--line"), 1) }, ...traces];
}

// Intensity of a point at another level.
const intensityAt = (p, level) => intensityOf(level, p.rows[0]);

function rooflineRange(roofs) {
  const points = collect(byTime, roofs).points.filter((p) => p.F > 0 && p.B > 0);
  const levels = state.allLevels ? byteNames : [];
  const intensities = points.flatMap((p) => [p.F / p.B, ...(p.merged ? [] : levels.map((level) => intensityAt(p, level)))]);
  const on = ceilingList().filter((c) => !state.ceilingsOff.has(c.resource));
  const top = Math.max(0, ...on.filter((c) => c.resource.startsWith("flop/")).map((c) => c.rate));
  const speeds = on.filter((c) => c.resource.startsWith("byte/")).map((c) => c.rate);
  // A decade of the steepest roof's slope is in sight, and some of the flat one.
  return { x: logRange([...intensities, top / Math.min(...speeds) * 4, top / Math.max(...speeds) / 10]), y: logRange([...points.map((p) => p.F / p.T), top * 1.4]) };
}

export function rooflineFigure(size) {
  const roofs = { ...chartRoofs(), own: false };
  const { points: found, lost, placed } = collect(shownRows, roofs);
  const ghosts = (isFiltered() ? collect(byTime.filter((i) => ghost[i]), roofs).points : []).filter((p) => p.F > 0 && p.B > 0).slice(0, MAX_SINGLE);
  const points = found.filter((p) => p.F > 0 && p.B > 0);
  const flopless = found.filter((p) => p.F === 0).flatMap((p) => p.rows);
  const byteless = found.filter((p) => p.F > 0 && p.B === 0).flatMap((p) => p.rows);
  for (const p of points.concat(ghosts)) p.marks = [[p.F / p.B, p.F / p.T]];
  const range = state.views.roofline || rooflineRange(roofs);
  const area = { range, ...size };
  const ceilings = ceilingTraces(points, area);
  const largest = points.reduce((most, p) => Math.max(most, p.share), 0);
  const traces = [...ceilings.traces, ...(ghosts.length ? [ghostTrace(ghosts, 0)] : []), ...(state.allLevels ? levelTraces(points, largest) : [])];
  const main = markTrace(points, 0, largest, false);
  main.marker.symbol = points.map((p) => (p.merged ? "hexagon" : LEVEL_SYMBOLS[state.level] || "circle"));
  traces.push(main);
  const each = (axis, unit) => logTicks(...range[axis], axis === "x" ? area.width : area.height * 1.6, unit);
  return {
    kind: "roofline", points, lost, flopless, byteless, placed, range, area, roofs, traces, last: 0, largest, notes: ceilings.notes,
    axes: { x: { title: "arithmetic intensity, FLOP per byte", ...each("x", "") }, y: { title: "speed, FLOP/s", ...each("y", "") } },
  };
}
