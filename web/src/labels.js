// Texts beside symbols: the important ones are placed whatever it takes, with a line to their symbol.
/** @typedef {{ left: number, top: number, right: number, bottom: number }} Box */
/** A text that wants to stand near a place. `r` is the room its symbol takes; `leads`: a line leads to it from anywhere.
 * @typedef {{ x: number, y: number, r: number, width: number, height: number, must: boolean, leads?: boolean }} Wish */
/** @typedef {[number, number]} Pixel */
/** @typedef {Box & { leads: boolean, line: [Pixel, Pixel] | null, cost: number, clear: boolean }} Spot */

const DISTANCES = [3, 9, 16, 26, 38, 54, 74, 98, 128, 165, 210];
const NEAR_DISTANCES = 2;
const ANGLES = 16;
/** @type {Pixel[]} */
const DIRECTIONS = Array.from({ length: ANGLES }, (_, k) => [Math.cos(2 * Math.PI * k / ANGLES), Math.sin(2 * Math.PI * k / ANGLES)]);
// Further away than this a line leads to the symbol.
const NEAR = 15;
// Costs beside a pixel of distance: a covered pixel of a symbol, of another text, a pixel of a line under a text,
// a line that passes a text, a symbol, another line.
const COST = { symbol: 2, text: 12, path: 0.7, lineOnText: 250, lineOnSymbol: 6, crossing: 120 };
const ROUNDS = 3;

const overlap = (/** @type {Box} */ a, /** @type {Box} */ b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) * Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));

/** @type {(x: number, y: number, r: number) => Box} */
export const boxAround = (x, y, r) => ({ left: x - r, top: y - r, right: x + r, bottom: y + r });

/** How much of a line lies in a box, in pixels. Asked some 100,000 times a drawing: no lists are made.
 * @type {(a: Pixel, b: Pixel, box: Box) => number} */
function lengthWithin(a, b, box) {
  const [ax, ay, bx, by] = [a[0], a[1], b[0], b[1]];
  if ((ax <= box.left && bx <= box.left) || (ax >= box.right && bx >= box.right) || (ay <= box.top && by <= box.top) || (ay >= box.bottom && by >= box.bottom)) return 0;
  const [dx, dy] = [bx - ax, by - ay];
  let from = 0;
  let to = 1;
  if (dx !== 0) {
    from = Math.max(from, ((dx > 0 ? box.left : box.right) - ax) / dx);
    to = Math.min(to, ((dx > 0 ? box.right : box.left) - ax) / dx);
  }
  if (dy !== 0) {
    from = Math.max(from, ((dy > 0 ? box.top : box.bottom) - ay) / dy);
    to = Math.min(to, ((dy > 0 ? box.bottom : box.top) - ay) / dy);
  }
  return to > from ? (to - from) * Math.hypot(dx, dy) : 0;
}

const side = (/** @type {Pixel} */ [ax, ay], /** @type {Pixel} */ [bx, by], /** @type {Pixel} */ [x, y]) => Math.sign((bx - ax) * (y - ay) - (by - ay) * (x - ax));
/** @type {(a: [Pixel, Pixel], b: [Pixel, Pixel]) => boolean} */
const isCrossed = (a, b) => side(a[0], a[1], b[0]) !== side(a[0], a[1], b[1]) && side(b[0], b[1], a[0]) !== side(b[0], b[1], a[1]);

/** The box of a text in a direction from its symbol. @returns {Box} */
function boxAt({ x, y, r, width, height }, [ux, uy], distance) {
  const reach = r + distance;
  const left = x + ux * reach - (ux > 0.3 ? 0 : ux < -0.3 ? width : width / 2);
  const top = y + uy * reach - (uy > 0.3 ? 0 : uy < -0.3 ? height : height / 2);
  return { left, top, right: left + width, bottom: top + height };
}

const isInside = (box, area) => box.left >= area.left && box.right <= area.right && box.top >= area.top && box.bottom <= area.bottom;

/** Where a text could stand, and what it would cover of what is drawn.
 * @param {Wish} wish
 * @param {Box[]} obstacles
 * @param {Box} area
 * @param {Pixel[][]} paths
 * @returns {Spot[]} */
function spotsOf(wish, obstacles, area, paths) {
  const spots = [];
  for (const distance of wish.must ? DISTANCES : DISTANCES.slice(0, NEAR_DISTANCES)) {
    for (const direction of DIRECTIONS) {
      const box = boxAt(wish, direction, distance);
      if (!isInside(box, area)) continue;
      const leads = Boolean(wish.leads) || distance >= NEAR;
      /** @type {[Pixel, Pixel] | null} */
      const line = leads ? [nearestOf(box, wish.x, wish.y), [wish.x, wish.y]] : null;
      let [covered, passed, crossed] = [0, 0, 0];
      for (const other of obstacles) {
        covered += overlap(box, other);
        if (line && lengthWithin(line[0], line[1], other) > 0) passed++;
      }
      // A text that need not be placed stands where it covers nothing, or nowhere.
      if (covered > 0 && !wish.must) continue;
      for (const path of paths) for (let k = 1; k < path.length; k++) crossed += lengthWithin(path[k - 1], path[k], box);
      spots.push({ ...box, leads, line, clear: covered === 0 && crossed === 0, cost: distance + COST.symbol * covered + COST.path * crossed + COST.lineOnSymbol * passed });
    }
  }
  return spots;
}

/** What two placed texts do to one another. @type {(a: Spot, b: Spot) => number} */
function conflict(a, b) {
  const around = { left: b.left - 3, top: b.top - 1, right: b.right + 3, bottom: b.bottom + 1 };
  const covered = overlap(a, around);
  return (covered > 0 ? 40 + COST.text * covered : 0) + (a.line && lengthWithin(...a.line, b) > 0 ? COST.lineOnText : 0) + (b.line && lengthWithin(...b.line, a) > 0 ? COST.lineOnText : 0) +
    (a.line && b.line && isCrossed(a.line, b.line) ? COST.crossing : 0);
}

/** Boxes for texts in their order, null for one that has no room and need not be placed.
 * @param {Wish[]} wishes
 * @param {Box[]} obstacles  what texts should not cover
 * @param {Box} area  where they may be
 * @param {Pixel[][]} paths  lines that texts should not cross
 * @returns {(Spot | null)[]} */
export function placeLabels(wishes, obstacles, area, paths = []) {
  const spots = wishes.map((wish) => spotsOf(wish, obstacles, area, paths));
  /** @type {(Spot | null)[]} */
  const placed = wishes.map(() => null);
  const put = (k) => {
    const others = placed.filter((spot, at) => spot && at !== k);
    let [best, least] = [null, Infinity];
    for (const spot of spots[k]) {
      // Nothing is cheaper than the spot by itself: most need no look at the others.
      if (spot.cost >= least || (!wishes[k].must && !spot.clear)) continue;
      const together = others.reduce((sum, other) => sum + conflict(spot, other), 0);
      if (spot.cost + together < least && (wishes[k].must || together === 0)) [best, least] = [spot, spot.cost + together];
    }
    placed[k] = best;
  };
  const must = wishes.flatMap((wish, k) => (wish.must ? [k] : []));
  // Those that came first give way to later ones where that costs them less.
  for (let round = 0; round < ROUNDS; round++) must.forEach(put);
  wishes.forEach((wish, k) => { if (!wish.must) put(k); });
  return placed;
}

/** The point of a box that is nearest to a place. @type {(box: Box, x: number, y: number) => [number, number]} */
export const nearestOf = (box, x, y) => [Math.max(box.left, Math.min(x, box.right)), Math.max(box.top, Math.min(y, box.bottom))];
