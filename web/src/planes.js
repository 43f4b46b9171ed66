// The work plane, the time plane, and both in one chart: what of the page's rows and choices they show.
import { isDark } from "./colours.js";
import { byTime, devices } from "./data.js";
import { known } from "./format.js";
import { measurePlane, planeScene } from "./plane.js";
import { MAX_SINGLE, chartRoofs, collect, dressed, isGrouped } from "./points.js";
import { allTime, ghost, isFiltered, shownRows, state } from "./state.js";

export const LEADS = {
  combined: "Each kernel is a ring (the work it has to do) joined to a disc (the time it took). The longer the line, the more time is lost.",
  complexity: "The work alone: bytes and FLOPs. Above the balance line arithmetic is the limit, below it memory.",
  time: "The time alone: below the diagonal memory sets the pace, above it arithmetic.",
  roofline: "Speed over arithmetic intensity, with every ceiling. A kernel without FLOPs has no place here.",
};

// Axes of all rows, so that a selection does not move them; where zero stands on each.
const wholeCache = new Map();
function wholeOf(kind, roofs, grouped) {
  const key = [kind, roofs.level, roofs.computeRoof, roofs.own, state.roofRun, state.perCall, state.everything, grouped].join("|");
  if (!wholeCache.has(key)) wholeCache.set(key, measurePlane(kind, collect(byTime, roofs, grouped).points, roofs, state.everything));
  return wholeCache.get(key);
}

// Points of the rows that are shown: zooming moves the axes, not them.
const shownCache = { rows: null, key: "", found: null };
function shownPoints(roofs) {
  const key = [roofs.level, roofs.computeRoof, roofs.own, state.roofRun, state.perCall, state.points, state.colour, isGrouped(), isDark()].join("|");
  if (shownCache.rows !== shownRows || shownCache.key !== key) {
    const found = collect(shownRows, roofs);
    dressed(found.points);
    Object.assign(shownCache, { rows: shownRows, key, found });
  }
  return shownCache.found;
}

export function planeFigure(kind, size) {
  const roofs = chartRoofs();
  const timed = known(roofs.beta) && known(roofs.peak);
  if (kind === "time" && !timed) return { message: "Times need a machine with a compute and a memory ceiling: name one with --machine." };
  if (kind === "combined" && !timed) kind = "complexity";
  const { points, lost, partly, placed } = shownPoints(roofs);
  // Where one kernel's rows are looked at, the axes are its own.
  const grouped = isGrouped();
  const single = state.points === "groups" && !grouped;
  const whole = single ? measurePlane(kind, points, roofs, true) : wholeOf(kind, roofs, grouped);
  const ghosts = isFiltered() && !single ? collect(byTime.filter((i) => ghost[i]), roofs).points.slice(0, MAX_SINGLE) : [];
  const scene = planeScene(kind, points, {
    roofs, size, whole, view: state.views[kind], ghosts, total: allTime, devices, guides: state.guides, corner: state.boxes, segments: state.segments, names: state.names, example: state.example && !isFiltered(),
    words: { each: state.perCall ? " per call" : devices > 1 ? `, ${devices} devices together` : "", scaled: roofs.own ? `, scaled to ${roofs.compute}` : "" },
  });
  return { ...scene, lost, partly, placed, grouped };
}
