// @ts-check
// Deadlines drain by themselves, a step a second: an animation would keep the browser drawing all the time.

const STEP_MS = 1000;
/** @type {Map<SVGElement, {ends: number, left: number}>} what is left of a bar, and until when */
const bars = new Map();
let timer = 0;

/** Bars under an element, from what is left now to nothing. @param {ParentNode} root */
export function drain(root) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const place of root.querySelectorAll("[data-left]")) {
    const left = Number(place.getAttribute("data-left"));
    const bar = place.querySelector("rect");
    if (bar && left > 0) bars.set(bar, { ends: performance.now() + left, left });
  }
  if (bars.size && !timer) timer = setInterval(step, STEP_MS);
}

/** A bar that the page has replaced is forgotten. Without bars there is no timer. */
function step() {
  const now = performance.now();
  for (const [bar, { ends, left }] of bars) {
    if (!bar.isConnected) bars.delete(bar);
    else if (!document.hidden) bar.style.transform = `scaleX(${Math.max(ends - now, 0) / left})`;
  }
  if (!bars.size) {
    clearInterval(timer);
    timer = 0;
  }
}
