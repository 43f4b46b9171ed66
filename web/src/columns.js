// The table's columns: how a row and a group fill them, as values (to sort, to copy) and as text.
import {
  amountOf, bound, byteNames, calls, efficiency, flops, gap, idle, integerNames, kernelEfficiency, labelNames, launches, numbers, owed, payload, runOf, runs, saidLabels, spread, time, word, words, workUnit,
} from "./data.js";
import { digitsFor, formatAmount, formatCount, formatIntensity, formatPercent, formatSeconds, known, resourceLabel } from "./format.js";
import { boundOfSums } from "./groups.js";
import { allTime } from "./state.js";
import { rowName } from "./tooltip.js";

export const onPhone = window.innerWidth < 640;
const textColumn = (key, title, width, of) => ({ key, title, width, of, group: (g) => sharedWord(g.rows, of), text: (value) => value || "" });
const numberColumn = (key, title, width, of, group, text) => ({ key, title, width, number: true, of, group, text });

// The word that all rows of a group share, or nothing.
export function sharedWord(list, of) {
  const first = of(list[0]);
  return list.every((i) => of(i) === first) ? first : null;
}

export const sumOf = (list, of) => { let total = NaN; for (const i of list) { const v = of(i); if (known(v)) total = (known(total) ? total : 0) + v; } return total; };
const summed = (key, title, width, of, text) => numberColumn(key, title, width, of, (g) => sumOf(g.rows, of), text);

// Operations, in the unit of the row or group that they are of.
const worked = (key, title, width, of, group, per) => ({
  ...numberColumn(key, integerNames.length ? title.replace("FLOP", "OP") : title, width, of, group, null),
  textOf: (value, rows) => formatAmount(value, `${workUnit(rows)}${per}`),
});

const columnList = [
  { key: "name", title: "kernel", width: onPhone ? 186 : 246, of: rowName, group: (g) => g.label, text: (value) => value || "" },
  ...(runs.length > 1 ? [textColumn("run", "run", 130, (i) => runs[runOf[i]].name)] : []),
  textColumn("op", "op", 112, (i) => word("op", i)),
  textColumn("module", "module", 165, (i) => word("module", i)),
  textColumn("phase", "phase", 92, (i) => word("phase", i)),
  textColumn("shape", "shapes", 190, (i) => word("shape", i)),
  textColumn("dtype", "dtype", 90, (i) => word("dtype", i)),
  textColumn("precision", "precision", 110, (i) => word("precision", i)),
  textColumn("kind", "kind", 80, (i) => word("kind", i)),
  textColumn("device", "device", 110, (i) => word("device", i)),
  textColumn("stream", "stream", 80, (i) => word("stream", i)),
  ...labelNames.map((name) => textColumn(`label.${name}`, name, 100, (i) => word(`label.${name}`, i))),
  numberColumn("rows", "rows", 70, () => 1, (g) => g.rows.length, formatCount),
  summed("calls", "calls", 58, (i) => calls[i], formatCount),
  summed("launches", "launches", 90, (i) => launches[i], formatCount),
  { ...numberColumn("time_s", "time", 80, (i) => time[i], (g) => g.total.time, formatSeconds), rowText: (i) => formatSeconds(time[i], digitsFor(spread[i])) },
  { ...numberColumn("share", "share", 70, (i) => time[i] / allTime, (g) => g.total.time / allTime, formatPercent), bar: true },
  numberColumn("time_spread", "spread", 80, (i) => spread[i], () => NaN, formatPercent),
  summed("idle_before_s", "idle before", 95, (i) => idle[i], formatSeconds),
  summed("bound_s", "bound", 80, (i) => bound[i], formatSeconds),
  numberColumn("bound_of_sums_s", "bound of sums", 115, (i) => bound[i], (g) => boundOfSums(g.rows), formatSeconds),
  textColumn("limiter", "limiter", onPhone ? 118 : 165, (i) => word("limiter", i)),
  summed("gap_s", "gap", 80, (i) => gap[i], formatSeconds),
  numberColumn("efficiency", "efficiency", 90, (i) => efficiency[i], (g) => g.total.settledBound / g.total.settledElapsed, formatPercent),
  numberColumn("kernel_efficiency", "kernel eff.", 100, (i) => kernelEfficiency[i], (g) => g.total.settledWork / g.total.settledTime, formatPercent),
  worked("flops", "FLOPs", 110, (i) => flops[i], (g) => sumOf(g.rows, (i) => flops[i]), ""),
  ...byteNames.map((name) => summed(name, `${resourceLabel(name)} bytes`, 105, (i) => amountOf(name, i), (value) => formatAmount(value, "B"))),
  numberColumn("ai", "FLOP/DRAM byte", 130, (i) => numbers("ai")[i], (g) => sumOf(g.rows, (i) => owed[i]) / sumOf(g.rows, (i) => amountOf("byte/dram", i)), formatIntensity),
  worked("flop_per_s", "FLOP/s", 115, (i) => numbers("achieved_flop_per_s")[i], (g) => sumOf(g.rows, (i) => owed[i]) / g.total.time, "/s"),
  numberColumn("byte_per_s", "DRAM B/s", 105, (i) => numbers("achieved_byte_per_s")[i], (g) => sumOf(g.rows, (i) => amountOf("byte/dram", i)) / g.total.time, (value) => formatAmount(value, "B/s")),
  textColumn("paper_class", "paper's class", 110, (i) => word("paper_class", i)),
  textColumn("above_roof", "above roof", 120, (i) => word("above_roof", i)),
];
// Columns of the report that this page has no words of its own for.
const OTHERS = new Set(["id", "name", "short_name", "rank", "limit", "elapsed_s", "total_flops", "owed_flops", "padding_flops", "achieved_flop_per_s", "achieved_byte_per_s", "work_bound_s", "compute_time_s", "bandwidth_time_s", ...columnList.map((column) => column.key)]);
for (const field of payload.fields.filter(({ name }) => !OTHERS.has(name))) {
  const isWord = runs.some((run) => { const c = run.columns[field.name]; return c && ("d" in c || typeof c.c === "string"); });
  const text = field.unit === "s" ? formatSeconds : (value) => (field.unit ? formatAmount(value, field.unit) : formatIntensity(value));
  columnList.push(isWord ? textColumn(field.name, field.title, 120, (i) => word(field.name, i)) : numberColumn(field.name, field.title, 110, (i) => numbers(field.name)[i], () => NaN, text));
}
export const columnOf = new Map(columnList.map((column) => [column.key, column]));

// Columns that say nothing in this report are not offered; few are shown at first.
const says = (column) => !/^(op|module|phase|shape|dtype|device|stream|paper_class|above_roof|label\.)/.test(column.key) || words(column.key).dict.length > 0;
export const offered = columnList.filter((column) => says(column) && !(column.key === "time_spread" && !spread.some(known)) && !(column.key === "idle_before_s" && !idle.some(known)));
export const firstColumns = ["name", "run", "op", "module", "phase", "calls", "time_s", "share", "bound_s", "limiter", "gap_s", "efficiency"];
if (onPhone) firstColumns.splice(0, firstColumns.length, "name", "time_s", "gap_s", "limiter", "efficiency");
else if (!words("module").dict.length) firstColumns.push(...saidLabels.slice(0, 2).map((name) => `label.${name}`));
