// @ts-check
// The stream of the server: events as they come, and what the page says while none can come.

import { drain } from "./drain.js";
import { patch } from "./patch.js";

/** Opens a stream while the page is looked at: browsers allow six connections to a host, and a hidden tab needs none.
 * @param {() => string} address with where to go on from @param {string[]} types
 * @param {(type: string, data: any, id: number) => void} take */
export function stream(address, types, take) {
  /** @type {EventSource | null} */
  let source = null;
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource(address());
    source.addEventListener("open", () => reachable(true));
    source.addEventListener("error", () => {
      reachable(false);
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(open, 2000);
      }
    });
    source.addEventListener("reload", () => location.reload()); // the console has another source now
    for (const type of types) {
      source.addEventListener(type, (event) => {
        const message = /** @type {MessageEvent} */ (event);
        take(type, JSON.parse(message.data), Number(message.lastEventId));
      });
    }
  };
  const close = () => {
    source?.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  open();
  return { again: () => { close(); open(); } };
}

let lostAt = "";

/** The console itself may be gone: only the browser can say so. @param {boolean} isReached */
function reachable(isReached) {
  const status = document.getElementById("live");
  if (!status) return;
  if (isReached) lostAt = "";
  else lostAt = lostAt || new Date().toISOString().slice(11, 19);
  status.dataset.state = isReached ? "live" : "lost";
  const text = isReached ? "live" : `console not reachable since ${lostAt} UTC`;
  if (status.textContent !== text) status.textContent = text;
  for (const button of document.querySelectorAll("form.action button")) {
    if (button instanceof HTMLButtonElement) button.disabled = !isReached;
  }
}

/** @type {Map<string, string>} the server's words as they came: to write down what the page has takes time */
const shown = new Map();

/** Puts the server's words into their places. Focus stays where it is, or goes to what has its name.
 * @param {Record<string, string>} fragments by id */
export function replace(fragments) {
  for (const [id, html] of Object.entries(fragments)) {
    const place = document.getElementById(id);
    if (!place || (shown.get(id) ?? place.innerHTML) === html) continue;
    const focused = place.contains(document.activeElement) ? document.activeElement : null;
    const name = focused?.getAttribute("href") ?? focused?.id ?? null;
    patch(place, html);
    if (id === "trouble") document.querySelector(".group")?.classList.toggle("stale", html !== "");
    shown.set(id, html);
    drain(place);
    if (name && !focused?.isConnected) focusAgain(place, name);
  }
}

/** @param {HTMLElement} place @param {string} name */
function focusAgain(place, name) {
  for (const one of place.querySelectorAll("a, button, input, summary")) {
    if (one instanceof HTMLElement && (one.getAttribute("href") === name || one.id === name)) {
      one.focus({ preventScroll: true });
      return;
    }
  }
}
