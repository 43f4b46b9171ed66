// A chart as SVG: axes, areas, lines, symbols, texts. It knows pixels and nothing of rows.
import { nearestOf } from "./labels.js";
import { fixed, freshId, shape, symbolPath } from "./svg.js";

/** A symbol, or two that belong together: the ring of the work and the disc of the time.
 * @typedef {{ marks: [number, number][], size: number, paint: string, symbol: string, hatched?: boolean, flagged?: boolean, merged?: boolean,
 *   share: number, name: string }} Point */
/** @typedef {{ path: [number, number][], fill?: string, stroke?: string, width?: number, dash?: string, opacity?: number, name?: string }} Drawn */
/** @typedef {{ x: number, y: number, text: string, angle?: number, anchor?: string, dx?: number, dy?: number, name?: string }} Note */
/** @typedef {{ title: string, shift: number, ticks: { value: number, text: string }[] }} Axis */
/** @typedef {{ kind: string, width: number, height: number, margin: { l: number, r: number, t: number, b: number }, range: { x: number[], y: number[] },
 *   axes: { x: Axis, y: Axis, x2?: Axis, y2?: Axis }, under: Drawn[], notes: Note[], ghosts: [number, number][], points: Point[], rings: boolean, segments: boolean,
 *   extras: { x: number, y: number, symbol: string, r: number, paint: string, point: number }[], texts: TextBox[] }} Scene */
/** Lines of text at a place in pixels, and where a line leads from it.
 * @typedef {{ left: number, top: number, right: number, bottom: number, lines: string[], bold: boolean, name: string, paint?: string, to: [number, number] | null, arrow?: boolean }} TextBox */

const RING = 4.5;
const LINE_HEIGHT = 14;
// So many symbols are drawn one by one, small ones over large ones; more of them by colour.
const ONE_BY_ONE = 400;

/** Pixels of a place of the data.
 * @param {{ width: number, height: number, margin: { l: number, r: number, t: number, b: number }, range: { x: number[], y: number[] } }} scene
 * @returns {(mark: [number, number]) => [number, number]} */
export function pixelsOf({ width, height, margin, range }) {
  const [w, h] = [width - margin.l - margin.r, height - margin.t - margin.b];
  const far = (at) => Math.max(-1e5, Math.min(1e5, at));
  return ([x, y]) => [
    far(margin.l + (Math.log10(x) - range.x[0]) / (range.x[1] - range.x[0]) * w),
    far(margin.t + (1 - (Math.log10(y) - range.y[0]) / (range.y[1] - range.y[0])) * h),
  ];
}

const joined = (pixels) => `M${pixels.map(([x, y]) => `${fixed(x)},${fixed(y)}`).join("L")}`;

function axisParts(scene, axis, side) {
  const { width, height, margin, range } = scene;
  const flat = side === "bottom" || side === "top";
  const [low, high] = flat ? range.x : range.y;
  const length = flat ? width - margin.l - margin.r : height - margin.t - margin.b;
  const line = { left: margin.l, right: width - margin.r, top: margin.t, bottom: height - margin.b }[side];
  const out = side === "bottom" || side === "right" ? 1 : -1;
  const parts = [];
  for (const { value, text } of axis.ticks) {
    const share = (Math.log10(value) + axis.shift - low) / (high - low);
    if (share < -1e-6 || share > 1 + 1e-6) continue;
    const at = flat ? margin.l + share * length : margin.t + (1 - share) * length;
    const [x, y] = flat ? [at, line] : [line, at];
    parts.push(shape("path", { class: "tick", d: flat ? `M${fixed(x)},${fixed(y)}v${4 * out}` : `M${fixed(x)},${fixed(y)}h${4 * out}` }));
    if (text) parts.push(shape("text", { class: "tick-text", x: flat ? x : x + 7 * out, y: flat ? y + (out > 0 ? 17 : -8) : y + 4, "text-anchor": flat ? "middle" : out > 0 ? "start" : "end" }, text));
  }
  const middle = flat ? margin.l + length / 2 : margin.t + length / 2;
  const edge = { bottom: height - 6, top: 13, left: 13, right: width - 5 }[side];
  parts.push(shape("text", { class: "axis-title", "text-anchor": "middle", ...(flat ? { x: middle, y: edge } : { transform: `translate(${edge},${middle}) rotate(-90)` }) }, axis.title));
  return parts;
}

/** @param {any} scene
 * @param {(mark: [number, number]) => [number, number]} pixel */
function symbolNodes(scene, pixel) {
  const disc = scene.rings ? 1 : 0;
  const order = scene.points.map((p, k) => ({ p, k })).filter(({ p }) => p.marks[disc].every(Number.isFinite)).sort((a, b) => b.p.size - a.p.size);
  const outline = ({ p }) => symbolPath(p.symbol, ...pixel(p.marks[disc]), p.size / 2);
  const nodes = [];
  const batches = new Map();
  for (const entry of order) {
    const { p } = entry;
    const key = order.length <= ONE_BY_ONE ? nodes.length + batches.size : [p.paint, Boolean(p.hatched), Boolean(p.flagged)].join("|");
    if (!batches.has(key)) batches.set(key, { p, paths: [], k: entry.k });
    batches.get(key).paths.push(outline(entry));
  }
  for (const { p, paths, k } of batches.values()) {
    nodes.push(shape("path", { class: p.flagged ? "disc flagged" : "disc", d: paths.join(""), "data-point": order.length <= ONE_BY_ONE ? k : null, style: { fill: p.paint } }));
    if (p.hatched) nodes.push(shape("path", { d: paths.join(""), fill: `url(#${scene.hatch})`, "pointer-events": "none" }));
  }
  return nodes;
}

/** @param {any} scene
 * @param {(mark: [number, number]) => [number, number]} pixel */
function ringNodes(scene, pixel) {
  const byPaint = new Map();
  for (const p of scene.points) {
    if (!p.marks[0].every(Number.isFinite)) continue;
    if (!byPaint.has(p.paint)) byPaint.set(p.paint, []);
    byPaint.get(p.paint).push(symbolPath(p.symbol, ...pixel(p.marks[0]), RING));
  }
  return [...byPaint].map(([paint, paths]) => shape("path", { class: "ring", d: paths.join(""), style: { stroke: paint } }));
}

function segmentNodes(scene, pixel) {
  const byPaint = new Map();
  for (const p of scene.points) {
    if (!p.marks.flat().every(Number.isFinite)) continue;
    if (!byPaint.has(p.paint)) byPaint.set(p.paint, []);
    byPaint.get(p.paint).push(joined(p.marks.map(pixel)));
  }
  const opacity = Math.max(0.25, Math.min(0.75, 60 / scene.points.length));
  return [...byPaint].map(([paint, paths]) => shape("path", { class: "segment", d: paths.join(""), style: { stroke: paint, opacity, strokeWidth: scene.points.length > 200 ? 1.2 : 2.4 } }));
}

/** @param {TextBox} box */
function textNodes(box) {
  const nodes = [];
  if (box.to) nodes.push(shape("path", { class: box.arrow ? "callout-line" : "leader", d: joined([nearestOf(box, ...box.to), box.to]), "marker-end": box.arrow ? `url(#${box.arrow})` : null }));
  // A line that ends inside a disc says which one, where several lie on one another.
  if (box.to && !box.arrow) nodes.push(shape("circle", { class: "leader-end", cx: box.to[0], cy: box.to[1], r: 2 }));
  box.lines.forEach((line, k) => nodes.push(shape("text", { class: `label ${box.name}${box.bold && k === 0 ? " bold" : ""}`, x: box.left, y: box.top + 11 + k * LINE_HEIGHT, style: box.paint ? { fill: box.paint } : {} }, line)));
  return nodes;
}

/** Draw a scene into an element, in place of what was there.
 * @param {HTMLElement} element
 * @param {any} scene
 * @returns {SVGElement} */
export function drawScene(element, scene) {
  const { width, height, margin } = scene;
  const pixel = pixelsOf(scene);
  const [w, h] = [width - margin.l - margin.r, height - margin.t - margin.b];
  const [clip, hatch, arrow] = ["clip", "hatch", "arrow"].map(freshId);
  scene.hatch = hatch;
  const drawn = ({ path, fill, stroke, width: wide = 1, dash, opacity, name }) => shape("path", { class: name, d: joined(path.map(pixel)) + (fill ? "Z" : ""), style: { fill: fill || "none", stroke: stroke || "none", strokeWidth: wide, strokeDasharray: dash, opacity } });
  const note = ({ x, y, text, angle, anchor = "middle", dx = 0, dy = 0, name }) => {
    const [px, py] = pixel([x, y]);
    return shape("text", { class: name || "note", "text-anchor": anchor, transform: `translate(${fixed(px + dx)},${fixed(py + dy)})${angle ? ` rotate(${fixed(angle)})` : ""}` }, text);
  };
  const ghosts = scene.ghosts.map((mark) => symbolPath("circle", ...pixel(mark), 3)).join("");
  const svg = shape("svg", { class: "plot", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    shape("defs", {},
      shape("clipPath", { id: clip }, shape("rect", { x: margin.l, y: margin.t, width: w, height: h })),
      shape("pattern", { id: hatch, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, shape("path", { class: "hatch", d: "M0,0V5" })),
      shape("marker", { id: arrow, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, shape("path", { class: "arrow", d: "M0,0L8,4L0,8Z" }))),
    shape("rect", { class: "plot-area", x: margin.l, y: margin.t, width: w, height: h }),
    shape("g", { "clip-path": `url(#${clip})` },
      ...scene.under.map(drawn),
      ghosts ? shape("path", { class: "ghosts", d: ghosts }) : null,
      shape("g", { class: "segments" }, ...(scene.segments ? segmentNodes(scene, pixel) : [])),
      ...scene.extras.map((e) => shape("path", { class: "extra", d: symbolPath(e.symbol, ...pixel([e.x, e.y]), e.r), style: { stroke: e.paint } })),
      shape("g", { class: "discs" }, ...symbolNodes(scene, pixel)),
      shape("g", { class: "rings" }, ...(scene.rings ? ringNodes(scene, pixel) : [])),
      ...scene.notes.map(note),
      shape("g", { class: "lit" })),
    shape("rect", { class: "frame", x: margin.l, y: margin.t, width: w, height: h }),
    shape("g", { class: "axes" }, ...axisParts(scene, scene.axes.x, "bottom"), ...axisParts(scene, scene.axes.y, "left"),
      ...(scene.axes.x2 ? axisParts(scene, scene.axes.x2, "top") : []), ...(scene.axes.y2 ? axisParts(scene, scene.axes.y2, "right") : [])),
    shape("g", { class: "texts" }, ...scene.texts.flatMap((box) => textNodes(box.arrow ? { ...box, arrow } : box))),
    shape("rect", { class: "dragged", hidden: true }));
  element.querySelector("svg.plot")?.remove();
  element.prepend(svg);
  return svg;
}

/** The point at a place of the window, or nothing: the nearest symbol within reach of a finger.
 * @param {any} scene
 * @param {number} x  pixels from the left of the chart
 * @param {number} y  pixels from its top */
export function pointAt(scene, x, y) {
  const pixel = pixelsOf(scene);
  let best = null;
  let least = 12;
  scene.points.forEach((p) => {
    p.marks.forEach((mark, which) => {
      const [px, py] = pixel(mark);
      const r = scene.rings && which === 0 ? RING : p.size / 2;
      // The smaller of two symbols that both are under the pointer lies above.
      const away = Math.max(0, Math.hypot(px - x, py - y) - r) + r / 1000;
      if (away < least) [best, least] = [p, away];
    });
  });
  scene.extras.forEach((e) => {
    const [px, py] = pixel([e.x, e.y]);
    const away = Math.max(0, Math.hypot(px - x, py - y) - e.r);
    if (away < least) [best, least] = [scene.points[e.point], away];
  });
  return best;
}

/** Rings around the symbols of some points, and lines beside them.
 * @param {SVGElement} svg
 * @param {any} scene
 * @param {any[]} points
 * @param {Drawn[]} lines */
export function drawLitPoints(svg, scene, points, lines) {
  const pixel = pixelsOf(scene);
  const disc = scene.rings ? 1 : 0;
  svg.querySelector(".lit").replaceChildren(
    ...lines.map(({ path, dash }) => shape("path", { class: "lit-line", d: joined(path.map(pixel)), style: { strokeDasharray: dash } })),
    ...points.map((p) => {
      const marks = p.marks.map((mark, which) => ({ at: pixel(mark), which })).filter(({ at }) => at.every(Number.isFinite));
      return shape("path", { class: "lit-mark", d: marks.map(({ at, which }) => symbolPath(p.symbol, at[0], at[1], (which === disc ? p.size / 2 : RING) + 3)).join("") + (marks.length > 1 ? joined(marks.map(({ at }) => at)) : "") });
    }));
}
