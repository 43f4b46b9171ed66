// Why a chart would be empty, in words, and the memory levels that would fill it.
import { chart } from "./charts.js";
import { writeControls } from "./controls.js";
import { amountOf, byteNames, flops, runs } from "./data.js";
import { make } from "./dom.js";
import { formatCount, known, resourceLabel } from "./format.js";
import { look, shownRows, state } from "./state.js";

const levelsWithBytes = () => byteNames.filter((name) => runs[state.roofRun].roofs[name] && shownRows.some((i) => amountOf(name, i) > 0));

const isDrawn = (figure) => (figure.kind === "roofline" ? figure.points.length > 0 : figure.points.some((p) => p.B > 0));

// "This row moves no byte", "None of these 12 rows moves a byte".
function noneOf(verb, thing) {
  const [count, article] = [shownRows.length, /^[A-Z]/.test(thing) ? "" : "a "];
  return count === 1 ? `This row ${verb} no ${thing}` : `None of these ${formatCount(count)} rows ${verb} ${article}${thing}`;
}

// Nothing where the chart has something to show; rows without bytes still show their FLOPs
// where no level has any.
export function whyEmpty(figure) {
  if (!shownRows.length || isDrawn(figure)) return null;
  const roofline = figure.kind === "roofline";
  const level = state.level ? resourceLabel(state.level) : "memory";
  if (roofline && !shownRows.some((i) => flops[i] > 0)) {
    return shownRows.some((i) => known(flops[i])) ? `${noneOf("has", "FLOPs")}, and a roofline draws FLOPs per second: see Overview, Work or Time.` : "FLOPs are not known here, and a roofline draws FLOPs per second.";
  }
  if (state.level && levelsWithBytes().length && shownRows.some((i) => amountOf(state.level, i) === 0)) {
    return `${noneOf("moves", "byte")} at ${level}: what is read and written stays in memory nearer to the cores. Choose another memory level.`;
  }
  if (roofline) return `Bytes at ${level} are not known here, and a roofline needs them.`;
  return figure.points.length ? null : `FLOPs, bytes at ${level} or time are not known for any of these rows.`;
}

export function levelButtons() {
  const choose = (level) => { look({ level, views: {} }); writeControls(); chart.focus(); };
  return levelsWithBytes().filter((name) => name !== state.level).map((name) => make("button", { type: "button", "data-level": name, onclick: () => choose(name) }, `Show ${resourceLabel(name)}`));
}
