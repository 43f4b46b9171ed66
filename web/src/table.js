// The table: sorted, grouped, only the rows in sight are in the document.
import { KIND_WORDS } from "./colours.js";
import { columnOf, firstColumns, offered, onPhone } from "./columns.js";
import { byTime, limiterKind, rowCount, seconds, sortedDimensions, word } from "./data.js";
import { copyText, detailBox } from "./detail.js";
import { announce, around, byId, checkControl, endThatFits, make, selectControl, shorten, soon } from "./dom.js";
import { formatCount, formatSeconds } from "./format.js";
import { numberOrder } from "./order.js";
import { GROUPINGS, PATHS, groupRows, topLimiter } from "./groups.js";
import { allTime, emit, filter, isolate, light, shownRows, state, sums } from "./state.js";
import { limiterText, rowName } from "./tooltip.js";

const ROW = 32;
const DETAIL = 300;
export const tableState = { sort: "time_s", down: true, group: "none", columns: new Set(firstColumns), open: new Set(), details: new Set(), at: 0, printing: false, groupedForPrint: false, forced: false };
const grid = byId("grid");
const gridBox = byId("grid-box");
let items = [];
let offsets = new Float64Array(1);
let body = null;

const PRINTED = new Set(["name", "time_s", "bound_s", "limiter", "gap_s", "efficiency"]);
// A group's label stands in the first column: the grouped column would say it again.
const isSaid = (key) => key !== "name" && key === tableState.group;
const tableColumns = () => offered.filter(({ key }) => (tableState.printing ? PRINTED : tableState.columns).has(key) && (key !== "rows" || tableState.group !== "none") && !isSaid(key));

function compare(a, b) {
  const unknownA = a === null || a === undefined || Number.isNaN(a);
  const unknownB = b === null || b === undefined || Number.isNaN(b);
  if (unknownA || unknownB) return Number(unknownA) - Number(unknownB);
  const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
  return tableState.down ? -order : order;
}

function sorted(list, value) {
  const keyed = list.map((entry) => [value(entry), entry]);
  keyed.sort((x, y) => compare(x[0], y[0]));
  return keyed.map((pair) => pair[1]);
}

// All rows in the order of a column, worked out when it is first asked for: of a selection, those that are in it.
const orders = new Map();
function sortedRows(list, column) {
  const key = `${column.key}${tableState.down ? "" : " up"}`;
  if (!orders.has(key)) orders.set(key, column.number ? numberOrder(byTime, column.of, tableState.down) : sorted(Array.from(byTime), column.of));
  const order = orders.get(key);
  if (list.length === rowCount) return order;
  if (list.length < rowCount / 16) return sorted(list, column.of);
  const wanted = new Uint8Array(rowCount);
  for (const i of list) wanted[i] = 1;
  return order.filter((i) => wanted[i] === 1);
}

// Another order has the same items in it.
const rowItems = [];
function rowItem(i, member) {
  if (member) return { type: "row", i, member };
  return (rowItems[i] ||= { type: "row", i, member });
}

function arrange() {
  const column = columnOf.get(tableState.sort) || columnOf.get("time_s");
  items = [];
  const details = tableState.details.size > 0;
  const add = (i, member) => {
    items.push(rowItem(i, member));
    if (details && tableState.details.has(i)) items.push({ type: "detail", i });
  };
  if (tableState.group === "none") {
    for (const i of sortedRows(shownRows, column)) add(i, false);
  } else {
    for (const group of sorted(groupRows(shownRows, tableState.group), column.group)) {
      items.push({ type: "group", group });
      if (tableState.open.has(group.key)) for (const i of sorted(group.rows, column.of)) add(i, true);
    }
  }
  offsets = new Float64Array(items.length + 1);
  for (let k = 0; k < items.length; k++) offsets[k + 1] = offsets[k] + (items[k].type === "detail" ? DETAIL : ROW);
  tableState.at = Math.min(tableState.at, Math.max(0, items.length - 1));
}

const sortSign = (column) => (tableState.sort === column.key ? (tableState.down ? "descending" : "ascending") : null);
const headText = (column) => `${column.title}${sortSign(column) ? (tableState.down ? " ↓" : " ↑") : ""}`;

// What the head was written for; another order only moves the arrow.
let headOf = "";
let heightOf = 0;
function writeHead() {
  const height = offsets[items.length];
  const isSameHeight = height === heightOf;
  heightOf = height;
  const columns = tableColumns();
  const written = columns.map((column) => column.key).join("\n") + tableState.printing;
  if (headOf === written && body) {
    grid.querySelectorAll("thead th").forEach((th, k) => {
      const sign = sortSign(columns[k]);
      if (th.getAttribute("aria-sort") === sign && !sign) return;
      if (sign) th.setAttribute("aria-sort", sign);
      else th.removeAttribute("aria-sort");
      th.firstChild.textContent = headText(columns[k]);
    });
    if (!isSameHeight) body.replaceChildren(spacer(height));
    return;
  }
  headOf = written;
  grid.textContent = "";
  const whole = columns.reduce((sum, column) => sum + column.width, 0);
  const scale = tableState.printing ? Math.min(1, 660 / whole) : 1;
  grid.style.width = `${whole * scale}px`;
  grid.append(make("colgroup", {}, ...columns.map((column) => make("col", { style: { width: `${column.width * scale}px` } }))));
  const head = make("tr", {}, ...columns.map((column, k) => make("th", { scope: "col", class: [k ? "" : "first", column.number && !column.bar ? "num" : ""].join(" ").trim() || null, "aria-sort": sortSign(column) },
    make("button", { type: "button", "data-sort": column.key, title: `Sort by ${column.title}`, onclick: () => sortBy(column) }, headText(column)))));
  // The box is as high as its rows, up to a limit: it has that height before its rows are chosen.
  body = make("tbody", {}, spacer(height));
  grid.append(make("thead", {}, head), body);
  headWidths.clear();
}

function sortBy(column) {
  const same = tableState.sort === column.key;
  tableState.down = same ? !tableState.down : Boolean(column.number);
  tableState.sort = column.key;
  writeTable({ top: true });
  emit("table");
  /** @type {HTMLElement} */
  const button = grid.querySelector(`[data-sort="${CSS.escape(column.key)}"]`);
  if (document.activeElement !== button) button?.focus();
  announce(`Sorted by ${column.title}, ${tableState.down ? "largest first" : "smallest first"}`);
}

// Why a row takes less than its bound.
function whyAboveOne(i) {
  if (word("above_roof", i)) return `above its roof: ${word("above_roof", i)}`;
  return "its launches take longer than the device works: inside the launch box";
}

function cell(column, value, i, first, rows) {
  const td = make("td", { class: [first ? "first" : "", column.number ? "num" : "", column.bar ? "has-share" : ""].join(" ").trim() || null });
  const text = column.rowText && i !== null ? column.rowText(i) : column.textOf ? column.textOf(value, rows) : column.text(value);
  if (column.bar) {
    td.append(make("span", { class: "share", style: { width: `${Math.max(0, Math.min(100, 100 * (value || 0) / largestShare))}%` } }));
    td.title = text;
  } else if (column.key === "limiter") {
    const kind = i === null ? null : limiterKind(value);
    if (kind) td.append(make("i", { class: `dot kind-${kind}` }));
    td.append(i === null ? text : onPhone ? KIND_WORDS[kind] : limiterText(i));
  } else {
    td.textContent = isPath(column, i) ? endThatFits(text, ...roomIn(column, i, first)) : shorten(text, 200);
    if (column.key === "efficiency" && i !== null && value > 1) td.title = whyAboveOne(i);
    if (first && i !== null && word("above_roof", i)) td.prepend(make("span", { class: "flag", title: `Above its roof: ${word("above_roof", i)}` }, "▲ "));
    if (first) { td.title = shorten(i === null ? text : word("name", i) || text, 600); td.dir = "auto"; } else if (!column.number) td.title = shorten(value || "", 600);
  }
  return td;
}
let largestShare = 1;

const isPath = (column, i) => PATHS.has(column.key === "name" && i === null ? tableState.group : column.key);

// What a cell has for its text, and in which font: a group's cell begins with its sign, in bold.
const MARK = 16;
let headWidths = new Map();
let gridFont = { size: "14px", family: "sans-serif", padding: 20 };
function measureHead() {
  if (headWidths.size) return;
  headWidths = new Map([...grid.querySelectorAll("thead th")].map((th) => [th.firstChild.dataset.sort, th.getBoundingClientRect().width]));
  const { fontSize, fontFamily } = getComputedStyle(grid);
  const { paddingLeft, paddingRight } = getComputedStyle(grid.querySelector("thead button"));
  gridFont = { size: fontSize, family: fontFamily, padding: parseFloat(paddingLeft) + parseFloat(paddingRight) };
}
function roomIn(column, i, first) {
  const marked = first && i === null;
  return [headWidths.get(column.key) - gridFont.padding - (marked ? MARK : 0) - 1, `${marked ? "600 " : ""}${gridFont.size} ${gridFont.family}`];
}

function rowElement(item, k) {
  const columns = tableColumns();
  if (item.type === "detail") return make("tr", { class: "detail" }, make("td", { colspan: columns.length }, detailBox(item.i)));
  const group = item.type === "group" ? item.group : null;
  const i = group ? null : item.i;
  const rows = group ? group.rows : [i];
  const value = (column) => (column.key === "limiter" && group ? null : group ? column.group(group) : column.of(i));
  const opened = group ? tableState.open.has(group.key) : tableState.details.has(i);
  const tr = make("tr", {
    class: ["item", group ? "group" : "", item.member ? "member" : "", opened ? "open" : "", state.lit.length && rows.some((row) => litSet.has(row)) ? "lit" : ""].filter(Boolean).join(" "),
    "data-item": k, "data-row": group ? null : i, "aria-rowindex": k + 2, "aria-expanded": opened ? "true" : "false", tabindex: k === tableState.at ? 0 : -1,
  }, ...columns.map((column, at) => cell(column, value(column), i, at === 0, rows)));
  if (group) {
    const place = columns.findIndex((column) => column.key === "limiter");
    if (place >= 0) {
      const top = topLimiter(group.rows);
      tr.children[place].append(make("i", { class: `dot kind-${top}` }), `${onPhone ? "" : "mostly "}${KIND_WORDS[top]}`);
    }
  }
  return tr;
}
let litSet = new Set();

const spacer = (height) => make("tr", { class: "spacer", "aria-hidden": "true" }, make("td", { colspan: tableColumns().length, style: { height: `${height}px` } }));

function itemAt(y) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (offsets[middle + 1] <= y) low = middle + 1;
    else high = middle;
  }
  return low;
}

function renderWindow() {
  if (!body) return;
  /** @type {HTMLElement} */
  const focused = document.activeElement?.closest?.("#grid tr.item");
  const keep = focused ? Number(focused.dataset.item) : null;
  const innerFocus = document.activeElement?.closest?.(".detail-box") !== null && document.activeElement?.closest?.(".detail-box") !== undefined;
  if (innerFocus && !tableState.forced) return;
  tableState.forced = false;
  const first = tableState.printing ? 0 : itemAt(Math.max(0, gridBox.scrollTop - 300));
  const last = tableState.printing ? Math.min(items.length, 100) : Math.min(items.length, itemAt(gridBox.scrollTop + gridBox.clientHeight + 300) + 1);
  measureHead();
  const fragment = document.createDocumentFragment();
  if (offsets[first] > 0) fragment.append(spacer(offsets[first]));
  for (let k = first; k < last; k++) fragment.append(rowElement(items[k], k));
  const rest = offsets[items.length] - offsets[last];
  if (rest > 0 && !tableState.printing) fragment.append(spacer(rest));
  body.replaceChildren(fragment);
  if (keep !== null) body.querySelector(`[data-item="${keep}"]`)?.focus({ preventScroll: true });
}

const totalOf = { rows: null, time: 0 };
// Another order or other rows start at the top; other columns leave the rows where they are.
export function writeTable({ top = false } = {}) {
  if (top) gridBox.scrollTop = 0;
  arrange();
  // Rows are listed longest first before they are sorted.
  largestShare = Math.max(1e-12, (shownRows.length ? seconds(shownRows[0]) : 0) / allTime);
  if (tableState.group !== "none") for (const item of items) if (item.type === "group") largestShare = Math.max(largestShare, item.group.total.time / allTime);
  writeHead();
  grid.setAttribute("aria-rowcount", String(items.length + 1));
  tableState.forced = true;
  renderWindow();
  if (totalOf.rows !== shownRows) Object.assign(totalOf, { rows: shownRows, time: sums(shownRows).time });
  byId("table-words").textContent = `${formatCount(shownRows.length)} of ${formatCount(rowCount)} rows${tableState.group === "none" ? "" : ` in ${formatCount(items.filter((item) => item.type === "group").length)} groups`}, ${formatSeconds(totalOf.time)}. A group's bound is the sum of its rows' bounds. Enter or a click opens a row.`;
}

function toggle(k) {
  const item = items[k];
  if (!item || item.type === "detail") return;
  const [set, key] = item.type === "group" ? [tableState.open, item.group.key] : [tableState.details, item.i];
  if (set.has(key)) set.delete(key);
  else set.add(key);
  tableState.at = k;
  writeTable();
  body.querySelector(`[data-item="${k}"]`)?.focus({ preventScroll: true });
}

function moveTo(k) {
  const step = k >= tableState.at ? 1 : -1;
  while (items[k] && items[k].type === "detail") k += step;
  if (!items[k]) return;
  tableState.at = k;
  if (offsets[k] < gridBox.scrollTop) gridBox.scrollTop = offsets[k];
  if (offsets[k + 1] + 40 > gridBox.scrollTop + gridBox.clientHeight) gridBox.scrollTop = offsets[k + 1] + 40 - gridBox.clientHeight;
  tableState.forced = true;
  renderWindow();
  const tr = body.querySelector(`[data-item="${k}"]`);
  tr?.focus({ preventScroll: true });
  lightItem(items[k]);
}

const lightItem = (item) => { if (item) light(item.type === "group" ? item.group.rows : [item.i]); };

export function tableEvents() {
  gridBox.addEventListener("scroll", () => soon("table", renderWindow));
  new ResizeObserver(() => { headWidths.clear(); soon("table", renderWindow); }).observe(gridBox);
  grid.addEventListener("click", (event) => {
    const tr = around(event, "tr.item");
    if (tr && !String(window.getSelection()).trim()) toggle(Number(tr.dataset.item));
  });
  grid.addEventListener("pointerover", (event) => {
    const tr = around(event, "tr.item");
    if (tr) lightItem(items[Number(tr.dataset.item)]);
  });
  grid.addEventListener("pointerleave", () => light([]));
  grid.addEventListener("focusin", (event) => {
    const tr = around(event, "tr.item");
    if (tr && event.target === tr) lightItem(items[Number(tr.dataset.item)]);
  });
  grid.addEventListener("keydown", (event) => {
    const tr = around(event, "tr.item");
    if (!tr || event.target !== tr) return;
    const k = Number(tr.dataset.item);
    const page = Math.floor(gridBox.clientHeight / ROW) - 2;
    const to = { ArrowDown: k + 1, ArrowUp: k - 1, PageDown: Math.min(items.length - 1, k + page), PageUp: Math.max(0, k - page), Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) { event.preventDefault(); moveTo(to); }
    else if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(k); }
    else if (event.key === "i" && items[k].type === "row") isolate([items[k].i], rowName(items[k].i));
  });
}

// Rows light up with their points; a row out of sight is brought into the table's window.
export function lightTable() {
  litSet = new Set(state.lit);
  const inside = gridBox.contains(document.activeElement) || gridBox.matches(":hover");
  if (state.lit.length === 1 && !inside) {
    const k = items.findIndex((item) => item.type === "row" && item.i === state.lit[0]);
    if (k >= 0 && (offsets[k] < gridBox.scrollTop || offsets[k + 1] + 36 > gridBox.scrollTop + gridBox.clientHeight)) {
      gridBox.scrollTop = Math.max(0, offsets[k] - gridBox.clientHeight / 2);
      renderWindow();
    }
  }
  for (const tr of body.querySelectorAll("tr.item")) {
    const item = items[Number(tr.dataset.item)];
    const lit = litSet.size > 0 && item && (item.type === "group" ? item.group.rows.some((row) => litSet.has(row)) : litSet.has(item.i));
    tr.classList.toggle("lit", Boolean(lit));
  }
}

// A text that a spreadsheet would run as a formula is quoted as text.
function csvCell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const text = typeof value === "number" ? String(Number(value.toPrecision(7))) : String(value).replace(/^([=+\-@\t\r])/, "'$1");
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

function tableCsv() {
  const columns = tableColumns();
  const lines = [columns.map((column) => csvCell(column.key))];
  for (const item of items) {
    if (item.type === "detail") continue;
    const full = (column) => (item.type === "group" ? column.group(item.group) : column.key === "name" ? word("name", item.i) : column.of(item.i));
    lines.push(columns.map((column) => csvCell(column.key === "limiter" && item.type === "group" ? topLimiter(item.group.rows) : full(column))));
  }
  return lines.map((line) => line.join(",")).join("\n") + "\n";
}

export function setGroup(group) {
  tableState.group = group;
  tableState.open.clear();
  tableState.at = 0;
  if (group === "none") tableState.columns.delete("rows");
  else tableState.columns.add("rows");
}

export function writeTableControls() {
  const box = byId("table-controls");
  const search = make("input", { type: "search", id: "search", placeholder: "name, op, module, shape…", value: state.search, oninput: (event) => { state.search = event.target.value; soon("search", () => filter({})); } });
  const chooser = make("div", { class: "ceiling-list" }, ...offered.slice(1).map((column) => checkControl(column.title, tableState.columns.has(column.key), (checked) => {
    if (checked) tableState.columns.add(column.key);
    else tableState.columns.delete(column.key);
    writeTable();
  }, `column-${column.key}`)));
  box.replaceChildren(
    make("label", { class: "control" }, "Search", search),
    selectControl("Group by", [...GROUPINGS.slice(0, 2), ...sortedDimensions()], tableState.group, (group) => {
      setGroup(group);
      writeTable({ top: true });
      emit("table");
    }, "group"),
    make("details", { class: "pop", id: "columns" }, make("summary", {}, "Columns"), chooser),
    make("button", { type: "button", id: "copy-csv", onclick: () => copyText(tableCsv(), `${formatCount(items.length)} lines are copied as CSV.`) }, "Copy as CSV"),
    make("button", { type: "button", id: "save-csv", onclick: () => {
      const link = make("a", { download: "timeroof-table.csv", href: URL.createObjectURL(new Blob([tableCsv()], { type: "text/csv" })) });
      link.click();
      URL.revokeObjectURL(link.href);
    } }, "Save CSV"),
  );
}
