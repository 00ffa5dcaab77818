// @ts-check
// Commands to a canvas, in the colours of the theme. The sheet of styles has the colours; script has none of its own.

import { pixel, SLOTS } from "./palette.js";

const NAMES = [
  "ink", "muted", "edge", "ground", "sunken", "veil", "mark", "lag", "lagfill", "red", "joined", "left", "late",
  "expired", "other", "detect", "join", "assign", "sync",
];
const FONT = '11px Inter, system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const BOLD = `600 ${FONT}`;

/** @typedef {Record<string, string>} Theme */

const CONTRAST = ["(forced-colors: active)", "(prefers-contrast: more)"];

/** Whether colours alone will not do. */
export function wantsContrast() {
  return CONTRAST.some((query) => matchMedia(query).matches);
}

/** @param {() => void} changed */
export function onContrast(changed) {
  for (const query of CONTRAST) matchMedia(query).addEventListener("change", changed);
}

/** The colours as they are now. @param {Element} element @returns {Theme} */
export function theme(element) {
  const style = getComputedStyle(element);
  /** @type {Theme} */
  const found = {};
  for (const name of NAMES) found[name] = style.getPropertyValue(`--${name}`).trim();
  SLOTS.forEach((slot, index) => (found[`slot${index}`] = `#${slot}`));
  return found;
}

/** @param {Theme} colours @param {{slot: number}[]} owners */
export function pixelColours(colours, owners) {
  return {
    ground: pixel(colours.ground ?? "ffffff"),
    red: pixel(colours.red ?? "ff0000"),
    owners: owners.map((owner) => pixel(SLOTS[owner.slot % SLOTS.length] ?? "888888")),
    contrast: wantsContrast() ? pixel(colours.ink ?? "000000") : null,
    hatched: owners.map((owner) => owner.slot % 2 === 1),
  };
}

/** A canvas of this size, sharp at any density. A size that stays costs nothing. @param {HTMLCanvasElement} canvas
 * @param {number} width @param {number} height */
export function sized(canvas, width, height) {
  const density = Math.min(window.devicePixelRatio || 1, 2);
  const wide = Math.round(width * density);
  const high = Math.round(height * density);
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(density, 0, 0, density, 0, 0);
  return context;
}

/** @param {CanvasRenderingContext2D} context @param {import("./scene.js").Command[]} commands @param {Theme} colours */
export function paint(context, commands, colours) {
  let font = "";
  for (const one of commands) {
    context.fillStyle = colours[one.fill] ?? one.fill;
    if (one.op === "rect") context.fillRect(one.x, one.y, one.w, one.h);
    else if (one.op === "text") font = text(context, one, font);
    else if (one.op === "hatch") hatch(context, one);
    else if (one.op === "shape") shape(context, one.points);
    else area(context, one, colours[one.stroke] ?? one.stroke);
  }
}

/** To set a font takes longer than to write a word in it. @param {CanvasRenderingContext2D} context
 * @param {import("./scene.js").Command & {op: "text"}} one @param {string} font that is set; empty: not known
 * @returns {string} the one that is set then */
function text(context, one, font) {
  const wanted = one.bold ? BOLD : FONT;
  if (wanted !== font) context.font = wanted;
  context.textAlign = one.align ?? "left";
  context.fillText(one.max === undefined ? one.text : cut(context, one.text, one.max), one.x, one.y);
  return wanted;
}

/** @param {CanvasRenderingContext2D} context @param {string} full @param {number} max */
function cut(context, full, max) {
  if (context.measureText(full).width <= max) return full;
  let low = 0;
  let high = full.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${full.slice(0, middle)}…`).width <= max) low = middle;
    else high = middle - 1;
  }
  return low ? `${full.slice(0, low)}…` : "";
}

/** @param {CanvasRenderingContext2D} context @param {[number, number][]} points */
function shape(context, points) {
  context.beginPath();
  points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.fill();
}

/** @param {CanvasRenderingContext2D} context @param {import("./scene.js").Command & {op: "area"}} one
 * @param {string} stroke */
function area(context, one, stroke) {
  const first = one.points[0];
  const last = one.points.at(-1);
  if (!first || !last) return;
  context.beginPath();
  context.moveTo(first[0], one.base);
  for (const [x, y] of one.points) context.lineTo(x, y);
  context.lineTo(last[0], one.base);
  context.fill();
  context.beginPath();
  one.points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.strokeStyle = stroke;
  context.lineWidth = 1.2;
  context.stroke();
}

/** @param {CanvasRenderingContext2D} context @param {import("./scene.js").Command & {op: "hatch"}} one */
function hatch(context, one) {
  context.save();
  context.beginPath();
  context.rect(one.x, one.y, one.w, one.h);
  context.clip();
  context.strokeStyle = context.fillStyle;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = one.x - one.h; x < one.x + one.w; x += 7) {
    context.moveTo(x, one.y + one.h);
    context.lineTo(x + one.h, one.y);
  }
  context.stroke();
  context.restore();
}
