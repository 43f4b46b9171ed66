// Rows in groups: sums, the limiter that holds most seconds, and the bound of the summed amounts.
const GROUPINGS = [["none", "no grouping"], ["name", "kernel"], ...DIMENSIONS];
// Words whose end tells them apart, as their beginning is that of many.
const PATHS = new Set(["module", "label.source"]);

function groupRows(list, dimension) {
  const column = words(dimension);
  const found = new Map();
  for (const i of list) {
    const code = column.codes[i];
    if (found.has(code)) found.get(code).push(i);
    else found.set(code, [i]);
  }
  return [...found].map(([code, rows]) => ({ key: `${dimension}:${code}`, label: groupLabel(dimension, column, code, rows), rows, total: sums(rows) }));
}

function groupLabel(dimension, column, code, rows) {
  const own = code < 0 ? "" : column.dict[code];
  if (!own.trim()) return `(no ${new Map(GROUPINGS).get(dimension)})`;
  if (dimension === "limiter_kind") return KIND_WORDS[own] || own;
  return (dimension === "name" && sharedWord(rows, rowName)) || own;
}

function topLimiter(rows) {
  const held = new Map();
  for (const i of rows) held.set(word("limiter_kind", i), (held.get(word("limiter_kind", i)) || 0) + seconds(i));
  return [...held].sort((a, b) => b[1] - a[1])[0][0];
}

// The least time of all the work of a group done as one kernel per run, launches kept.
function boundOfSums(rows) {
  let whole = NaN;
  runs.forEach((run, r) => {
    const mine = rows.filter((i) => runOf[i] === r);
    if (!mine.length) return;
    const least = (names) => Math.max(NaN_LOW, ...names.map((name) => sumOf(mine, (i) => owedOf(name, i)) / (run.roofs[name] || [NaN])[0]).filter(known));
    const busy = least(amountNames);
    const launching = sumOf(mine, (i) => launches[i]) * launchCost(r);
    const both = [busy, launching].filter((v) => known(v) && v > NaN_LOW);
    if (!both.length) return;
    const mineBound = run.synchronous ? both.reduce((a, b) => a + b) : Math.max(...both);
    whole = (known(whole) ? whole : 0) + mineBound;
  });
  return whole;
}
const NaN_LOW = -1;
