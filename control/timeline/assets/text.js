"use strict";
// How times, names and partitions are written, and how elements are made.

/** An element with attributes and children: texts and elements. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "onclick") element.addEventListener("click", value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const LONGEST = 80; // characters of a name: ids may have 32,767

/** A name that others have chosen: a long one is cut in its middle, invisible characters are written out. */
function shown(text, most = LONGEST) {
  const tail = Math.min(19, most >> 1);
  const cut = text.length > most ? `${text.slice(0, most - tail - 1)}\u2026${text.slice(-tail)}` : text;
  return cut.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (each) => `\u27e8U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

/** A name with all that fits on a screen. */
const shownInFull = (text) => shown(text, 2000);

/** A table's own entry for a word of an event: `toString` is none. */
const entry = (table, word) => (Object.hasOwn(table, word) ? table[word] : undefined);

/** Items by a key of theirs. */
function grouped(items, keyOf) {
  const found = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (found.has(key)) found.get(key).push(item);
    else found.set(key, [item]);
  }
  return found;
}

const byId = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const numbers = new Intl.NumberFormat("en", { maximumSignificantDigits: 12 });
const count = (n, one, many = `${one}s`) => `${numbers.format(n)} ${n === 1 ? one : many}`;

/** A duration for people: "0.4 ms", "812 ms", "3.02 s", "4 min 5 s". */
function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 0.001) return `${Math.round(ms * 1e6)} ns`;
  if (ms < 0.9995) return `${+(ms * 1000).toPrecision(3)} µs`;
  if (ms < 999.95) return `${+ms.toFixed(1)} ms`;
  if (ms < 59_995) return `${(ms / 1000).toFixed(ms < 9995 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  const parts = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ].filter(([n]) => n);
  return parts.slice(0, 2).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

/** A moment as the axis has it, since the first event: "12.5 s", "2:03:04.5". */
function moment(ms, step = 1) {
  const digits = step >= 1000 ? 0 : step >= 1 ? Math.ceil(3 - Math.log10(step) - 1e-9) : 6;
  const sign = ms < 0 ? "-" : "";
  const seconds = Math.abs(ms) / 1000;
  if (seconds < 60) return `${sign}${seconds.toFixed(digits)} s`;
  const whole = Math.floor(seconds + 10 ** -digits / 2);
  const rest = Math.max(0, seconds - Math.floor(whole / 60) * 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  const minutes = Math.floor(whole / 60) % 60;
  const hours = Math.floor(whole / 3600);
  const head = hours ? `${hours}:${String(minutes).padStart(2, "0")}` : `${minutes}`;
  return `${sign}${head}:${rest}`;
}

/** A moment as a clock shows it, UTC. */
function clockTime(ns) {
  const date = new Date(ns / 1e6);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().replace("T", " ").replace("Z", " UTC");
}

/** The same without its date, in as many digits as ticks that are `step` ms apart need. */
function timeOfDay(ns, step) {
  const [, time] = clockTime(ns).split(" ");
  if (!time) return "";
  return step >= 1000 ? time.slice(0, 8) : time;
}

const STEPS = [1, 2, 5];

/** The distance of the axis's ticks in ms, so that they are `wide` pixels apart. */
function tickStep(msPerPixel, wide = 90) {
  const least = msPerPixel * wide;
  if (least > 5000) {
    const longer = [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];
    for (const seconds of longer) if (seconds * 1000 >= least) return seconds * 1000;
    return Math.ceil(least / 86_400_000) * 86_400_000;
  }
  const power = 10 ** Math.floor(Math.log10(least));
  for (const step of STEPS) if (step * power >= least) return step * power;
  return 10 * power;
}

/** Partition numbers in short: "0-3, 7". */
function ranges(partitions) {
  const found = [];
  for (let i = 0; i < partitions.length; i += 1) {
    const first = partitions[i];
    while (i + 1 < partitions.length && partitions[i + 1] === partitions[i] + 1) i += 1;
    found.push(partitions[i] === first ? `${first}` : `${first}-${partitions[i]}`);
  }
  return found.join(", ");
}

/** Partitions by topic: "orders 0-3, 7; payments 1". */
const partsText = (parts) => parts.map((part) => `${shown(part.topic)} ${ranges(part.partitions)}`).join("; ");
const partsCount = (parts) => parts.reduce((sum, part) => sum + part.partitions.length, 0);

/** The first few of a long list, and how many more there are. */
function few(texts, most = 5) {
  if (texts.length <= most + 1) return texts.join(", ");
  return `${texts.slice(0, most).join(", ")} and ${numbers.format(texts.length - most)} more`;
}
