// Time over the values of one parameter: a disc is the time of a case, the ring below it the least that its work takes.
import { formatSeconds, known } from "./format.js";
import { boxAround, placeLabels } from "./labels.js";
import { discSize } from "./plane.js";
import { pixelsOf } from "./plot.js";
import { textWidth } from "./svg.js";
import { logRange, ticksOf } from "./ticks.js";

const MARGIN = { l: 62, r: 14, t: 12, b: 44 };
// How far series stand beside one another, as a share of the room of a value.
const BESIDE = 0.5;

const p10 = (power) => 10 ** power;

/** Places of all cases: values are a step apart, series of one value side by side.
 * @param {any[]} places
 * @param {number} series  how many there are */
function setMarks(places, series) {
  for (const p of places) {
    const aside = series > 1 ? BESIDE * ((p.series + 0.5) / series - 0.5) : 0;
    const x = p10(p.value + aside);
    p.marks = [[x, p.alone || !known(p.bound) || !(p.bound > 0) ? NaN : p.bound], [x, p.T]];
    p.size = p.alone ? 10 : discSize(1, 9);
  }
}

// Cases that differ in one parameter: discs of a series joined in the order of the values, and the bounds below them.
function trails(places) {
  const held = new Map();
  for (const p of places) {
    const key = `${p.alone}|${p.series}`;
    if (!held.has(key)) held.set(key, []);
    held.get(key).push(p);
  }
  return [...held.values()].flatMap((own) => {
    own.sort((a, b) => a.value - b.value);
    const path = (which) => own.map((p) => p.marks[which]).filter((mark) => mark.every(Number.isFinite));
    const stroke = own[0].alone ? "var(--soft)" : own.every((p) => p.paint === own[0].paint) ? own[0].paint : "var(--soft)";
    return [{ path: path(1), stroke, width: 1.5, opacity: 0.55 }, { path: path(0), stroke, width: 1.2, dash: "3 3", opacity: 0.7 }].filter((line) => line.path.length > 1);
  });
}

function timeTexts(scene, places) {
  const pixel = pixelsOf(scene);
  const { width, height, margin } = scene;
  const area = { left: margin.l + 2, top: margin.t + 2, right: width - margin.r - 2, bottom: height - margin.b - 2 };
  const drawn = places.flatMap((p) => p.marks.map((mark, k) => ({ mark, r: k ? p.size / 2 : 5 }))).filter(({ mark }) => mark.every(Number.isFinite));
  const lines = scene.under.filter((line) => line.opacity).map((line) => line.path.map(pixel));
  const obstacles = drawn.map(({ mark, r }) => boxAround(...pixel(/** @type {[number, number]} */ (mark)), r + 1));
  const wishes = places.map((p) => {
    const [x, y] = pixel(p.marks[1]);
    const text = formatSeconds(p.T, 2);
    return { x, y, r: p.size / 2, width: textWidth(text), height: 14, must: false, lines: [text] };
  });
  return placeLabels(wishes, obstacles, area, lines).flatMap((box, k) => (box ? [{ ...box, lines: wishes[k].lines, bold: false, name: "other", to: null }] : []));
}

/** The scene of a sweep.
 * @param {any[]} places  cases with value (its place among the values), series, T, bound, paint, symbol
 * @param {{ values: string[], axis: string, series: number, size: { width: number, height: number } }} options */
export function sweepScene(places, { values, axis, series, size }) {
  setMarks(places, series);
  const [low, high] = logRange(places.flatMap((p) => p.marks.map(([, y]) => y)), 0.12);
  const range = { x: [-0.6, values.length - 0.4], y: [low, high] };
  const tall = size.height - MARGIN.t - MARGIN.b;
  const ticks = ticksOf(low, high, tall * 1.3, "s");
  const lines = ticks.filter(({ text }) => text).map(({ value }) => ({ path: [[p10(range.x[0]), value], [p10(range.x[1]), value]], stroke: "var(--line)" }));
  const scene = {
    kind: "sweep", width: size.width, height: size.height, margin: MARGIN, range, points: places, last: 1, rings: true, segments: true, under: [...lines, ...(axis ? trails(places) : [])], notes: [], ghosts: [], extras: [], texts: [], outside: [],
    axes: { x: { title: axis, shift: 0, ticks: values.map((text, k) => ({ value: p10(k), text })) }, y: { title: "time", shift: 0, ticks } },
  };
  scene.texts = timeTexts(scene, places.filter((p) => !p.alone));
  return scene;
}
