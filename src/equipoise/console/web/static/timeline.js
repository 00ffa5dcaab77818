// @ts-check
// The timeline: three canvases, a line for the cursor, and what hand and keyboard do to them.

import { Glide } from "./glide.js";
import { EMPTY, NO_OWNER, UNKNOWN } from "./model.js";
import { paint, pixelColours, sized, theme } from "./paint.js";
import { drawLanes, Rows } from "./pixels.js";
import { clamp, clock, duration, timeOf, xOf } from "./scale.js";
import * as scene from "./scene.js";

/** @typedef {import("./model.js").Model} Model */
/** @typedef {"owner" | "partition" | "lag"} Order */

export const ORDERS = /** @type {Order[]} */ (["owner", "partition", "lag"]);
const LEAST_LANE = 7;
const MOST_LANE = 26;
const LEAST_SPAN = 20_000; // a group of this moment is not stretched over the page

export class Timeline {
  /** @param {HTMLElement} box @param {Model} model */
  constructor(box, model) {
    this.box = box;
    this.model = model;
    this.part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (box.querySelector(`[data-part=${name}]`));
    this.canvas = (/** @type {string} */ name) => /** @type {HTMLCanvasElement} */ (this.part(name));
    /** @type {{from: number, to: number} | null} null: all of it, as it grows */
    this.range = null;
    this.order = /** @type {Order} */ ("owner");
    this.broughtOut = /** @type {number | null} */ (null);
    this.chosen = /** @type {string | null} */ (null);
    this.cursor = /** @type {{place: number, time: number} | null} */ (null);
    this.hovered = false;
    this.sequence = model.ordered("owner");
    this.changed = () => {};
    this.choose = (/** @type {import("./model.js").Rebalance} */ _one) => {};
    this.frame = 0;
    this.glide = new Glide();
    this.rows = new Rows(1);
    this.image = /** @type {ImageData | null} */ (null);
    this.colours = theme(box);
    this.shown = { from: 0, to: 1 };
    this.width = box.clientWidth;
  }

  /** Only then is the box measured: to ask while parts of the page are new would lay them out twice. */
  resized() {
    this.width = this.box.clientWidth;
    this.draw();
  }

  /** Draws once in the next frame, however many events come before it. */
  draw() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.drawNow());
  }

  themed() {
    this.colours = theme(this.box);
    this.draw();
  }

  /** All there is, a little wider than nothing. */
  get whole() {
    const { from, to } = this.model;
    return { from: Math.min(from, to - LEAST_SPAN), to };
  }

  get scale() {
    const width = this.width;
    const left = width < 600 ? 78 : 140;
    const right = width < 600 ? 58 : 84;
    return { ...(this.range ?? this.whole), left, width: Math.max(width - left - right, 40) };
  }

  get laneHeight() {
    return Math.max(LEAST_LANE, Math.min(MOST_LANE, Math.floor(560 / Math.max(this.model.lanes.length, 1))));
  }

  drawNow() {
    this.frame = 0;
    const started = performance.now();
    const scale = this.scale;
    if (!this.hovered || this.sequence.length !== this.model.lanes.length) {
      this.sequence = this.model.ordered(this.order);
    }
    this.#drawHead(scale);
    this.#drawLanes(scale);
    this.glide.drawn(this.canvas("lanes"), this.sequence);
    this.#drawFoot(scale);
    this.#placeCursor(scale);
    this.#heading(scale);
    this.shown = { from: scale.from, to: scale.to };
    this.box.dataset.drawn = String(Number(this.box.dataset.drawn ?? 0) + 1);
    this.box.dataset.took = (performance.now() - started).toFixed(2);
  }

  /** @param {import("./scale.js").Scale} scale */
  #drawHead(scale) {
    const context = sized(this.canvas("head"), this.width, scene.HEAD);
    context.clearRect(0, 0, this.width, scene.HEAD);
    paint(context, scene.head(this.model, scale, this.chosen), this.colours);
  }

  /** @param {import("./scale.js").Scale} scale */
  #drawLanes(scale) {
    const canvas = this.canvas("lanes");
    const height = this.laneHeight;
    const total = Math.max(this.sequence.length * height, 24);
    const context = sized(canvas, this.width, total);
    context.clearRect(0, 0, this.width, total);
    const density = canvas.height / total;
    this.#pixels(context, scale, height, density);
    paint(context, scene.bands(this.model, scale, total), this.colours);
    const place = { left: scale.left, right: scale.left + scale.width, height, byOwner: this.order === "owner" };
    paint(context, scene.labels(this.model, this.sequence, place), this.colours);
    if (this.model.state === "Empty" || !this.sequence.length) {
      const text = this.sequence.length ? "Empty" : "no partition is owned";
      const x = scale.left + scale.width - 10;
      paint(context, [{ op: "text", x, y: total / 2 + 4, text, fill: "muted", align: "right" }], this.colours);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./scale.js").Scale} scale @param {number} height
   * @param {number} density */
  #pixels(context, scale, height, density) {
    const wide = Math.round(scale.width * density);
    const high = Math.round(height * density);
    if (!this.sequence.length) return;
    if (!this.image || this.image.width !== wide || this.image.height !== high * this.sequence.length) {
      this.image = new ImageData(wide, high * this.sequence.length);
      this.rows = new Rows(wide);
    }
    const lanes = this.sequence.map((lane) => /** @type {import("./model.js").Lane} */ (this.model.lanes[lane]));
    drawLanes(new Uint32Array(this.image.data.buffer), this.rows, lanes, {
      range: { from: scale.from, to: Math.max(scale.to, scale.from + 1) },
      height: high,
      colours: pixelColours(this.colours, this.model.owners),
      broughtOut: this.broughtOut,
    });
    context.putImageData(this.image, Math.round(scale.left * density), 0);
  }

  /** @param {import("./scale.js").Scale} scale */
  #drawFoot(scale) {
    const marks = this.model.marks.length ? 14 : 0;
    const total = 18 + marks + 64 + 34;
    const context = sized(this.canvas("foot"), this.width, total);
    context.clearRect(0, 0, this.width, total);
    const whole = { ...this.whole, left: scale.left, width: scale.width };
    paint(context, [
      ...scene.axis(this.model, scale, 0),
      ...scene.lag(this.model, scale, { top: 24 + marks, height: 50 }),
      ...scene.overview(this.model, whole, scale, total - 20),
    ], this.colours);
  }

  /** @param {import("./scale.js").Scale} scale */
  #heading(scale) {
    const span = scale.to - scale.from;
    const part = this.range ? " (0 shows all)" : "";
    const heading = /** @type {HTMLElement} */ (document.getElementById("range"));
    heading.textContent = `${clock(scale.from, span)} to ${clock(scale.to, span)} UTC${part}`;
  }

  /** @param {import("./scale.js").Scale} scale */
  #placeCursor(scale) {
    const line = this.part("cursor");
    const one = this.model.rebalances.find((other) => other.key === this.chosen);
    const time = this.cursor?.time ?? one?.at;
    const isSeen = time !== undefined && time >= scale.from && time <= scale.to;
    line.hidden = !isSeen;
    if (isSeen) line.style.transform = `translateX(${xOf(scale, time)}px)`;
    const now = this.part("now");
    now.hidden = !scene.showsRunning(this.model, scale);
    if (!now.hidden) now.style.transform = `translateX(${scale.left + scale.width - 4}px)`;
    const ring = this.part("ring");
    ring.hidden = !isSeen || !this.cursor;
    if (!ring.hidden && this.cursor) {
      ring.style.transform = `translate(${scale.left}px, ${this.cursor.place * this.laneHeight - 1}px)`;
      ring.style.width = `${scale.width}px`;
      ring.style.height = `${this.laneHeight}px`;
    }
  }

  // -- what is asked of it

  /** One sentence about a lane at a time: what the hover shows and the screen reader says.
   * @param {number} place @param {number} time */
  sentence(place, time) {
    const lane = this.sequence[place];
    const row = lane === undefined ? undefined : this.model.lanes[lane];
    if (lane === undefined || !row) return "";
    const span = this.model.spanAt(lane, time);
    const wide = this.scale.to - this.scale.from;
    const until = span.to >= this.model.to ? "now" : clock(span.to, wide);
    const times = `from ${clock(span.from, wide)} to ${until}, ${duration(span.to - span.from)}`;
    const name = `${row.topic} ${row.partition}`;
    if (span.owner === UNKNOWN) return `${name}: not known before ${clock(span.to, wide)}`;
    if (span.owner === EMPTY) return `${name}: the group was empty ${times}`;
    if (span.owner === NO_OWNER) return `${name}: no owner ${times}`;
    const owner = this.model.owners[span.owner];
    const host = owner?.host ? ` (${owner.host})` : "";
    return `${name}: ${owner?.name ?? "?"}${host} ${times}${this.#share(lane, time)}`;
  }

  /** @param {number} lane @param {number} time */
  #share(lane, time) {
    const scale = this.scale;
    const half = (scale.to - scale.from) / scale.width / 2;
    let dark = 0;
    for (let at = time - half; at < time + half; ) {
      const span = this.model.spanAt(lane, at);
      const end = Math.min(span.to, time + half);
      if (span.owner === NO_OWNER) dark += end - at;
      at = Math.max(end, at + 1e-3);
    }
    const share = (dark / half) * 50;
    return share > 0.05 ? `; ${share.toFixed(1)} % of this column without owner` : "";
  }

  /** @param {number} factor below 1: nearer @param {number} [at] */
  zoom(factor, at) {
    const { from, to } = this.scale;
    const around = at ?? this.cursor?.time ?? (from + to) / 2;
    this.show({ from: around - (around - from) * factor, to: around + (to - around) * factor });
  }

  /** @param {{from: number, to: number} | null} range */
  show(range) {
    const all = this.whole;
    const next = range ? clamp(range, all) : null;
    this.range = next && next.to - next.from < (all.to - all.from) * 0.999 ? next : null;
    this.changed();
    this.draw();
  }

  /** @param {Order} order */
  orderBy(order) {
    this.order = order;
    this.sequence = this.model.ordered(order);
    this.changed();
    this.draw();
  }

  /** @param {number | null} owner */
  bringOut(owner) {
    this.broughtOut = this.broughtOut === owner ? null : owner;
    this.changed();
    this.draw();
  }

  /** Moves the keyboard's cursor. @param {number} lanes @param {number} pixels */
  move(lanes, pixels) {
    const scale = this.scale;
    const now = this.cursor ?? { place: 0, time: scale.to };
    const step = (scale.to - scale.from) / scale.width;
    const place = Math.max(0, Math.min(now.place + lanes, this.sequence.length - 1));
    this.cursor = { place, time: Math.max(scale.from, Math.min(now.time + pixels * step, scale.to)) };
    this.#intoView(place);
    this.draw();
    return this.sentence(this.cursor.place, this.cursor.time);
  }

  /** @param {number} place */
  #intoView(place) {
    const list = this.part("scroll");
    const top = place * this.laneHeight;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + this.laneHeight > list.scrollTop + list.clientHeight) {
      list.scrollTop = top + this.laneHeight - list.clientHeight;
    }
  }

  /** Goes to the next or previous rebalance, and chooses it. @param {1 | -1} direction */
  step(direction) {
    const chosen = this.model.rebalances.find((one) => one.key === this.chosen);
    const from = this.cursor?.time ?? chosen?.at ?? (direction > 0 ? this.model.from - 1 : this.model.to + 1);
    const one = this.model.next(from, direction);
    if (!one) return "";
    this.cursor = { place: this.cursor?.place ?? 0, time: one.at };
    if (this.range && (one.at < this.range.from || one.at > this.range.to)) {
      const half = (this.range.to - this.range.from) / 2;
      this.show({ from: one.at - half, to: one.at + half });
    }
    this.chosen = one.key;
    this.choose(one);
    this.draw();
    return one.text;
  }

  /** Where a pointer is. @param {MouseEvent} event */
  at(event) {
    const scale = this.scale;
    const x = event.clientX - this.box.getBoundingClientRect().left;
    const y = event.clientY - this.canvas("lanes").getBoundingClientRect().top;
    const place = Math.floor(y / this.laneHeight);
    return { x, place, time: timeOf(scale, x), inPlot: x >= scale.left && x <= scale.left + scale.width, scale };
  }
}
