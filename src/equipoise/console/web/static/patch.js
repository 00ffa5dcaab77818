// @ts-check
// The server's words into a place of the page. Only what differs is touched: to build a table anew costs more than the
// timeline, and takes focus and selection with it.

/** Makes the content of a place that of `html`. @param {Element} place @param {string} html */
export function patch(place, html) {
  const parsed = document.createElement("template");
  parsed.innerHTML = html;
  patchChildren(place, parsed.content);
}

/** Rows come and go one by one: a node is compared with its neighbour's too. @param {Node} now @param {Node} wanted */
function patchChildren(now, wanted) {
  let old = now.firstChild;
  for (let one = wanted.firstChild, next = null; one; one = next) {
    next = one.nextSibling;
    if (!old || (!old.isEqualNode(one) && next && old.isEqualNode(next))) {
      now.insertBefore(one, old);
      continue;
    }
    const after = old.nextSibling;
    if (old.isEqualNode(one)) old = after;
    else if (after?.isEqualNode(one)) {
      now.removeChild(old);
      old = after.nextSibling;
    } else {
      patchNode(old, one);
      old = after;
    }
  }
  while (old) {
    const after = old.nextSibling;
    now.removeChild(old);
    old = after;
  }
}

/** @param {ChildNode} old @param {ChildNode} one */
function patchNode(old, one) {
  if (old instanceof Element && one instanceof Element && old.nodeName === one.nodeName) {
    patchAttributes(old, one);
    patchChildren(old, one);
  } else if (old instanceof Text && one instanceof Text) old.data = one.data;
  else old.replaceWith(one);
}

/** @param {Element} old @param {Element} one */
function patchAttributes(old, one) {
  for (const name of old.getAttributeNames()) {
    if (!one.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of one.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}
