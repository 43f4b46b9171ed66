// Numbers as a person reads them; the same rules as units.py.
const BIG = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const SMALL = [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
const UNKNOWN_TEXT = "?";

export const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

function digitsText(value, digits) {
  if (value === 0) return "0";
  const places = digits - 1 - Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))) + 1e-12);
  return value.toFixed(Math.max(0, Math.min(places, digits - 1)));
}

function prefixOf(size, prefixes, digits) {
  const reach = 1 - 0.5 * 10 ** -digits;
  return prefixes.find(([factor]) => size / factor >= reach) || prefixes[prefixes.length - 1];
}

export function formatSeconds(value, digits = 3) {
  if (!known(value)) return UNKNOWN_TEXT;
  if (value === 0) return "0 s";
  const [factor, prefix] = prefixOf(Math.abs(value), SMALL, digits);
  return `${digitsText(value / factor, digits)} ${prefix}s`;
}

export function formatAmount(value, unit, digits = 3) {
  if (!known(value)) return UNKNOWN_TEXT;
  const [factor, prefix] = prefixOf(Math.abs(value), BIG, digits);
  return `${digitsText(value / factor, digits)} ${prefix}${unit}`.trim();
}

export function formatPercent(share, digits = 2) {
  if (!known(share)) return UNKNOWN_TEXT;
  const percent = share * 100;
  if (percent > 0 && percent < 0.01) return "< 0.01 %";
  const whole = Math.abs(percent) >= 10 ** (digits - 1) || percent === 0;
  return `${whole ? percent.toFixed(0) : String(Number(percent.toPrecision(digits)))} %`;
}

export function formatCount(value) {
  if (!known(value)) return UNKNOWN_TEXT;
  return Number.isInteger(value) ? value.toLocaleString("en") : digitsText(value, 3);
}

export const formatIntensity = (value) => (known(value) ? Number(value.toPrecision(3)).toLocaleString("en") : UNKNOWN_TEXT);

// Digits that a relative spread supports: a time that varies by a tenth has two.
export const digitsFor = (spread) => (!known(spread) ? 3 : spread < 0.002 ? 4 : spread < 0.05 ? 3 : 2);

// Operations on integers are operations, but none of floating point.
export const isInteger = (resource) => resource.startsWith("flop/int");

// A rate or an amount in the unit of its resource.
export function formatOf(resource, value, perSecond = false) {
  const head = resource.split("/")[0];
  const suffix = perSecond ? "/s" : "";
  if (head === "flop") return formatAmount(value, `${isInteger(resource) ? "OP" : "FLOP"}${suffix}`);
  if (head === "launch" || head === "fault") {
    if (perSecond) return `${formatSeconds(1 / value)} each`;
    return `${formatCount(value)} ${head === "launch" ? (value === 1 ? "launch" : "launches") : "pages"}`;
  }
  return formatAmount(value, `B${suffix}`);
}

export const resourceLabel = (resource) => {
  const [head, tail] = resource.split("/");
  if (head === "byte") return tail === "dram" ? "DRAM" : tail.toUpperCase();
  if (head === "flop") return tail;
  return tail || ({ fault: "page faults", latency: "latency" }[head] || "launching");
};
