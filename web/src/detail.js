// A row opened: its bounds as bars against the measured time, its full name, where numbers come from.
import { kindColour } from "./colours.js";
import {
  amountNames, amountOf, boundsOf, callLabels, elapsed, kernelEfficiency, padding, saidLabels, seconds, spread, time, whyOf, word,
} from "./data.js";
import { announce, make } from "./dom.js";
import { digitsFor, formatAmount, formatOf, formatPercent, formatSeconds, known, resourceLabel } from "./format.js";
import { isolate, state } from "./state.js";
import { factsOf, labelsOf, rowName } from "./tooltip.js";

function boundBars(i) {
  const bounds = boundsOf(i);
  const longestBar = Math.max(elapsed[i] || 0, ...bounds.map((b) => b.seconds)) || 1;
  const percent = (s) => `${Math.min(100, 100 * s / longestBar)}%`;
  const box = make("div", { class: "bounds", role: "img", "aria-label": `Time ${formatSeconds(time[i])}; ${bounds.map((b) => `${b.resource} ${formatSeconds(b.seconds)}`).join("; ")}` });
  const bar = (label, s, colour, value, small) => box.append(
    make("span", {}, label),
    make("span", { class: "track" }, make("i", { class: colour ? "" : "measured", style: { width: percent(s), background: colour || null } }), make("b", { style: { left: percent(time[i]) } })),
    make("span", { class: "value" }, value, make("small", {}, small)));
  bar("time", seconds(i), null, formatSeconds(time[i], digitsFor(spread[i])), known(spread[i]) ? ` ± ${formatPercent(spread[i] / 2)}` : "");
  for (const b of bounds) {
    bar(b.resource, b.seconds, kindColour(b.resource), formatSeconds(b.seconds), ` ${formatOf(b.resource, b.amount)} at ${formatOf(b.resource, b.rate, true)}`);
  }
  if (!bounds.length) box.append(make("span", {}, "No bound is known."));
  return box;
}

function detailFacts(i) {
  const skipped = new Set(["run", "work"]);
  const facts = factsOf(i).filter(([key]) => !skipped.has(key));
  const amounts = amountNames.map((name) => [name, amountOf(name, i)]).filter(([, v]) => v !== 0).map(([name, v]) => `${formatOf(name, v)} (${resourceLabel(name)})`);
  facts.push(["amounts", amounts.join(", ")], ["of padding", padding[i] > 0 ? `${formatAmount(padding[i], "FLOP")}, left out of the bound` : null], ["class", word("paper_class", i)], ["above roof", word("above_roof", i)], ["kernel eff.", formatPercent(kernelEfficiency[i])], ...labelsOf(saidLabels, i).slice(6), ...labelsOf(callLabels, i));
  return facts.filter(([, value]) => value);
}

export function detailBox(i) {
  const full = word("name", i) || "";
  return make("div", { class: "detail-box" },
    make("div", {}, make("h4", {}, "Bounds against the measured time"), boundBars(i),
      make("div", { class: "buttons" },
        make("button", { type: "button", onclick: () => isolate([i], rowName(i)) }, state.isolated && state.isolated.size === 1 && state.isolated.has(i) ? "Show all" : "Isolate"),
        make("button", { type: "button", onclick: () => copyText(full, "The name is copied.") }, "Copy name")),
      make("h4", { class: "after" }, "Full name"), make("p", { class: "name", dir: "auto" }, full)),
    make("div", {}, make("dl", { class: "facts" }, ...detailFacts(i).flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, String(value))])), ...unfolded(i)));
}

// Every number with its formula, sizes and source, for the longest rows.
function unfolded(i) {
  const lines = whyOf(i);
  if (!lines.length) return [];
  return [make("h4", { class: "after" }, "How these numbers came about"),
    make("dl", { class: "facts why" }, ...lines.flatMap(([title, value, words]) => [make("dt", {}, title), make("dd", {}, make("b", {}, value), ` ${words}`)]))];
}

// The clipboard where the browser allows it, a hidden field where not.
export async function copyText(text, done) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { class: "unseen" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(done);
}
