// Colours of categories, in light and in dark.
import { limiterKind, partOf, payload, rowCount, runs, seconds, words } from "./data.js";
import { state } from "./state.js";

export const PALETTES = payload.look;
const OTHER = "other";
const NONE = "none";
export const KIND_WORDS = payload.look.words;
export const LOOK = payload.look;

export const cssCache = new Map();
export function css(name) {
  if (!cssCache.has(name)) cssCache.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return cssCache.get(name);
}
export const isDark = () => document.documentElement.dataset.theme === "dark";

// Modules cut to the depth that leaves a handful of them.
function moduleCategory() {
  const column = words("module");
  const parts = column.dict.map((module) => module.split(/[./]/));
  const cut = (depth) => parts.map((p) => p.slice(0, depth).join("."));
  const deepest = Math.min(12, Math.max(1, ...parts.map((p) => p.length)));
  let best = cut(1);
  for (let depth = 2; depth <= deepest && new Set(cut(depth)).size <= 9; depth++) best = cut(depth);
  return (i) => (column.codes[i] < 0 ? NONE : best[column.codes[i]]);
}

/** The variable with the colour of a part of the run: communication has that of links. */
export const partColour = (part) => `--${part === "communication" ? "link" : part}`;

const categoryCache = new Map();

// Categories of a dimension: names by time, the category of a row, its colour.
export function categories(dimension) {
  if (categoryCache.has(dimension)) return categoryCache.get(dimension);
  const column = words(dimension);
  const raw = dimension === "limit" ? partOf : dimension === "module" ? moduleCategory() : (i) => (column.codes[i] < 0 ? NONE : column.dict[column.codes[i]]);
  const time_s = new Map();
  for (let i = 0; i < rowCount; i++) time_s.set(raw(i), (time_s.get(raw(i)) || 0) + seconds(i));
  let names = [...time_s.keys()].sort((a, b) => time_s.get(b) - time_s.get(a));
  if (dimension === "run") names = runs.map((run) => run.name);
  const room = PALETTES.light.length;
  const kept = names.length > room ? names.slice(0, room) : names;
  const keptSet = new Set(kept);
  const listed = names.length > room ? [...kept, OTHER] : kept;
  const result = { names: listed, of: (i) => (keptSet.has(raw(i)) ? raw(i) : OTHER), colour: null };
  result.place = new Map(listed.map((name, k) => [name, k]));
  result.colour = (name) => {
    if (dimension === "limit") return css(partColour(name)) || css("--unknown");
    if (name === OTHER || name === NONE || name === "unknown") return css("--unknown");
    return PALETTES[isDark() ? "dark" : "light"][result.place.get(name) % room];
  };
  result.label = (name) => (dimension === "limit" ? KIND_WORDS[name] : name);
  categoryCache.set(dimension, result);
  return result;
}

export const rowColour = (i) => { const c = categories(state.colour); return c.colour(c.of(i)); };
export const kindColour = (resource) => css(`--${limiterKind(resource)}`);
