// What a pointer or a key stands on: name, place, shapes, time, bound, limiter, gap, origins.
import { KIND_WORDS } from "./colours.js";
import {
  amountOf, bound, calls, efficiency, flops, gap, idle, intensityOf, limiterKind, originNames, runOf, runs, saidLabels, seconds, spread, time, word, workUnit,
} from "./data.js";
import { byId, make, shorten, shortenStart } from "./dom.js";
import { digitsFor, formatAmount, formatCount, formatIntensity, formatPercent, formatSeconds, known, resourceLabel } from "./format.js";
import { topLimiter } from "./groups.js";
import { timesText } from "./plane.js";
import { allTime, state, sums } from "./state.js";

const tooltip = byId("tooltip");

export const rowName = (i) => word("short_name", i) || word("name", i) || "?";

// What tells rows of one short name apart: the module, the rest of the full name, or the shapes.
export function rowHint(i) {
  const [short, full] = [rowName(i), word("name", i) || ""];
  const rest = full.startsWith(short) ? full.slice(short.length).replace(/^[,\s]+/, "") : "";
  const module = word("module", i);
  return module ? shortenStart(module, 34) : rest || word("shape", i) || "";
}

function originsOf(i) {
  const found = new Map();
  for (const name of originNames) {
    const origin = word(`origin.${name}`, i);
    if (origin) found.set(origin, [...(found.get(origin) || []), name]);
  }
  return [...found].map(([origin, names]) => `${names.join(", ")} ${origin}`).join("; ");
}

export function limiterText(i) {
  const limiter = word("limiter", i);
  if (!limiter || limiter === "unknown") return "unknown";
  const kind = limiterKind(limiter);
  return limiter.includes("/") ? `${KIND_WORDS[kind]} (${resourceLabel(limiter)})` : KIND_WORDS[kind];
}

const WIDE = 0.5;
const callsText = (i) => (calls[i] === 1 ? "" : ` in ${formatCount(calls[i])} calls`);

function timeText(i) {
  const text = formatSeconds(time[i], digitsFor(spread[i]));
  // Calls that differ by more than noise does are of different sizes.
  const around = known(spread[i]) ? (spread[i] > WIDE ? `, calls differ by ${formatPercent(spread[i])}` : ` ± ${formatPercent(spread[i] / 2)}`) : "";
  return `${text}${around}${callsText(i)} (${formatPercent(seconds(i) / (runs[runOf[i]].measured_s || allTime))} of the run)`;
}

export const labelsOf = (names, i) => names.map((name) => [name, word(`label.${name}`, i)]).filter(([, value]) => value);

export function factsOf(i) {
  const level = state.level || "byte/dram";
  const moved = amountOf(level, i);
  const unit = workUnit([i]);
  const ratio = moved > 0 ? `, ${formatIntensity(intensityOf(level, i))} ${unit}/B` : "";
  return [
    ["run", runs.length > 1 ? runs[runOf[i]].name : null],
    ["module", word("module", i)],
    ["op", word("op", i)],
    ["phase", word("phase", i)],
    ["shapes", [word("shape", i), word("dtype", i)].filter(Boolean).join(" ")],
    ["time", timeText(i)],
    ["idle before", known(idle[i]) && idle[i] > 0 ? formatSeconds(idle[i]) : null],
    ["bound", `${formatSeconds(bound[i])}, ${formatPercent(efficiency[i])} efficient`],
    ["limiter", limiterText(i)],
    ["gap", formatSeconds(gap[i])],
    ["work", `${formatAmount(flops[i], unit)}, ${formatAmount(moved, "B")} at ${resourceLabel(level)}${ratio}`],
    ["origins", originsOf(i)],
    ...labelsOf(saidLabels, i).slice(0, 6),
  ].filter(([, value]) => value);
}

function fillTooltip(rows, point) {
  tooltip.textContent = "";
  const i = rows[0];
  if (rows.length > 1) {
    const total = sums(rows);
    tooltip.append(make("h4", { dir: "auto" }, point && !point.merged ? shorten(point.name, 160) : `${formatCount(rows.length)} rows drawn as one`));
    const above = rows.filter((row) => word("above_roof", row)).length;
    const facts = [["time", `${formatSeconds(total.time)} (${formatPercent(total.time / allTime)} of all)`], ["bound", formatSeconds(total.bound)],
      ["lost", `${formatSeconds(total.gap)}${point && known(point.over) ? `, ${timesText(point.over)} its limit` : ""}`],
      ["work known", point?.placed === undefined ? null : `for ${formatSeconds(point.placed)}; the disc stands where these are`],
      ["limiter", `mostly ${KIND_WORDS[topLimiter(rows)]}`], ["rows", formatCount(rows.length)], ["longest", point && !point.merged ? rowHint(i) : rowName(i)], ["above roof", above ? `${formatCount(above)} rows` : null]].filter(([, value]) => value);
    tooltip.append(make("dl", {}, ...facts.flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, shorten(value, 120))])));
    return;
  }
  const full = word("name", i) || "";
  tooltip.append(make("h4", { dir: "auto" }, shorten(rowName(i), 160)));
  if (full !== rowName(i)) tooltip.append(make("div", { class: "full", dir: "auto" }, shorten(full, 260)));
  tooltip.append(make("dl", {}, ...factsOf(i).flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, shorten(String(value), 160))])));
  const above = word("above_roof", i);
  if (above) tooltip.append(make("div", { class: "flag" }, `Above its roof: ${above}`));
}

export function showTooltip(rows, x, y, point = null) {
  fillTooltip(rows, point);
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  const left = x + 16 + width > window.innerWidth ? x - 16 - width : x + 16;
  const top = y + 16 + height > window.innerHeight ? y - 12 - height : y + 16;
  tooltip.style.left = `${Math.max(6, Math.min(left, window.innerWidth - width - 6))}px`;
  tooltip.style.top = `${Math.max(6, Math.min(top, window.innerHeight - height - 6))}px`;
}
export const hideTooltip = () => { tooltip.hidden = true; };
