// Light, dark or as the system: the button of every page.
import { byId } from "./dom.js";
import { recall, remember } from "./memory.js";

const THEMES = { auto: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
let theme = "auto";

/** Colours as they were chosen; on paper they are light. */
export function applyTheme() {
  document.documentElement.dataset.theme = theme === "auto" ? (systemDark.matches ? "dark" : "light") : theme;
  const [sign, text] = THEMES[theme];
  byId("theme").textContent = sign;
  byId("theme").setAttribute("aria-label", `Colours: ${text}`);
}

/** Take the remembered choice and follow the button and the system.
 * @param {() => void} changed  what to do after every change */
export function startTheme(changed) {
  theme = recall("theme") in THEMES ? recall("theme") : "auto";
  applyTheme();
  byId("theme").hidden = false;
  byId("theme").addEventListener("click", () => {
    const names = Object.keys(THEMES);
    theme = names[(names.indexOf(theme) + 1) % names.length];
    remember("theme", theme);
    applyTheme();
    changed();
  });
  systemDark.addEventListener("change", () => { applyTheme(); changed(); });
}
