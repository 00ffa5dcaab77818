// @ts-check
// One group: the timeline, its stream, and the panel that says why.

import { listen } from "./hand.js";
import { onTimeline } from "./keys.js";
import { replace, stream } from "./live.js";
import { Model } from "./model.js";
import { ORDERS, Timeline } from "./timeline.js";

const EVENTS = ["rebalance", "state", "members", "lag", "fragments", "reset"];

/** @param {HTMLElement} box */
export async function groupPage(box) {
  const api = box.dataset.api ?? "";
  const first = await snapshot(api, box.dataset.words);
  const line = new Timeline(box, new Model(first));
  const panel = panelOf();
  const said = /** @type {HTMLElement} */ (document.getElementById("said"));
  line.choose = (one) => panel(one.url);
  line.changed = () => remember(line);
  look(line);
  say(line, first.html);
  listen(line);
  onTimeline(line, (text) => (said.textContent = text), {
    table: box.dataset.table ?? "",
    open: () => open(line),
  });
  buttons(line, said);
  new ResizeObserver(() => line.resized()).observe(box);
  addEventListener("themed", () => line.themed());
  line.drawNow();
  follow(line, api);
  grow(line);
}

/** The picture, and the words beside it where the page has older ones.
 * @param {string} api @param {string} [words] of which moment the page has them
 * @returns {Promise<import("./model.js").Snapshot>} */
async function snapshot(api, words = "") {
  const answer = await fetch(`${api}/timeline?words=${words}`);
  if (!answer.ok) throw new Error(`the timeline cannot be had: ${answer.status}`);
  return answer.json();
}

/** Puts the words about the group into their places. Those about a rebalance stay while the reader looks at another.
 * @param {Timeline} line @param {Record<string, string>} [html] */
function say(line, html) {
  if (!html) return;
  if (line.chosen !== null) delete html.why;
  replace(html);
}

/** @param {Timeline} line @param {string} api */
function follow(line, api) {
  let isAsking = false;
  const again = async () => {
    if (isAsking) return;
    isAsking = true;
    try {
      const now = await snapshot(api);
      line.model = new Model(now);
      say(line, now.html);
      line.draw();
    } finally {
      isAsking = false;
    }
  };
  stream(() => `${api}/stream?after=${line.model.seq}`, EVENTS, (type, data, id) => {
    if (type === "reset") {
      again();
      return;
    }
    if (id <= line.model.seq) return;
    line.model.seq = id;
    if (type === "fragments") say(line, data.html);
    if (!line.model.apply(type, data)) again();
    line.draw();
  });
}

/** Time goes on without events: the picture is drawn again when that is a pixel's worth, at most once a second.
 * @param {Timeline} line */
function grow(line) {
  const ahead = Date.now() - line.model.to; // the clocks of server and browser differ
  setInterval(() => {
    if (document.hidden || document.getElementById("live")?.dataset.state !== "live") return;
    const now = Date.now() - ahead;
    const pixel = (line.shown.to - line.shown.from) / line.scale.width;
    if (now - line.model.to < pixel) return;
    line.model.to = now;
    if (!line.range) line.draw();
  }, 1000);
}

/** The panel of one rebalance comes from the server, in its words. */
function panelOf() {
  const place = document.getElementById("why");
  let wanted = "";
  return async (/** @type {string} */ url) => {
    wanted = url;
    const answer = await fetch(`${url}?part=panel`);
    const html = await answer.text();
    if (answer.ok && wanted === url && place) replace({ why: html }); // another may have been chosen meanwhile
  };
}

/** @param {Timeline} line */
function open(line) {
  const one = line.model.rebalances.find((other) => other.key === line.chosen);
  const near = one ?? (line.cursor ? line.model.nearest(line.cursor.time) : null);
  if (near) location.assign(near.url);
}

/** A look can be linked: the address has it. @param {Timeline} line */
function remember(line) {
  const url = new URL(location.href);
  const set = (/** @type {string} */ name, /** @type {string | null} */ value) => {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  };
  set("from", line.range ? String(Math.round(line.range.from)) : null);
  set("to", line.range ? String(Math.round(line.range.to)) : null);
  set("order", line.order === "owner" ? null : line.order);
  set("member", line.broughtOut === null ? null : (line.model.owners[line.broughtOut]?.id ?? null));
  history.replaceState(null, "", url);
  const select = document.getElementById("order");
  if (select instanceof HTMLSelectElement) select.value = line.order;
}

/** @param {Timeline} line */
function look(line) {
  const asked = new URL(location.href).searchParams;
  const [from, to] = [Number(asked.get("from")), Number(asked.get("to"))];
  if (from && to > from) line.range = { from, to };
  const order = ORDERS.find((one) => one === asked.get("order"));
  if (order) line.orderBy(order);
  const owner = line.model.owners.findIndex((one) => one.id === asked.get("member"));
  if (owner >= 0) line.broughtOut = owner;
}

/** @param {Timeline} line @param {HTMLElement} said */
function buttons(line, said) {
  const select = document.getElementById("order");
  select?.addEventListener("change", () => {
    const order = ORDERS.find((one) => one === /** @type {HTMLSelectElement} */ (select).value);
    if (order) line.orderBy(order);
  });
  const acts = /** @type {Record<string, () => unknown>} */ ({
    nearer: () => line.zoom(0.5),
    wider: () => line.zoom(2),
    all: () => line.show(null),
    earlier: () => (said.textContent = line.step(-1) || "no earlier rebalance"),
    later: () => (said.textContent = line.step(1) || "no later rebalance"),
  });
  for (const button of document.querySelectorAll("button[data-act]")) {
    button.addEventListener("click", () => acts[button.getAttribute("data-act") ?? ""]?.());
  }
}
