// @ts-check
// Lanes that change places move there, so that the eye can follow its lane.

const LASTS_MS = 260;
const REST_MS = 1_000; // between two orders: in a storm of rebalances lanes jump, and the page stays quick

export class Glide {
  #frame = 0;
  #last = -Infinity;
  #order = /** @type {number[]} */ ([]);

  /** The lanes were drawn in an order: if it is new, they move there from their places before.
   * @param {HTMLCanvasElement} canvas @param {number[]} order */
  drawn(canvas, order) {
    const before = this.#order;
    this.#order = order;
    cancelAnimationFrame(this.#frame);
    if (before.length !== order.length || before.every((lane, place) => lane === order[place])) return;
    const hasRested = performance.now() - this.#last > REST_MS;
    this.#last = performance.now();
    const isWanted = !document.hidden && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (hasRested && isWanted) this.#begin(canvas, before);
  }

  /** @param {HTMLCanvasElement} canvas @param {number[]} before */
  #begin(canvas, before) {
    const context = canvas.getContext("2d");
    const still = document.createElement("canvas");
    still.width = canvas.width;
    still.height = canvas.height;
    if (!context || !still.width || !still.height) return;
    still.getContext("2d")?.drawImage(canvas, 0, 0);
    const places = new Map(before.map((lane, place) => [lane, place]));
    const from = this.#order.map((lane, place) => places.get(lane) ?? place);
    const high = Math.round(canvas.height / from.length);
    const step = () => {
      const part = Math.min((performance.now() - this.#last) / LASTS_MS, 1);
      move(context, still, from, { high, left: (1 - part) ** 3 });
      if (part < 1) this.#frame = requestAnimationFrame(step);
    };
    step();
  }
}

/** Every lane on its way. @param {CanvasRenderingContext2D} context @param {HTMLCanvasElement} still
 * @param {number[]} from the places before, in the order of now @param {{high: number, left: number}} way */
function move(context, still, from, { high, left }) {
  context.save();
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, still.width, from.length * high);
  from.forEach((was, place) => {
    const y = Math.round((place + (was - place) * left) * high);
    context.drawImage(still, 0, place * high, still.width, high, 0, y, still.width, high);
  });
  context.restore();
}
