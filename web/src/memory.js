// What a page remembers between visits, where the browser lets it.
/** @type {(key: string) => string | null} */
export const recall = (key) => { try { return localStorage.getItem(`timeroof-${key}`); } catch { return null; } };

/** @type {(key: string, value: string) => void} */
export const remember = (key, value) => { try { localStorage.setItem(`timeroof-${key}`, value); } catch { /* a page from disk may not remember */ } };
