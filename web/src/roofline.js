// The classic roofline with every memory level and every ceiling.
import { sumOf } from "./columns.js";
import { amountOf, byTime, byteNames, intensityOf, numbers, runs } from "./data.js";
import { formatOf, known, resourceLabel } from "./format.js";
import { FAR, discSize, p10, sceneTexts } from "./plane.js";
import { MAX_SINGLE, chartRoofs, collect, dressed, isGrouped } from "./points.js";
import { roofNotes } from "./rooflabels.js";
import { allTime, ghost, isFiltered, shownRows, state } from "./state.js";
import { logRange, ticksOf } from "./ticks.js";

export const LEVEL_SYMBOLS = { "byte/l1": "triangle", "byte/l2": "square", "byte/l3": "diamond", "byte/dram": "circle" };
const MAX_LEVELLED = 150;

export const runUses = (resource) => runs.some((run) => run.amounts.includes(resource)) && (resource.startsWith("byte/") || numbers(resource, 0).some((v) => v > 0));

export function ceilingList() {
  const run = runs[state.roofRun];
  return Object.entries(run.roofs).filter(([resource]) => /^(flop|byte)\//.test(resource))
    .map(([resource, [rate, origin]]) => ({ resource, rate, origin, printed: run.printed[resource] }))
    .sort((a, b) => a.resource.slice(0, 4).localeCompare(b.resource.slice(0, 4)) || b.rate - a.rate);
}

// Roofs as lines, the compute roofs named at their right ends; the slanted ones are named later.
function ceilingLines(area) {
  const { x: [x0, x1] } = area.range;
  const on = ceilingList().filter((c) => !state.ceilingsOff.has(c.resource));
  const top = Math.max(...on.filter((c) => c.resource.startsWith("flop/")).map((c) => c.rate), 0) || Infinity;
  const fastest = Math.max(...on.filter((c) => c.resource.startsWith("byte/")).map((c) => c.rate), 0) || Infinity;
  const [under, notes, placed, slanted] = [[], [], [], []];
  const roof = (c, rate, dash, named) => {
    const [width, text] = [dash ? 1 : 1.8, `${resourceLabel(c.resource)} ${formatOf(c.resource, rate, true)}`];
    if (c.resource.startsWith("flop/")) {
      const start = Math.max(p10(x0 - FAR), Number.isFinite(fastest) ? rate / fastest : 0);
      under.push({ path: [[start, rate], [p10(x1 + FAR), rate]], stroke: "var(--compute)", width, dash });
      const y = Math.log10(rate);
      const near = placed.some((other) => Math.abs(other - y) * area.height / (area.range.y[1] - area.range.y[0]) < 15);
      if (named && !near) {
        placed.push(y);
        notes.push({ x: p10(x1), y: rate, text, anchor: "end", dx: -5, dy: -4, name: "note strong" });
      }
      return;
    }
    const end = Math.min(p10(x1 + FAR), top / rate);
    under.push({ path: [[p10(x0 - FAR), p10(x0 - FAR) * rate], [end, end * rate]], stroke: "var(--memory)", width, dash });
    if (named) slanted.push({ text, rate, end });
  };
  for (const c of on) {
    roof(c, c.rate, undefined, true);
    if (state.printed && c.printed && Math.abs(c.printed / c.rate - 1) > 0.005) roof(c, c.printed, "2 3", false);
  }
  return { under, notes, slanted };
}

// Symbols of the other memory levels, and lines that join them to the chosen one's.
function levelMarks(points) {
  const [extras, joins] = [[], []];
  points.slice(0, MAX_LEVELLED).forEach((p, k) => {
    if (p.merged) return;
    for (const level of byteNames.filter((name) => name !== state.level)) {
      const ai = intensityAt(p, level);
      if (!known(ai) || !(ai > 0)) continue;
      joins.push({ path: [[ai, p.marks[0][1]], p.marks[0]], stroke: "var(--line)", width: 1 });
      extras.push({ x: ai, y: p.marks[0][1], symbol: LEVEL_SYMBOLS[level] || "circle", r: Math.max(3, p.size * 0.25), paint: p.paint, point: k });
    }
  });
  return { extras, joins };
}

// Intensity of a point at another level.
const intensityAt = (p, level) => (p.rows.length > 1 ? p.F / sumOf(p.rows, (i) => amountOf(level, i)) : intensityOf(level, p.rows[0]));

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
  const points = dressed(found.filter((p) => p.F > 0 && p.B > 0));
  const flopless = found.filter((p) => p.F === 0).flatMap((p) => p.rows);
  const byteless = found.filter((p) => p.F > 0 && p.B === 0).flatMap((p) => p.rows);
  const largest = points.reduce((most, p) => Math.max(most, p.share), 0);
  for (const p of points.concat(ghosts)) {
    p.marks = [[p.F / p.B, p.F / p.T]];
    p.size = discSize(p.share, largest);
  }
  const narrow = size.width < 560;
  const margin = { l: narrow ? 54 : 78, r: 20, t: narrow ? 40 : 30, b: narrow ? 42 : 48 };
  const range = state.views.roofline || rooflineRange(roofs);
  const area = { range, width: Math.max(80, size.width - margin.l - margin.r), height: Math.max(80, size.height - margin.t - margin.b) };
  const ceilings = ceilingLines(area);
  const levels = state.allLevels ? levelMarks(points) : { extras: [], joins: [] };
  const named = roofNotes(ceilings.slanted, points, area, narrow);
  const axis = (name, title) => ({ title, shift: 0, ticks: ticksOf(range[name][0], range[name][1], name === "x" ? area.width : area.height * 1.6, "") });
  const scene = {
    kind: "roofline", width: size.width, height: size.height, margin, range, area, roofs, points, lost, flopless, byteless, placed, grouped: isGrouped(), largest, last: 0, rings: false, segments: false, outside: [],
    under: [...ceilings.under, ...levels.joins], notes: [...ceilings.notes, ...named.notes], ghosts: ghosts.map((p) => p.marks[0]), extras: levels.extras, texts: [],
    axes: { x: axis("x", "arithmetic intensity, FLOP per byte"), y: axis("y", "speed, FLOP/s") },
  };
  const half = Math.ceil(named.listed.length / 2);
  const lists = narrow ? [named.listed.slice(0, half), named.listed.slice(half)] : [named.listed];
  const listed = lists.filter((names) => names.length).map((names) => names.join(" · "));
  scene.texts = [...(listed.length ? [{ left: margin.l, top: 2, lines: listed, bold: false, name: "listed", to: null }] : []), ...sceneTexts(scene, { names: state.names, example: false, total: allTime, roofs })];
  return scene;
}
