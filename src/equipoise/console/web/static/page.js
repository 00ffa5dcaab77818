// @ts-check
// Every page begins here: theme, keys, and the parts that are on this page.

import { drain } from "./drain.js";
import { groupPage } from "./group.js";
import { onPage } from "./keys.js";
import { replace, stream } from "./live.js";
import { onContrast } from "./paint.js";

const THEMES = ["auto", "light", "dark"];

function themes() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const set = (/** @type {string} */ name) => {
    if (name === "auto") delete root.dataset.theme;
    else root.dataset.theme = name;
    if (button) button.textContent = `theme: ${name}`;
    dispatchEvent(new Event("themed"));
  };
  let now = kept();
  set(now);
  button?.addEventListener("click", () => {
    now = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length] ?? "auto";
    try {
      localStorage.setItem("theme", now);
    } catch { /* a browser may keep nothing; the choice then lasts as long as the page */ }
    set(now);
  });
  const themed = () => dispatchEvent(new Event("themed"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
  onContrast(themed);
}

function kept() {
  try {
    const name = localStorage.getItem("theme") ?? "auto";
    return THEMES.includes(name) ? name : "auto";
  } catch {
    return "auto";
  }
}

/** A list follows the server, with the filter that this page has. At most one question a second is under way. */
function lists() {
  const list = document.getElementById("list");
  if (!list?.dataset.stream) return;
  const address = list.dataset.stream;
  let timer = 0;
  let seen = 0;
  const ask = async () => {
    const here = new URL(location.href);
    here.searchParams.set("part", "list");
    try {
      const answer = await fetch(here, { headers: { Accept: "text/html" } });
      if (answer.ok) replace({ list: await answer.text() });
    } catch { /* the stream says that the console is gone */ }
    timer = 0;
  };
  stream(() => `${address}?after=${seen}`, ["changed", "fragments", "reset"], (type, data, id) => {
    seen = id;
    if (type === "fragments") replace(data.html);
    timer = timer || setTimeout(ask, Math.max(data.wait ?? 0, 300));
  });
}

function copies() {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.getAttribute("data-copy") ?? "")?.textContent ?? "";
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "copied";
      } catch {
        button.textContent = "select the text and copy it";
      }
    });
  }
}

themes();
onPage();
lists();
copies();
drain(document);
document.querySelector("#keys button")?.addEventListener("click", () => {
  /** @type {HTMLDialogElement} */ (document.getElementById("keys")).close();
});
const box = document.getElementById("timeline");
if (box) await groupPage(box);
document.documentElement.dataset.ready = "yes";
