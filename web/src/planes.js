// The complexity plane, the time plane, and the combined chart of both.
import { categories, css, rowColour } from "./colours.js";
import { byTime, word } from "./data.js";
import { formatOf, known, resourceLabel } from "./format.js";
import { FAR, intensityGuides, launchBoxes, lineTrace, noteAt, p10, timeGuides, zeroAxis } from "./guides.js";
import { MAX_SINGLE, chartRoofs, collect } from "./points.js";
import { ghost, isFiltered, shownRows, state } from "./state.js";
import { logRange, logTicks } from "./ticks.js";

export const LEADS = {
  combined: "Every row twice on one diagonal: small and open is its work, filled its time. Touching symbols are at the roof; a long segment is headroom.",
  complexity: "Work alone: above the balance line compute limits, below it bandwidth; inside a dashed box launching does.",
  time: "Where the time goes: as far right or up as the row took; below the diagonal memory sets the pace, above it compute.",
  roofline: "Speed over intensity, with every ceiling; one symbol per memory level. Rows without FLOPs have no place here.",
};

export const markerSize = (share, largest) => Math.max(5, 34 * Math.sqrt(share / (largest || 1)));

function symbolOf(point, open) {
  const shape = point.zeroY ? "triangle-down" : point.zeroX ? "triangle-left" : point.merged ? "square" : "circle";
  return open ? `${shape}-open` : shape;
}

// The two symbols of a point on a plane: work, and time on the same axes.
function symbolsOf(kind, roofs) {
  const work = { x: (p) => p.B, y: (p) => p.F };
  const timed = kind === "time" ? { x: (p) => p.bandwidth, y: (p) => p.compute } : { x: (p) => p.bandwidth * roofs.beta, y: (p) => p.compute * roofs.peak };
  return kind === "combined" ? [work, timed] : [kind === "time" ? timed : work];
}

// What is zero goes to the lower end of its axis.
function positions(points, floor, kind, roofs) {
  const pairs = symbolsOf(kind, roofs);
  const at = (pair, axis, p) => pair[axis](p) || floor[axis] || NaN;
  for (const p of points) {
    p.zeroX = p.B === 0;
    p.zeroY = p.F === 0;
    p.marks = pairs.map((pair) => [at(pair, "x", p), at(pair, "y", p)]);
  }
}

// Axes of all rows, so that a selection does not move them; where zero stands on each.
const wholeCache = new Map();
function wholeOf(kind, roofs) {
  const key = [kind, roofs.level, roofs.compute, roofs.own, state.roofRun, state.perCall, state.boxes].join("|");
  if (!wholeCache.has(key)) wholeCache.set(key, measureWhole(kind, roofs));
  return wholeCache.get(key);
}

function measureWhole(kind, roofs) {
  const { points } = collect(byTime, roofs);
  const pairs = symbolsOf(kind, roofs);
  const floor = {};
  for (const [axis, amount] of [["x", "B"], ["y", "F"]]) {
    floor[axis] = points.some((p) => p[amount] === 0) ? zeroAxis(pairs.flatMap((pair) => points.map(pair[axis]))) : null;
  }
  positions(points, floor, kind, roofs);
  const box = state.boxes && known(roofs.t0) ? points.slice(0, 12).reduce((most, p) => Math.max(most, p.n), 1) * roofs.t0 : NaN;
  const corner = kind === "time" ? [box, box] : [box * roofs.beta, box * roofs.peak];
  const values = (k) => points.flatMap((p) => p.marks.map((mark) => mark[k])).concat(corner[k]);
  return { floor, range: { x: logRange(values(0)), y: logRange(values(1)) } };
}

export function markTrace(points, which, largest, open) {
  return {
    type: "scatter", mode: "markers", hoverinfo: "none", showlegend: false,
    x: points.map((p) => p.marks[which][0]), y: points.map((p) => p.marks[which][1]), customdata: points.map((_, k) => k),
    marker: {
      size: points.map((p) => (open ? 6.5 : markerSize(p.share, largest))), sizemode: "diameter", opacity: open ? 0.95 : 0.82,
      color: points.map((p) => rowColour(p.rows[0])), symbol: points.map((p) => symbolOf(p, open)),
      line: {
        color: points.map((p) => (open ? rowColour(p.rows[0]) : word("above_roof", p.rows[0]) && !p.merged ? css("--ink") : css("--sheet"))),
        width: points.map((p) => (open ? 1.4 : word("above_roof", p.rows[0]) && !p.merged ? 2 : 0.8)),
      },
    },
  };
}

export function ghostTrace(points, which) {
  return {
    type: "scatter", mode: "markers", hoverinfo: "skip", showlegend: false,
    x: points.map((p) => p.marks[which][0]), y: points.map((p) => p.marks[which][1]),
    marker: { size: 5, color: css("--unknown"), opacity: 0.25, symbol: points.map((p) => symbolOf(p, false)) },
  };
}

function segmentTraces(points) {
  const category = categories(state.colour);
  const byCategory = new Map();
  for (const p of points) {
    const name = category.of(p.rows[0]);
    if (!byCategory.has(name)) byCategory.set(name, [[], []]);
    const [x, y] = byCategory.get(name);
    x.push(p.marks[0][0], p.marks[1][0], null);
    y.push(p.marks[0][1], p.marks[1][1], null);
  }
  return [...byCategory].map(([name, [x, y]]) => ({ ...lineTrace(x, y, category.colour(name), 1.3), opacity: Math.max(0.14, Math.min(0.5, 40 / points.length)) }));
}

function zeroNotes(floor, area) {
  const lines = [];
  if (floor.y) {
    lines.push({ trace: lineTrace([p10(area.range.x[0] - FAR), p10(area.range.x[1] + FAR)], [floor.y, floor.y], css("--soft"), 1, "dot"),
      note: noteAt(area.range.x[1], Math.log10(floor.y), "▼ no FLOPs", { xanchor: "right", yanchor: "bottom" }) });
  }
  if (floor.x) {
    lines.push({ trace: lineTrace([floor.x, floor.x], [p10(area.range.y[0] - FAR), p10(area.range.y[1] + FAR)], css("--soft"), 1, "dot"),
      note: noteAt(Math.log10(floor.x), area.range.y[1], "◀ no bytes", { xanchor: "left", yanchor: "top" }) });
  }
  return lines;
}

export function planeFigure(kind, size) {
  const roofs = chartRoofs();
  const timed = known(roofs.beta) && known(roofs.peak);
  if (kind === "time" && !timed) return { message: "Times need a machine with a compute and a memory ceiling: name one with --machine." };
  if (kind === "combined" && !timed) kind = "complexity";
  const { points, lost, placed } = collect(shownRows, roofs);
  const whole = wholeOf(kind, roofs);
  const ghosts = isFiltered() ? collect(byTime.filter((i) => ghost[i]), roofs).points.slice(0, MAX_SINGLE) : [];
  const all = points.concat(ghosts);
  const { floor } = whole;
  positions(all, floor, kind, roofs);
  const range = state.views[kind] || whole.range;
  const area = { range, ...size };
  const guides = (state.guides ? (kind === "time" ? timeGuides(area) : intensityGuides(roofs, area)) : []).concat(zeroNotes(floor, area));
  const largest = points.reduce((most, p) => Math.max(most, p.share), 0);
  const last = kind === "combined" ? 1 : 0;
  const traces = [...guides.map((g) => g.trace), ...launchBoxes(points, roofs, area, kind === "time"), ...(ghosts.length ? [ghostTrace(ghosts, last)] : [])];
  if (kind === "combined" && state.segments) traces.push(...segmentTraces(points));
  if (kind === "combined") traces.push(markTrace(points, 0, largest, true));
  traces.push(markTrace(points, last, largest, false));
  return { kind, points, lost, placed, range, area, roofs, traces, last, largest, notes: guides.map((g) => g.note).filter(Boolean), axes: planeAxes(kind, roofs, area) };
}

function planeAxes(kind, roofs, area) {
  const memory = roofs.level ? resourceLabel(roofs.level) : "memory";
  const compute = roofs.compute ? resourceLabel(roofs.compute) : "compute";
  const each = state.perCall ? " per call" : "";
  const ticks = (axis, shift, unit) => logTicks(area.range[axis][0] - shift, area.range[axis][1] - shift, axis === "x" ? area.width : area.height * 1.6, unit);
  if (kind === "time") {
    return { x: { title: `bandwidth time at ${memory}${each}`, ...ticks("x", 0, "s") }, y: { title: `compute time at ${compute}${each}`, ...ticks("y", 0, "s") } };
  }
  const scaled = roofs.own ? `, scaled to ${compute}` : "";
  const axes = { x: { title: `bytes moved at ${memory}${each}`, ...ticks("x", 0, "B") }, y: { title: `FLOPs${each}${scaled}`, ...ticks("y", 0, "") } };
  if (kind === "combined") {
    axes.x2 = { title: `time at ${formatOf("byte/x", roofs.beta, true)} of ${memory}`, shift: Math.log10(roofs.beta), ...ticks("x", Math.log10(roofs.beta), "s") };
    axes.y2 = { title: `time at ${formatOf("flop/x", roofs.peak, true)} of ${compute}`, shift: Math.log10(roofs.peak), ...ticks("y", Math.log10(roofs.peak), "s") };
  }
  return axes;
}
