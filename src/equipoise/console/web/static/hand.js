// @ts-check
// What a pointer does to the timeline: hover, click, drag, wheel, touch.

import { timeOf } from "./scale.js";

/** @typedef {import("./timeline.js").Timeline} Timeline */

/** @param {Timeline} line */
export function listen(line) {
  const tip = line.part("tip");
  const lanes = line.canvas("lanes");
  const head = line.canvas("head");
  lanes.addEventListener("pointermove", (event) => {
    line.hovered = true;
    const { place, time, inPlot, scale, x } = line.at(event);
    const owner = x > scale.left + scale.width ? ownerAt(line, place) : null;
    tell(line, tip, event, inPlot ? line.sentence(place, time) : owner === null ? "" : "click: bring this owner out");
  });
  head.addEventListener("pointermove", (event) => {
    const one = line.model.nearest(line.at(event).time);
    tell(line, tip, event, one ? one.text : "");
  });
  for (const canvas of [lanes, head]) {
    canvas.addEventListener("pointerleave", () => {
      line.hovered = false;
      tip.hidden = true;
    });
    canvas.addEventListener("click", (event) => click(line, event));
  }
  line.box.addEventListener("wheel", (event) => wheel(line, event), { passive: false });
  brush(line, line.canvas("foot"));
}

/** @param {Timeline} line @param {HTMLElement} tip @param {MouseEvent} event @param {string} text */
function tell(line, tip, event, text) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = line.box.getBoundingClientRect();
  const left = Math.min(event.clientX - box.left + 14, Math.max(box.width - tip.offsetWidth - 6, 0));
  tip.style.transform = `translate(${left}px, ${event.clientY - box.top + 16}px)`;
}

/** @param {Timeline} line @param {number} place */
function ownerAt(line, place) {
  const lane = line.sequence[place];
  const owner = lane === undefined ? -1 : line.model.lastOwner(lane);
  return owner >= 0 ? owner : null;
}

/** @param {Timeline} line @param {MouseEvent} event */
function click(line, event) {
  const { place, time, inPlot, x, scale } = line.at(event);
  if (!inPlot) {
    line.bringOut(x > scale.left + scale.width ? ownerAt(line, place) : null);
    return;
  }
  const one = line.model.nearest(time);
  if (!one) return;
  line.chosen = one.key;
  line.cursor = null;
  line.choose(one);
  line.changed();
  line.draw();
}

/** Plain wheel scrolls the page. @param {Timeline} line @param {WheelEvent} event */
function wheel(line, event) {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  line.zoom(event.deltaY > 0 ? 1.25 : 0.8, line.at(event).time);
}

/** A drag on the axis shows what it spans; one on the overview does so on the whole history.
 * @param {Timeline} line @param {HTMLCanvasElement} foot */
function brush(line, foot) {
  /** @type {{x: number, scale: import("./scale.js").Scale} | null} */
  let began = null;
  foot.addEventListener("pointerdown", (event) => {
    const { x, scale } = line.at(event);
    const isOverview = event.offsetY > foot.clientHeight - 24;
    began = { x, scale: isOverview ? { ...scale, ...line.whole } : scale };
    foot.setPointerCapture(event.pointerId);
  });
  foot.addEventListener("pointerup", (event) => {
    if (!began) return;
    const { x } = line.at(event);
    const [low, high] = [Math.min(x, began.x), Math.max(x, began.x)];
    if (high - low > 4) line.show({ from: timeOf(began.scale, low), to: timeOf(began.scale, high) });
    else if (began.scale.from !== line.scale.from || line.range) centre(line, timeOf(began.scale, x));
    began = null;
  });
}

/** @param {Timeline} line @param {number} time */
function centre(line, time) {
  const { from, to } = line.scale;
  line.show({ from: time - (to - from) / 2, to: time + (to - from) / 2 });
}

