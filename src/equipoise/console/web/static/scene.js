// @ts-check
// What stands around the lanes, as commands for a canvas: episodes, the strip of rebalances, labels, axis, lag and
// overview. Pure: the same model and scale give the same commands.

import { clock, short, ticks, xOf } from "./scale.js";

/** @typedef {import("./model.js").Model} Model */
/** @typedef {import("./scale.js").Scale} Scale */
/**
 * @typedef {{op: "rect", x: number, y: number, w: number, h: number, fill: string}
 *   | {op: "text", x: number, y: number, text: string, fill: string, align?: "left" | "right" | "center",
 *      bold?: boolean, max?: number}
 *   | {op: "area", points: [number, number][], base: number, fill: string, stroke: string}
 *   | {op: "shape", points: [number, number][], fill: string}
 *   | {op: "hatch", x: number, y: number, w: number, h: number, fill: string}} Command
 */

export const KINDS = ["joined", "left", "late", "expired", "other"];
export const HEAD = 78; // height of episodes and strip
const STRIP_TOP = 46;
const STRIP = 28;
const BIN = 3; // pixels: what is nearer stands on top of each other

/** Episodes in a few words over brackets, then the strip. @param {Model} model @param {Scale} scale
 * @param {string | null} chosen @returns {Command[]} */
export function head(model, scale, chosen) {
  const bars = [...strip(model, scale), ...underWay(model, scale)];
  return [...episodes(model, scale), ...bars, ...marker(model, scale, chosen)];
}

/** @param {Model} model @param {Scale} scale @returns {Command[]} */
function episodes(model, scale) {
  /** @type {Command[]} */
  const commands = [];
  const ends = [0, 0]; // of the text in each of two lines
  const shown = model.episodes.filter((one) => one.to >= scale.from && one.from <= scale.to);
  shown.forEach((one, index) => {
    const left = Math.max(xOf(scale, one.from), scale.left);
    const right = Math.max(Math.min(xOf(scale, one.to), scale.left + scale.width), left + 2);
    const line = left >= (ends[0] ?? 0) ? 0 : 1;
    const next = shown[index + 2];
    const limit = next ? Math.max(xOf(scale, next.from), left) : scale.left + scale.width + 40;
    const max = Math.max(limit - Math.max(left, ends[line] ?? 0) - 8, 0);
    const x = Math.max(left, ends[line] ?? 0);
    if (max > 24) {
      commands.push({ op: "text", x, y: 11 + line * 14, text: one.text, fill: "ink", bold: true, max });
      ends[line] = x + Math.min(one.text.length * 6.4, max) + 10;
    }
    commands.push({ op: "rect", x: left, y: 34, w: right - left, h: 1.5, fill: "ink" });
    commands.push({ op: "rect", x: left, y: 34, w: 1.5, h: 5, fill: "ink" });
    commands.push({ op: "rect", x: right - 1.5, y: 34, w: 1.5, h: 5, fill: "ink" });
  });
  return commands;
}

/** Bars by what stood still. Those that fall on the same pixels are stacked by kind: none hides another.
 * @param {Model} model @param {Scale} scale @returns {Command[]} */
function strip(model, scale) {
  /** @type {Map<number, Map<string, number>>} */
  const bins = new Map();
  for (const one of model.rebalances) {
    if (one.at < scale.from || one.at > scale.to) continue;
    const x = Math.floor((xOf(scale, one.at) - scale.left) / BIN);
    const bin = bins.get(x) ?? new Map();
    bin.set(one.kind, (bin.get(one.kind) ?? 0) + Math.max(one.stopped, 1));
    bins.set(x, bin);
  }
  const all = Math.max(model.lanes.length, 1);
  /** @type {Command[]} */
  const commands = [
    { op: "text", x: scale.left - 8, y: STRIP_TOP + STRIP - 8, text: "rebalances", fill: "muted", align: "right" },
    { op: "rect", x: scale.left, y: STRIP_TOP + STRIP, w: scale.width, h: 1, fill: "edge" },
  ];
  for (const [x, bin] of bins) {
    let base = STRIP_TOP + STRIP;
    const sum = [...bin.values()].reduce((a, b) => a + b, 0);
    const whole = Math.max(Math.min(sum / all, 1) * STRIP, 3 * bin.size);
    for (const kind of KINDS) {
      const stopped = bin.get(kind);
      if (!stopped) continue;
      const high = Math.max((stopped / sum) * whole, 2);
      base -= high;
      commands.push({ op: "rect", x: scale.left + x * BIN, y: base, w: BIN - 0.6, h: high, fill: kind });
    }
  }
  return commands;
}

/** Whether a rebalance runs, and the edge of now is shown. @param {Model} model @param {Scale} scale */
export function showsRunning(model, scale) {
  return Boolean(model.running) && scale.to >= model.to;
}

/** A rebalance that runs stands at the edge of now, where a mark pulses, and says for whom it waits.
 * @param {Model} model @param {Scale} scale @returns {Command[]} */
function underWay(model, scale) {
  if (!model.running || !showsRunning(model, scale)) return [];
  const x = scale.left + scale.width;
  return [
    { op: "text", x: x - 9, y: STRIP_TOP + 11, text: model.running, fill: "mark", align: "right", max: 400 },
  ];
}

/** @param {Model} model @param {Scale} scale @param {string | null} chosen @returns {Command[]} */
function marker(model, scale, chosen) {
  const one = model.rebalances.find((other) => other.key === chosen);
  if (!one || one.at < scale.from || one.at > scale.to) return [];
  const x = xOf(scale, one.at);
  return [{ op: "shape", points: [[x - 5, 40], [x + 5, 40], [x, 47]], fill: "ink" }];
}

/** A rebalance that is wide enough becomes a band over the lanes, with its phases. @param {Model} model
 * @param {Scale} scale @param {number} height @returns {Command[]} */
export function bands(model, scale, height) {
  /** @type {Command[]} */
  const commands = [];
  for (const one of model.rebalances) {
    if (!one.phases || one.started === null || one.at < scale.from) continue;
    const width = xOf(scale, one.at) - xOf(scale, one.started - one.phases.detect);
    if (width < 12 || one.started - one.phases.detect > scale.to) continue;
    let time = one.started - one.phases.detect;
    for (const phase of /** @type {const} */ (["detect", "join", "assign", "sync"])) {
      const x = Math.max(xOf(scale, time), scale.left);
      time += one.phases[phase];
      const w = Math.min(xOf(scale, time), scale.left + scale.width) - x;
      if (w <= 0) continue;
      if (phase === "detect") commands.push({ op: "hatch", x, y: 0, w, h: height, fill: "detect" });
      else commands.push({ op: "rect", x, y: 0, w, h: height, fill: phase });
    }
  }
  return commands;
}

/** Names on both sides: left the partitions, right their owner. Labels are thinned, rows never.
 * @param {Model} model @param {number[]} order @param {{left: number, right: number, height: number,
 * byOwner: boolean, trouble?: boolean}} place @returns {Command[]} */
export function labels(model, order, place) {
  /** @type {Command[]} */
  const commands = [];
  let free = -99;
  for (const run of runs(model, order, place.byOwner)) {
    const top = run.first * place.height;
    const high = run.lanes.length * place.height;
    const middle = top + high / 2;
    const owner = model.owners[run.owner];
    if (owner) {
      const fill = `slot${owner.slot}`;
      commands.push({ op: "rect", x: place.right + 4, y: top, w: 3, h: Math.max(high - 1, 1), fill });
    }
    if (middle - free < 11) continue;
    free = middle;
    const text = partitions(run.lanes.map((lane) => model.lanes[lane]));
    const max = place.left - 12;
    commands.push({ op: "text", x: place.left - 8, y: middle + 4, text, fill: "muted", align: "right", max });
    if (owner) {
      commands.push({
        op: "text", x: place.right + 11, y: middle + 4, text: owner.name, fill: "ink", bold: owner.trouble, max: 400,
      });
    }
  }
  return commands;
}

/** Lanes side by side that have one owner. @param {Model} model @param {number[]} order @param {boolean} byOwner */
export function runs(model, order, byOwner) {
  /** @type {{owner: number, first: number, lanes: number[]}[]} */
  const found = [];
  order.forEach((lane, index) => {
    const owner = model.lastOwner(lane);
    const last = found.at(-1);
    if (byOwner && last && last.owner === owner && owner >= 0) last.lanes.push(lane);
    else found.push({ owner, first: index, lanes: [lane] });
  });
  return found;
}

/** "orders 3, 9 · payments 27". @param {({topic: string, partition: number} | undefined)[]} lanes */
export function partitions(lanes) {
  /** @type {Map<string, number[]>} */
  const topics = new Map();
  for (const lane of lanes) if (lane) topics.set(lane.topic, [...(topics.get(lane.topic) ?? []), lane.partition]);
  return [...topics].map(([topic, numbers]) => `${topic} ${numbers.join(", ")}`).join(" · ");
}

/** The axis and its marks. @param {Model} model @param {Scale} scale @param {number} top @returns {Command[]} */
export function axis(model, scale, top) {
  /** @type {Command[]} */
  const commands = [];
  const span = scale.to - scale.from;
  for (const time of ticks(scale, 84)) {
    const x = xOf(scale, time);
    commands.push({ op: "rect", x, y: top, w: 1, h: 4, fill: "edge" });
    commands.push({ op: "text", x, y: top + 15, text: clock(time, span), fill: "muted", align: "center" });
  }
  let free = 0;
  for (const mark of model.marks) {
    if (mark.at < scale.from || mark.at > scale.to) continue;
    const x = xOf(scale, mark.at);
    commands.push({ op: "shape", points: [[x - 4, top + 28], [x + 4, top + 28], [x, top + 20]], fill: "mark" });
    if (x < free) continue;
    const wide = mark.text.length * 6.2;
    const turned = x + wide > scale.left + scale.width;
    commands.push({ op: "text", x: turned ? x - 7 : x + 7, y: top + 28, text: mark.text, fill: "mark",
      align: turned ? "right" : "left" });
    free = x + wide + 14;
  }
  return commands;
}

/** @param {Model} model @param {Scale} scale @param {{top: number, height: number}} box @returns {Command[]} */
export function lag(model, scale, box) {
  const { at, records } = model.lag;
  const bottom = box.top + box.height;
  /** @type {[number, number][]} */
  const points = [];
  let most = 0;
  records.forEach((value, index) => {
    const time = at[index] ?? 0;
    if (time >= scale.from && time <= scale.to) most = Math.max(most, value ?? 0);
  });
  records.forEach((value, index) => {
    const time = at[index] ?? 0;
    if (value === null || time < scale.from || time > scale.to) return;
    points.push([xOf(scale, time), bottom - (most ? (value / most) * (box.height - 4) : 0)]);
  });
  const last = records.at(-1);
  const right = scale.left + scale.width + 6;
  /** @type {Command[]} */
  const commands = [
    { op: "rect", x: scale.left, y: bottom, w: scale.width, h: 1, fill: "edge" },
    { op: "text", x: scale.left - 8, y: box.top + 11, text: "lag", fill: "muted", align: "right" },
    { op: "text", x: scale.left - 8, y: box.top + 24, text: "records", fill: "muted", align: "right" },
  ];
  if (points.length) {
    commands.push({ op: "area", points, base: bottom, fill: "lagfill", stroke: "lag" });
    commands.push({ op: "text", x: right, y: box.top + 9, text: short(most), fill: "muted" });
    if (last !== null && last !== undefined && most > 0 && last < most * 0.7) {
      commands.push({ op: "text", x: right, y: bottom, text: short(last), fill: "muted" });
    }
  } else commands.push({ op: "text", x: scale.left + 8, y: bottom - 8, text: "not known yet", fill: "muted" });
  return commands;
}

/** The whole history, with what is shown of it between two edges. @param {Model} model @param {Scale} whole
 * @param {{from: number, to: number}} range @param {number} top @returns {Command[]} */
export function overview(model, whole, range, top) {
  /** @type {Command[]} */
  const commands = [{ op: "rect", x: whole.left, y: top, w: whole.width, h: 18, fill: "sunken" }];
  for (const one of model.rebalances) {
    const high = Math.max((one.stopped / Math.max(model.lanes.length, 1)) * 14, 3);
    commands.push({ op: "rect", x: xOf(whole, one.at), y: top + 17 - high, w: 1, h: high, fill: one.kind });
  }
  const left = xOf(whole, range.from);
  const right = xOf(whole, range.to);
  commands.push({ op: "rect", x: whole.left, y: top, w: Math.max(left - whole.left, 0), h: 18, fill: "veil" });
  const rest = Math.max(whole.left + whole.width - right, 0);
  commands.push({ op: "rect", x: right, y: top, w: rest, h: 18, fill: "veil" });
  commands.push({ op: "rect", x: left, y: top, w: 2, h: 18, fill: "ink" });
  commands.push({ op: "rect", x: right - 2, y: top, w: 2, h: 18, fill: "ink" });
  commands.push({ op: "text", x: whole.left - 8, y: top + 13, text: "all of it", fill: "muted", align: "right" });
  return commands;
}
