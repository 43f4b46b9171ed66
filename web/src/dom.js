// Elements from plain data: texts are always set as text.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
/** An element of the page; which kind of element it is, the template says.
 * @type {(id: string) => any} */
export const byId = (id) => document.getElementById(id);

/** Where an event happened, or the nearest around it that a selector names.
 * @type {(event: Event, selector: string) => HTMLElement | null} */
export const around = (event, selector) => (event.target instanceof Element ? event.target.closest(selector) : null);
export const announce = (text) => { byId("announce").textContent = text; };
export const shorten = (text, limit) => (text.length > limit ? `${text.slice(0, limit - 1)}…` : text);

// The end of a long path says more than its beginning.
export const shortenStart = (text, limit) => (text.length > limit ? `…${text.slice(1 - limit)}` : text);

const ruler = document.createElement("canvas").getContext("2d");
// The longest end of a text that has room in the font of an element.
export function endThatFits(text, room, font) {
  ruler.font = font;
  const fits = (limit) => ruler.measureText(shortenStart(text, limit)).width <= room;
  if (fits(text.length)) return text;
  let [low, high] = [2, text.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return shortenStart(text, low);
}

/** Options after this one are in a list of their own. */
export const FURTHER = "\u0000further";

export function selectControl(label, options, value, change, id) {
  const select = make("select", { id, onchange: (event) => change(event.target.value) });
  let into = select;
  for (const [key, text] of options) {
    if (key === FURTHER) {
      into = make("optgroup", { label: text });
      select.append(into);
    } else into.append(make("option", { value: key, selected: key === value }, shorten(text, 60)));
  }
  return make("label", { class: "control" }, label, select);
}

export function checkControl(label, checked, change, id) {
  const input = make("input", { type: "checkbox", id, onchange: (event) => change(event.target.checked) });
  input.checked = checked;
  return make("label", { class: "check" }, input, label);
}

// Tabs that arrow keys walk through; Home and End go to the ends.
export function tabKeys(list, choose) {
  list.addEventListener("keydown", (event) => {
    const tabs = [...list.querySelectorAll('[role="tab"]')];
    const at = tabs.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const tab = tabs[(to + tabs.length) % tabs.length];
    choose(tab);
    tab.focus();
  });
}

export function markTab(list, chosen) {
  for (const tab of list.querySelectorAll('[role="tab"]')) {
    tab.setAttribute("aria-selected", tab === chosen ? "true" : "false");
    tab.tabIndex = tab === chosen ? 0 : -1;
  }
}

const frame = new Map();
// Run once at the next frame, however often it is asked for.
export function soon(key, run) {
  if (frame.has(key)) return;
  frame.set(key, requestAnimationFrame(() => { frame.delete(key); run(); }));
}

/** @type {() => HTMLDetailsElement[]} */
const openPops = () => Array.from(document.querySelectorAll("details.pop[open]"));

export function closePopsOnOutside() {
  document.addEventListener("click", (event) => {
    for (const pop of openPops()) if (event.target instanceof Node && !pop.contains(event.target)) pop.open = false;
  });
}

// Close lists that are open; whether there was one.
export function closePops() {
  const open = openPops();
  for (const pop of open) {
    pop.open = false;
    pop.querySelector("summary").focus();
  }
  return open.length > 0;
}
