// @ts-check
// Deadlines drain by themselves: one animation a bar, and no script while it runs.

/** Bars under an element, from what is left now to nothing. @param {ParentNode} root */
export function drain(root) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const place of root.querySelectorAll("[data-left]")) {
    const left = Number(place.getAttribute("data-left"));
    if (!(left > 0)) continue;
    const frames = [{ transform: "scaleX(1)" }, { transform: "scaleX(0)" }];
    place.querySelector("rect")?.animate(frames, { duration: left, fill: "forwards" });
  }
}
