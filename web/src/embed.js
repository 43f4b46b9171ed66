// The combined chart for any page: a list of rows drawn into an element, with a slider where there are several lists.
import { make } from "./dom.js";
import { formatAmount, formatSeconds } from "./format.js";
import { measurePlane, planeScene } from "./plane.js";
import { drawLitPoints, drawScene, pointAt } from "./plot.js";

/** A row of a table of ours: amounts, time and its coordinates are the report's.
 * @typedef {{ name: string, flops: number, bytes: number, time_s: number, bandwidth_time_s: number, compute_time_s: number, bound_s: number | null,
 *   limiter: string, launches: number | null, hint?: string }} Row */
/** @typedef {{ roofs: { bytes_per_s: number, flops_per_s: number, launch_s: number | null, memory: string, compute: string }, symbols: Record<string, string>,
 *   words: Record<string, string>, frames: { label: string, rows: Row[] }[], example?: boolean }} Charted */

const HEIGHT = 560;
const LOW = 400;

/** @param {Row} row
 * @param {Charted} charted */
function placeOfRow(row, charted) {
  const kind = row.limiter in charted.symbols ? row.limiter : "unknown";
  return {
    name: row.name, F: row.flops, B: row.bytes, T: row.time_s, bandwidth: row.bandwidth_time_s, compute: row.compute_time_s, share: row.time_s, n: row.launches || 0, kind,
    paint: `var(--${kind})`, symbol: charted.symbols[kind] || "circle", hatched: kind === "unknown", over: row.bound_s > 0 ? row.time_s / row.bound_s : NaN, gap: row.bound_s > 0 ? row.time_s - row.bound_s : NaN, row,
  };
}

function hintText(p, charted) {
  const over = Number.isFinite(p.over) ? `, ${p.over.toFixed(1)}× its bound` : "";
  return `${p.name}\n${formatSeconds(p.T)}${over}\nlimited by ${charted.words[p.kind] || p.kind}\n${formatAmount(p.F, "FLOP")}, ${formatAmount(p.B, "B")}${p.row.hint ? `\n${p.row.hint}` : ""}`;
}

/** Draw the combined chart of some rows into an element, in place of what was there.
 * @param {HTMLElement} element
 * @param {Charted} charted
 * @returns {{ show: (frame: number) => void, scene: () => any }} */
function drawCombined(element, charted) {
  const { bytes_per_s: beta, flops_per_s: peak, launch_s, memory, compute } = charted.roofs;
  const roofs = { beta, peak, t0: launch_s === null ? NaN : launch_s, memory, compute };
  const isDrawn = (row) => row.time_s > 0 && row.flops !== null && row.bytes !== null && row.flops + row.bytes > 0;
  const frames = charted.frames.map(({ label, rows }) => ({ label, lost: rows.filter((row) => !isDrawn(row)), places: rows.filter(isDrawn).map((row) => placeOfRow(row, charted)).sort((a, b) => b.share - a.share) }));
  const whole = measurePlane("combined", frames.flatMap(({ places }) => places), roofs, true);
  const drawing = make("div", { class: "embedded" });
  const note = make("p", { class: "soft", "aria-live": "polite" });
  let at = 0;
  let scene = null;
  const paint = () => {
    const { places, lost, label } = frames[at];
    const size = { width: Math.max(280, drawing.clientWidth), height: drawing.clientWidth < 560 ? LOW : HEIGHT };
    scene = planeScene("combined", places, { roofs, size, whole, total: places.reduce((sum, p) => sum + p.share, 0), example: charted.example !== false });
    const svg = drawScene(drawing, scene);
    svg.addEventListener("pointermove", (event) => {
      const { left, top } = svg.getBoundingClientRect();
      const p = pointAt(scene, event.clientX - left, event.clientY - top);
      drawLitPoints(svg, scene, p ? [p] : [], []);
      drawing.title = p ? hintText(p, charted) : "";
    });
    const words = [frames.length > 1 ? label : "", lost.length ? `Not drawn, as FLOPs, bytes or time are not known: ${lost.map((row) => row.name).slice(0, 4).join(", ")}${lost.length > 4 ? "…" : ""}.` : ""];
    note.textContent = words.filter(Boolean).join(" ");
  };
  const show = (frame) => { at = frame; paint(); };
  const slider = make("input", { type: "range", min: 0, max: frames.length - 1, step: 1, value: 0, "aria-label": "Case", oninput: (event) => show(Number(event.target.value)) });
  element.replaceChildren(...(frames.length > 1 ? [slider] : []), drawing, note);
  paint();
  window.addEventListener("resize", () => requestAnimationFrame(paint));
  return { show, scene: () => scene };
}

// Every element that names its data draws itself: <div data-combined="ID of a JSON script">.
for (const element of document.querySelectorAll("[data-combined]")) {
  if (element instanceof HTMLElement) drawCombined(element, JSON.parse(document.getElementById(element.dataset.combined).textContent));
}
window.timeroofCharts = { drawCombined };
