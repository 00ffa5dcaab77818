// @ts-check
// The keyboard, on the focused timeline and on every page.

import { ORDERS } from "./timeline.js";

/** @typedef {import("./timeline.js").Timeline} Timeline */

const FINE = 4; // pixels that an arrow moves

/** Keys of the focused timeline. @param {Timeline} line @param {(text: string) => void} say
 * @param {{table: string, open: () => void}} ways */
export function onTimeline(line, say, ways) {
  line.box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== line.box) return;
    const told = pressed(line, event, ways);
    if (told === null) return;
    event.preventDefault();
    event.stopPropagation();
    if (told) say(told);
  });
}

/** What a key did, in words; null: it is none of ours. @param {Timeline} line @param {KeyboardEvent} event
 * @param {{table: string, open: () => void}} ways @returns {string | null} */
function pressed(line, event, ways) {
  const far = event.shiftKey ? 10 : 1;
  switch (event.key) {
    case "ArrowLeft": return line.move(0, -FINE * far);
    case "ArrowRight": return line.move(0, FINE * far);
    case "ArrowUp": return line.move(-far, 0);
    case "ArrowDown": return line.move(far, 0);
    case "n": return line.step(1) || "no later rebalance";
    case "p": return line.step(-1) || "no earlier rebalance";
    case "+": case "=": return line.zoom(0.5) ?? range(line);
    case "-": return line.zoom(2) ?? range(line);
    case "0": return line.show(null) ?? range(line);
    case "o": return order(line);
    case "t": return go(ways.table);
    case "Enter": return ways.open() ?? "";
    case "Escape": return leave(line);
    default: return null;
  }
}

/** @param {Timeline} line */
function range(line) {
  line.drawNow();
  return document.getElementById("range")?.textContent ?? "";
}

/** @param {Timeline} line */
function order(line) {
  const next = ORDERS[(ORDERS.indexOf(line.order) + 1) % ORDERS.length] ?? "owner";
  line.orderBy(next);
  return `ordered by ${next}`;
}

/** @param {string} address @returns {string} */
function go(address) {
  location.assign(address);
  return "";
}

/** @param {Timeline} line */
function leave(line) {
  line.cursor = null;
  line.broughtOut = null;
  line.draw();
  line.box.blur();
  return "left the timeline";
}

const PAGES = /** @type {Record<string, string>} */ ({ g: "/groups", t: "/topics", c: "/cluster" });

/** Keys of every page: `?` lists them, `/` filters, `g g`, `g t` and `g c` go to a page. */
export function onPage() {
  let pending = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const page = PAGES[event.key];
    if (event.key === "?") showKeys();
    else if (event.key === "/") filter(event);
    else if (pending && page && event.timeStamp - pending < 1500) location.assign(page);
    pending = event.key === "g" && !pending ? event.timeStamp : 0;
  });
}

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

function showKeys() {
  const dialog = document.getElementById("keys");
  if (dialog instanceof HTMLDialogElement && !dialog.open) dialog.showModal();
}

/** @param {KeyboardEvent} event */
function filter(event) {
  const field = document.getElementById("filter");
  if (!field) return;
  event.preventDefault();
  field.focus();
}
