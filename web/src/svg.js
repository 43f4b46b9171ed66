// SVG from plain data: texts are always set as text. Symbols of one size have one area.
const NAMESPACE = "http://www.w3.org/2000/svg";

/** An SVG element with attributes and children; what is null is left out.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | null)} children
 * @returns {SVGElement} */
export function shape(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Tenths of a pixel, of numbers that a path has thousands of. */
export const fixed = (value) => Math.round(value * 10) / 10;
function polygon(x, y, corners, r) {
  let path = "";
  for (const corner of corners) path += `${path ? "L" : "M"}${fixed(x + r * corner[0])},${fixed(y + r * corner[1])}`;
  return `${path}Z`;
}
const regular = (count, radius, turn) => Array.from({ length: count }, (_, k) => {
  const angle = turn + (2 * Math.PI * k) / count;
  return [radius * Math.sin(angle), -radius * Math.cos(angle)];
});

const [NEAR, FAR] = [0.396, 1.189];
// Corners of symbols whose area is that of a circle of radius 1.
const CORNERS = {
  square: regular(4, 1.2533, Math.PI / 4),
  diamond: regular(4, 1.2533, 0),
  triangle: regular(3, 1.555, 0),
  pentagon: regular(5, 1.1495, 0),
  hexagon: regular(6, 1.0997, 0),
  cross: [[-NEAR, -FAR], [NEAR, -FAR], [NEAR, -NEAR], [FAR, -NEAR], [FAR, NEAR], [NEAR, NEAR], [NEAR, FAR], [-NEAR, FAR], [-NEAR, NEAR], [-FAR, NEAR], [-FAR, -NEAR], [-NEAR, -NEAR]],
};

/** The outline of a symbol around a place, with the area of a circle of that radius.
 * @param {string} symbol
 * @param {number} x
 * @param {number} y
 * @param {number} r
 * @returns {string} */
export function symbolPath(symbol, x, y, r) {
  const corners = CORNERS[symbol];
  if (corners) return polygon(x, y, corners, r);
  return `M${fixed(x - r)},${fixed(y)}a${fixed(r)},${fixed(r)} 0 1 0 ${fixed(2 * r)},0a${fixed(r)},${fixed(r)} 0 1 0 ${fixed(-2 * r)},0Z`;
}

let fontFamily = "";
const textRuler = document.createElement("canvas").getContext("2d");
/** The width of a text in pixels, in the page's font.
 * @type {(text: string, size?: number, bold?: boolean) => number} */
export function textWidth(text, size = 11.5, bold = false) {
  fontFamily ||= getComputedStyle(document.body).fontFamily;
  textRuler.font = `${bold ? "600 " : ""}${size}px ${fontFamily}`;
  return textRuler.measureText(text).width;
}

let made = 0;
/** A name that no other element of the document has. */
export const freshId = (stem) => `${stem}-${++made}`;
