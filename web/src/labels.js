// Texts beside symbols: the important ones are placed whatever it takes, with a line to their symbol.
/** @typedef {{ left: number, top: number, right: number, bottom: number }} Box */
/** A text that wants to stand near a place. `r` is the room its symbol takes.
 * @typedef {{ x: number, y: number, r: number, width: number, height: number, must: boolean }} Wish */

const DISTANCES = [3, 14, 30, 52, 80, 115, 160, 210];
/** @type {[number, number][]} */
const SIDES = [[1, 0], [-1, 0], [0, -1], [0, 1], [1, -1], [-1, -1], [1, 1], [-1, 1]];
// Further away than this a line leads to the symbol.
const NEAR = 15;
// What covering a pixel of something else costs, beside 4 for each pixel further away.
const OVERLAP_COST = 3;

const overlap = (/** @type {Box} */ a, /** @type {Box} */ b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) * Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));

/** @type {(x: number, y: number, r: number) => Box} */
export const boxAround = (x, y, r) => ({ left: x - r, top: y - r, right: x + r, bottom: y + r });

/** Small boxes along a path, which texts should not cross. @param {[number, number][]} path @returns {Box[]} */
export function boxesAlong(path) {
  const boxes = [];
  for (let k = 1; k < path.length; k++) {
    const [[ax, ay], [bx, by]] = [path[k - 1], path[k]];
    const pieces = Math.min(60, Math.ceil(Math.hypot(bx - ax, by - ay) / 8));
    for (let n = 1; n < pieces; n++) boxes.push(boxAround(ax + ((bx - ax) * n) / pieces, ay + ((by - ay) * n) / pieces, 2));
  }
  return boxes;
}

/** The box of a text at a side of its symbol. @returns {Box} */
function boxAt({ x, y, r, width, height }, [sx, sy], distance) {
  const reach = r + distance;
  const slant = sx && sy ? 0.75 : 1;
  const left = x + sx * reach * slant - (sx > 0 ? 0 : sx < 0 ? width : width / 2);
  const top = y + sy * reach * slant - (sy > 0 ? 0 : sy < 0 ? height : height / 2);
  return { left, top, right: left + width, bottom: top + height };
}

const isInside = (box, area) => box.left >= area.left && box.right <= area.right && box.top >= area.top && box.bottom <= area.bottom;

/** Boxes for texts in their order, null for one that has no room and need not be placed.
 * @param {Wish[]} wishes
 * @param {Box[]} obstacles  what texts should not cover
 * @param {Box} area  where they may be
 * @returns {(Box & { leads: boolean } | null)[]} */
export function placeLabels(wishes, obstacles, area) {
  const taken = [...obstacles];
  return wishes.map((wish) => {
    let best = null;
    let least = Infinity;
    for (const distance of wish.must ? DISTANCES : DISTANCES.slice(0, 2)) {
      for (const side of SIDES) {
        const box = boxAt(wish, side, distance);
        if (!isInside(box, area)) continue;
        const covered = taken.reduce((sum, other) => sum + overlap(box, other), 0);
        const cost = OVERLAP_COST * covered + 4 * distance;
        if (cost < least) [best, least] = [{ ...box, leads: distance >= NEAR, covered }, cost];
      }
      if (best && best.covered === 0) break;
    }
    if (!best || (best.covered > 0 && !wish.must)) return null;
    taken.push({ left: best.left - 2, top: best.top - 2, right: best.right + 2, bottom: best.bottom + 2 });
    return best;
  });
}

/** The point of a box that is nearest to a place. @type {(box: Box, x: number, y: number) => [number, number]} */
export const nearestOf = (box, x, y) => [Math.max(box.left, Math.min(x, box.right)), Math.max(box.top, Math.min(y, box.bottom))];
