// @ts-check
// Lanes to pixels: one row of colours a lane, copied to the lane's height. The cost follows the pixels, not the spans.
// A span of an owner is a full bar. A time without owner is a red thread on bare ground; where it is narrower than
// three pixels, its column turns red by its share, and never so little that the eye misses it.

import { NO_OWNER } from "./model.js";

/** `contrast`: the colour of edges, and of the hatching of every second slot; null where colours alone will do.
 * @typedef {{ground: number, red: number, owners: number[], contrast: number | null, hatched: boolean[]}} Colours
 * as 0xAABBGGRR */
/** @typedef {import("./model.js").Lane} Lane */

const LEAST_RED = 0.42; // of a column that stands alone
const NEIGHBOURS = 2; // columns on each side that make it a crowd
const THREAD = 3; // pixels: narrower gaps turn their column red
const HATCH = 4; // pixels from one line of the hatching to the next
const DIMMED = 0.16; // what is left of a bar while another owner is brought out

const EDGED = 6; // pixels: a narrower span has no edge, a crowd of them would be all edges
const HATCHED = 1;
const EDGE = 2;

/** @param {number} under @param {number} over @param {number} share of `over` */
export function mix(under, over, share) {
  const channel = (/** @type {number} */ shift) => {
    const low = (under >>> shift) & 255;
    return Math.round(low + (((over >>> shift) & 255) - low) * share) << shift;
  };
  return (0xff000000 | channel(16) | channel(8) | channel(0)) >>> 0;
}

/** Space that lasts from one drawing to the next: nothing is allocated while events come. */
export class Rows {
  /** @param {number} width */
  constructor(width) {
    this.width = width;
    this.bar = new Uint32Array(width);
    this.thread = new Uint32Array(width);
    this.dark = new Float32Array(width);
    this.touched = new Uint16Array(width + 1);
    this.marks = new Uint8Array(width); // HATCHED and EDGE, where contrast is wanted
  }
}

/** Fills the rows of one lane. @param {Rows} rows @param {Lane} lane @param {{from: number, to: number}} range
 * @param {Colours} colours @param {number | null} broughtOut */
export function fillRows(rows, lane, range, colours, broughtOut) {
  const { width, bar, thread, dark, marks } = rows;
  const scale = width / (range.to - range.from);
  bar.fill(colours.ground);
  thread.fill(colours.ground);
  dark.fill(0);
  marks.fill(0);
  let isDark = false;
  for (let index = firstVisible(lane.at, range.from); index < lane.at.length; index++) {
    const start = ((lane.at[index] ?? 0) - range.from) * scale;
    if (start >= width) break;
    const end = Math.min(((lane.at[index + 1] ?? range.to) - range.from) * scale, width);
    const owner = lane.owner[index] ?? NO_OWNER;
    if (owner >= 0) {
      const colour = shade(colours, owner, broughtOut);
      bar.fill(colour, Math.max(Math.floor(start), 0), Math.ceil(end));
      thread.fill(colour, Math.max(Math.floor(start), 0), Math.ceil(end));
      if (colours.hatched[owner]) marks.fill(HATCHED, Math.max(Math.floor(start), 0), Math.ceil(end));
      if (start >= 0 && end - start >= EDGED) marks[Math.floor(start)] = EDGE;
    } else if (owner === NO_OWNER) {
      isDark = true;
      if (end - start >= THREAD) marks.fill(0, Math.max(Math.round(start), 0), Math.round(end));
      darken(rows, Math.max(start, 0), end, colours);
    }
  }
  if (isDark) redden(rows, colours.red);
}

/** @param {Colours} colours @param {number} owner @param {number | null} broughtOut */
function shade(colours, owner, broughtOut) {
  const colour = colours.owners[owner] ?? colours.ground;
  return broughtOut === null || broughtOut === owner ? colour : mix(colours.ground, colour, DIMMED);
}

/** @param {Rows} rows @param {number} start @param {number} end @param {Colours} colours */
function darken(rows, start, end, colours) {
  if (end - start >= THREAD) {
    rows.bar.fill(colours.ground, Math.round(start), Math.round(end));
    rows.thread.fill(colours.red, Math.round(start), Math.round(end));
    return;
  }
  for (let x = Math.floor(start); x < end && x < rows.width; x++) {
    rows.dark[x] = (rows.dark[x] ?? 0) + Math.min(end, x + 1) - Math.max(start, x);
    if (rows.bar[x] === colours.ground && x > 0) rows.bar[x] = rows.thread[x] = rows.bar[x - 1] ?? colours.ground;
  }
}

/** The least red falls where neighbours are red too: a crowd must not look worse than it was.
 * @param {Rows} rows @param {number} red */
function redden(rows, red) {
  const { width, dark, touched, bar, thread } = rows;
  touched[0] = 0;
  for (let x = 0; x < width; x++) touched[x + 1] = (touched[x] ?? 0) + ((dark[x] ?? 0) > 0 ? 1 : 0);
  for (let x = 0; x < width; x++) {
    const share = dark[x] ?? 0;
    if (share <= 0) continue;
    const low = Math.max(x - NEIGHBOURS, 0);
    const high = Math.min(x + NEIGHBOURS + 1, width);
    const crowd = (touched[high] ?? 0) - (touched[low] ?? 0);
    rows.marks[x] = 0; // red is seen before anything else
    const part = Math.min(Math.max(share, LEAST_RED / Math.sqrt(Math.max(crowd - 1, 1))), 1); // a pair is no crowd
    bar[x] = mix(bar[x] ?? 0, red, part);
    thread[x] = mix(thread[x] ?? 0, red, part);
  }
}

/** @param {number[]} at @param {number} from */
function firstVisible(at, from) {
  let low = 0;
  let high = at.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((at[middle] ?? 0) <= from) low = middle + 1;
    else high = middle;
  }
  return Math.max(low - 1, 0);
}

/** Edges and hatching in one row of pixels: colours that few eyes tell apart become patterns.
 * @param {Uint32Array} pixels @param {Rows} rows @param {number} at @param {number} y @param {number} ink */
function contrast(pixels, rows, at, y, ink) {
  for (let x = 0; x < rows.width; x++) {
    const mark = rows.marks[x];
    if (mark === EDGE || (mark === HATCHED && (x + y) % HATCH === 0)) pixels[at + x] = ink;
  }
}

/** Draws all lanes. @param {Uint32Array} pixels of `rows.width` columns @param {Rows} rows @param {Lane[]} lanes in
 * their order @param {{range: {from: number, to: number}, height: number, colours: Colours,
 * broughtOut: number | null}} look */
export function drawLanes(pixels, rows, lanes, look) {
  const { height, colours } = look;
  const bare = colours.ground;
  const gap = height >= 7 ? 1 : 0;
  const middle = Math.floor((height - gap) / 2);
  const thick = height >= 12 ? 2 : 1;
  lanes.forEach((lane, place) => {
    fillRows(rows, lane, look.range, colours, look.broughtOut);
    const top = place * height * rows.width;
    for (let y = 0; y < height - gap; y++) {
      const isThread = y >= middle && y < middle + thick;
      pixels.set(isThread ? rows.thread : rows.bar, top + y * rows.width);
      if (colours.contrast !== null) contrast(pixels, rows, top + y * rows.width, y, colours.contrast);
    }
    if (gap) pixels.fill(bare, top + (height - 1) * rows.width, top + height * rows.width);
  });
}
