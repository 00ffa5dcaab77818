// @ts-check
// Time on the axis: its scale, its ticks, its text. Times are UTC, which the heading says once.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE,
  2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY,
];

/** @typedef {{from: number, to: number, left: number, width: number}} Scale */

/** @param {Scale} scale @param {number} time */
export const xOf = (scale, time) => scale.left + ((time - scale.from) / (scale.to - scale.from)) * scale.width;

/** @param {Scale} scale @param {number} x */
export const timeOf = (scale, x) => scale.from + ((x - scale.left) / scale.width) * (scale.to - scale.from);

/** Round times, at least `gap` pixels apart. @param {Scale} scale @param {number} gap @returns {number[]} */
export function ticks(scale, gap) {
  const least = ((scale.to - scale.from) / Math.max(scale.width, 1)) * gap;
  const step = STEPS.find((one) => one >= least) ?? Math.ceil(least / DAY) * DAY;
  const found = [];
  for (let time = Math.ceil(scale.from / step) * step; time <= scale.to; time += step) found.push(time);
  return found;
}

/** @param {number} time @param {number} span of what is shown: it decides how much is told */
export function clock(time, span) {
  const text = new Date(time).toISOString();
  if (span > 2 * DAY) return `${text.slice(5, 10)} ${text.slice(11, 16)}`;
  if (span < 20 * SECOND) return text.slice(11, 23);
  return span < 20 * MINUTE ? text.slice(11, 19) : text.slice(11, 16);
}

/** @param {number} ms */
export function duration(ms) {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 2 * MINUTE) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < 2 * HOUR) return `${Math.floor(ms / MINUTE)} min ${Math.floor((ms % MINUTE) / SECOND)} s`;
  return `${Math.floor(ms / HOUR)} h ${Math.floor((ms % HOUR) / MINUTE)} min`;
}

/** Figures of an axis: 819 k, 4 k. @param {number} value */
export function short(value) {
  if (value < 10_000) return Math.round(value).toLocaleString("en");
  return value < 1e7 ? `${Math.round(value / 1000).toLocaleString("en")} k` : `${Math.round(value / 1e6)} M`;
}

/** A range inside bounds, no narrower than 20 ms. @param {{from: number, to: number}} range
 * @param {{from: number, to: number}} bounds */
export function clamp(range, bounds) {
  const width = Math.min(Math.max(range.to - range.from, 20), bounds.to - bounds.from);
  const from = Math.min(Math.max(range.from, bounds.from), bounds.to - width);
  return { from, to: from + width };
}
