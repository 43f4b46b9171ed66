// Seconds by place: from the whole down through modules (or phases, ops) to kernels.
import { KIND_WORDS } from "./colours.js";
import { runOf, runs, saidLabels, seconds, togetherWords, word, words } from "./data.js";
import { byId, make, selectControl, shorten } from "./dom.js";
import { formatPercent, formatSeconds } from "./format.js";
import { topLimiter } from "./groups.js";
import { allTime, isolate, light, shownRows, sums } from "./state.js";
import { rowName } from "./tooltip.js";

const HIERARCHIES = {
  module: ["module", (i) => [...(word("module", i) || "no module").split(/[./]/), rowName(i)]],
  op: ["phase, op, kernel", (i) => [word("phase", i) || "no phase", word("op", i) || word("kind", i) || "no op", rowName(i)]],
  labels: [saidLabels.slice(0, 3).join(", "), (i) => [...saidLabels.slice(0, 3).map((name) => word(`label.${name}`, i) || "–"), rowName(i)]],
};
const icicleState = { by: words("module").dict.length ? "module" : words("op").dict.length || words("phase").dict.length || !saidLabels.length ? "op" : "labels", path: [] };
const NARROWEST = 0.004;

function tree(list, pathOf) {
  const root = { name: runs.length > 1 ? "all runs" : "all", rows: [], time: 0, children: new Map(), isRoot: true };
  for (const i of list) {
    const path = runs.length > 1 ? [runs[runOf[i]].name, ...pathOf(i)] : pathOf(i);
    let node = root;
    node.rows.push(i);
    node.time += seconds(i);
    for (const name of path) {
      if (!node.children.has(name)) node.children.set(name, { name, rows: [], time: 0, children: new Map() });
      node = node.children.get(name);
      node.rows.push(i);
      node.time += seconds(i);
    }
  }
  foldRepeats(root);
  return root;
}

// Modules that differ by a number alone, as the layers of a model do.
const REPEATED = 4;
const stemOf = (name) => name.replace(/[_\s]?\d+$/, "");

function foldRepeats(node) {
  const alike = new Map();
  for (const [name, child] of node.children) {
    const stem = stemOf(name);
    if (stem !== name && child.children.size) alike.set(stem, [...(alike.get(stem) || []), name]);
  }
  for (const [stem, names] of alike) {
    if (names.length < REPEATED) continue;
    const whole = names.map((name) => node.children.get(name)).reduce(joinedNodes);
    for (const name of names) node.children.delete(name);
    const label = `${names.length} × ${stem || node.name}`;
    node.children.set(label, { ...whole, name: label, repeats: names.length });
  }
  for (const child of node.children.values()) foldRepeats(child);
}

function joinedNodes(a, b) {
  const children = new Map(a.children);
  for (const [name, child] of b.children) children.set(name, children.has(name) ? joinedNodes(children.get(name), child) : child);
  return { name: a.name, rows: a.rows.concat(b.rows), time: a.time + b.time, children };
}

// One child after another with the same rows is one step of the path.
function folded(node) {
  let [name, at] = [node.name, node];
  while (at.children.size === 1) {
    const only = at.children.values().next().value;
    if (only.children.size === 0) break;
    at = only;
    name = node.isRoot && at === only ? only.name : `${name}.${only.name}`;
  }
  return { name, node: at };
}

function levelsOf(root, depth) {
  const levels = [];
  let row = [{ ...folded(root), left: 0, width: 1, path: [] }];
  while (row.length && levels.length < depth) {
    levels.push(row);
    const next = [];
    for (const { node, left, path } of row) {
      let x = left;
      const whole = node.time || 1;
      for (const [key, child] of [...node.children].sort((a, b) => b[1].time - a[1].time)) {
        const width = row.find((r) => r.node === node).width * child.time / whole;
        if (width >= NARROWEST) next.push({ ...folded(child), left: x, width, path: [...path, key], leaf: child.children.size === 0 });
        x += width;
      }
    }
    row = next;
  }
  return levels;
}

export function writeIcicle() {
  const root = tree(shownRows, HIERARCHIES[icicleState.by][1]);
  let focus = root;
  const crumbs = [root];
  for (const name of icicleState.path) {
    if (!focus.children.has(name)) break;
    focus = focus.children.get(name);
    crumbs.push(focus);
  }
  icicleState.path = icicleState.path.slice(0, crumbs.length - 1);
  const box = byId("icicle");
  box.replaceChildren(...levelsOf(focus, window.innerWidth < 640 ? 5 : 7).map((row) => make("div", { class: "level" }, ...row.map((entry) => icicleButton(entry)))));
  byId("crumbs").replaceChildren(...crumbs.map((node, k) => make("button", { type: "button", class: "quiet", onclick: () => { icicleState.path = icicleState.path.slice(0, k); writeIcicle(); byId("crumbs").lastElementChild.focus(); } }, k ? `› ${shorten(node.name, 60)}` : node.name)));
  byId("icicle-words").textContent = `Width is time, colour what limits most of it. Press a part to go into it, a kernel to isolate it; parts under ${formatPercent(NARROWEST)} are left out.${togetherWords}`;
}

function icicleButton(entry) {
  const { node, name, left, width, path, leaf } = entry;
  const total = sums(node.rows);
  const top = topLimiter(node.rows.length ? node.rows : [0]);
  const text = `${name}: ${formatSeconds(total.time)} (${formatPercent(total.time / allTime)}), gap ${formatSeconds(total.gap)}, mostly ${KIND_WORDS[top]}`;
  const enter = () => {
    if (leaf) { isolate(node.rows, name); return; }
    const before = icicleState.path.length;
    icicleState.path = [...icicleState.path, ...path];
    writeIcicle();
    if (icicleState.path.length > before) byId("icicle").querySelector("button")?.focus();
  };
  // What is written on a part is its name; a part too thin for that is called by all that is known of it.
  const said = width > 0.05 ? `${shorten(name, 60)}${width > 0.14 ? ` · ${formatSeconds(node.time / (node.repeats || 1))}${node.repeats ? " each" : ""}` : ""}` : "";
  return make("button", {
    type: "button", class: `kind-${top}${leaf ? " leaf" : ""}${width > 0.05 ? "" : " thin"}`, title: shorten(text, 400), "aria-label": said ? null : shorten(text, 200), onclick: enter,
    style: { left: `${100 * left}%`, width: `calc(${100 * width}% - 1px)` },
    onpointerenter: () => light(node.rows), onpointerleave: () => light([]), onfocus: () => light(node.rows), onblur: () => light([]),
  }, said);
}

export function writeIcicleControls() {
  const offeredTrees = Object.entries(HIERARCHIES).filter(([key]) => (key === "module" ? words("module").dict.length : key === "labels" ? saidLabels.length : true)).map(([key, [text]]) => [key, text]);
  byId("icicle-controls").replaceChildren(selectControl("From", offeredTrees, icicleState.by, (by) => { icicleState.by = by; icicleState.path = []; writeIcicle(); }, "icicle-by"));
}
