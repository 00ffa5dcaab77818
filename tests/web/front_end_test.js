// The parts of the front end that need no browser: the model, the scale, the pixels and the commands.
import { EMPTY, lastAtOrBefore, Model, NO_OWNER, UNKNOWN } from "../../src/equipoise/console/web/static/model.js";
import { pixel, SLOTS } from "../../src/equipoise/console/web/static/palette.js";
import { drawLanes, mix, Rows } from "../../src/equipoise/console/web/static/pixels.js";
import { clamp, clock, duration, ticks, timeOf, xOf } from "../../src/equipoise/console/web/static/scale.js";
import * as scene from "../../src/equipoise/console/web/static/scene.js";

/** @param {unknown} got @param {unknown} wanted */
function same(got, wanted) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

/** @param {Partial<import("../../src/equipoise/console/web/static/model.js").Rebalance>} more */
const rebalance = (more) => ({
  key: "1", at: 500, started: 490, kind: "joined", stopped: 1, moved: 1, phases: null, text: "t", url: "/u", ...more,
});

/** @param {Partial<import("../../src/equipoise/console/web/static/model.js").Snapshot>} more */
const model = (more = {}) => new Model({
  seq: 1, group: "g", from: 0, to: 1000, state: "Stable", running: null,
  owners: ["b-10", "b-2"].map((name, slot) => ({ id: name, name, host: "h", slot, trouble: false })),
  lanes: [
    { topic: "orders", partition: 0, at: [0, 500], owner: [0, 1] },
    { topic: "orders", partition: 1, at: [0], owner: [0] },
  ],
  rebalances: [rebalance({})],
  episodes: [], marks: [], lag: { at: [0, 10], records: [5, 6] }, lag_of: [1, 9], ...more,
});

const RANGE = { from: 0, to: 1000 };
const COLOURS = {
  ground: pixel("ffffff"), red: pixel("ff0000"), owners: [pixel(SLOTS[0] ?? ""), pixel(SLOTS[1] ?? "")],
  contrast: /** @type {number | null} */ (null), hatched: [false, true],
};

/** The columns of one lane, as names. @param {number[]} at @param {number[]} owner @param {number} width
 * @param {"bar" | "thread"} row */
function columns(at, owner, width, row = "bar") {
  const pixels = new Uint32Array(width * 7);
  drawLanes(pixels, new Rows(width), [{ topic: "t", partition: 0, at, owner }], {
    range: RANGE, height: 7, colours: COLOURS, broughtOut: null,
  });
  const names = new Map([[COLOURS.ground, "."], [COLOURS.red, "r"], [COLOURS.owners[0], "a"], [COLOURS.owners[1], "b"]]);
  const y = row === "bar" ? 0 : 3;
  return [...pixels.slice(y * width, (y + 1) * width)].map((value) => names.get(value) ?? "~").join("");
}

Deno.test("times of a snapshot are differences", () => same(model().lanes[0]?.at, [0, 500]));

Deno.test("a change may lie before the last one, and cuts the lane back", () => {
  const one = model();
  const event = { lanes: 2, changes: [[0, 400, NO_OWNER], [0, 600, 0]], rebalances: [rebalance({ key: "2", at: 600 })], to: 1200 };
  same(one.apply("rebalance", event), true);
  same(one.lanes[0], { topic: "orders", partition: 0, at: [0, 400, 600], owner: [0, NO_OWNER, 0] });
  same(one.rebalances.map((other) => other.key), ["1", "2"]);
  same(one.to, 1200);
});

Deno.test("an event for other lanes asks for a new snapshot", () => {
  same(model().apply("rebalance", { lanes: 3, changes: [], rebalances: [], to: 1 }), false);
  same(model().apply("unheard-of", {}), false);
});

Deno.test("what lies before the window is dropped", () => {
  const one = model();
  one.apply("rebalance", { lanes: 2, changes: [], rebalances: [], from: 700, to: 2000 });
  same(one.lanes[0]?.at, [500]);
  same(one.rebalances.length, 0);
  same(one.lag.at.length, 1);
});

Deno.test("memory stays flat through thousands of events", () => {
  const one = model();
  for (let n = 1; n <= 5000; n++) {
    const at = 1000 + n * 10;
    const changes = [[0, at - 5, NO_OWNER], [0, at, n % 2]];
    one.apply("rebalance", { lanes: 2, changes, rebalances: [rebalance({ key: `${n}`, at })], from: at - 1000, to: at });
    one.apply("lag", { at, records: n, to: at });
  }
  const sizes = [one.lanes[0]?.at.length ?? 0, one.rebalances.length, one.lag.at.length];
  if (Math.max(...sizes) > 300) throw new Error(`${sizes}`);
});

Deno.test("the span at a time, also before the history", () => {
  const one = model({ lanes: [{ topic: "t", partition: 0, at: [100, 400], owner: [0, EMPTY] }] });
  same(one.spanAt(0, 50), { lane: 0, owner: UNKNOWN, from: 0, to: 100 });
  same(one.spanAt(0, 100), { lane: 0, owner: 0, from: 100, to: 500 });
  same(one.spanAt(0, 999), { lane: 0, owner: EMPTY, from: 500, to: 1000 });
  same(lastAtOrBefore([1, 2, 2, 3], 2), 2);
});

Deno.test("lanes stand by owner in the order of names, by partition, or by lag", () => {
  same(model().ordered("owner"), [0, 1]); // b-2 before b-10
  same(model().ordered("partition"), [0, 1]);
  same(model().ordered("lag"), [1, 0]);
});

Deno.test("next and previous rebalance", () => {
  const one = model({ rebalances: [100, 200, 300].map((at) => rebalance({ key: `${at}`, at })) });
  same(one.next(100, 1)?.key, "200");
  same(one.next(100, -1), null);
  same(one.next(301, -1)?.key, "300");
  same(one.nearest(260)?.key, "300");
});

Deno.test("a span is a full bar", () => same(columns([0, 500], [0, 1], 10), "aaaaabbbbb"));

Deno.test("a long gap is a thread on bare ground", () => {
  same(columns([0, 300, 700], [0, NO_OWNER, 1], 10), "aaa....bbb");
  same(columns([0, 300, 700], [0, NO_OWNER, 1], 10, "thread"), "aaarrrrbbb");
});

Deno.test("a gap of a thousandth of a column still reddens it", () => {
  const drawn = columns([0, 550, 550.1], [0, NO_OWNER, 0], 10);
  same(drawn, "aaaaa~aaaa");
});

Deno.test("an empty group and unknown times are bare, not red", () => {
  same(columns([0, 500], [EMPTY, UNKNOWN], 10, "thread"), "..........");
});

Deno.test("one owner can be brought out", () => {
  const pixels = new Uint32Array(70);
  drawLanes(pixels, new Rows(10), [{ topic: "t", partition: 0, at: [0, 500], owner: [0, 1] }], {
    range: RANGE, height: 7, colours: COLOURS, broughtOut: 1,
  });
  same(pixels[0], mix(COLOURS.ground, COLOURS.owners[0] ?? 0, 0.16));
  same(pixels[9], COLOURS.owners[1]);
});

Deno.test("with high contrast every second slot is hatched, and each span has an edge", () => {
  const ink = pixel("000000");
  const pixels = new Uint32Array(16 * 7);
  const at = [0, 375, 500];
  drawLanes(pixels, new Rows(16), [{ topic: "t", partition: 0, at, owner: [0, NO_OWNER, 1] }], {
    range: RANGE, height: 7, colours: { ...COLOURS, contrast: ink }, broughtOut: null,
  });
  const names = new Map([[ink, "#"], [COLOURS.ground, "."], [COLOURS.owners[0], "a"], [COLOURS.owners[1], "b"]]);
  const row = (/** @type {number} */ y) =>
    [...pixels.slice(y * 16, (y + 1) * 16)].map((value) => names.get(value) ?? "~").join("");
  same([row(0), row(1), row(2)], ["#aaaaa~~#bbb#bbb", "#aaaaa~~#bb#bbb#", "#aaaaa~~#b#bbb#b"]);
});

Deno.test("the scale goes both ways, and ticks are round", () => {
  const scale = { from: 1000, to: 61_000, left: 100, width: 600 };
  same(timeOf(scale, xOf(scale, 31_000)), 31_000);
  same(ticks(scale, 84), [10_000, 20_000, 30_000, 40_000, 50_000, 60_000]);
  same(clamp({ from: -5, to: 5 }, { from: 0, to: 100 }), { from: 0, to: 20 });
  same(clock(0, 1000), "00:00:00.000");
  same([duration(41), duration(45_010), duration(750_000)], ["41 ms", "45.0 s", "12 min 30 s"]);
});

Deno.test("rebalances on the same pixels are stacked by kind", () => {
  const one = model({ rebalances: [rebalance({}), rebalance({ key: "2", kind: "late" })] });
  const bars = scene.head(one, { ...RANGE, left: 0, width: 300 }, null).filter((c) => ["joined", "late"].includes(c.fill));
  same(bars.map((bar) => bar.op === "rect" && bar.x), [150, 150]);
  const [low, high] = bars.map((bar) => (bar.op === "rect" ? bar.y : 0));
  if (!(Number(high) < Number(low))) throw new Error("one hides the other");
});

Deno.test("a wide rebalance becomes a band with its phases", () => {
  const phases = { detect: 100, join: 50, assign: 30, sync: 20 };
  const one = model({ rebalances: [rebalance({ started: 400, at: 500, phases })] });
  const drawn = scene.bands(one, { ...RANGE, left: 0, width: 1000 }, 70);
  same(drawn.map((c) => c.fill), ["detect", "join", "assign", "sync"]);
  same(scene.bands(one, { ...RANGE, left: 0, width: 40 }, 70), []);
});

Deno.test("labels are thinned, rows never", () => {
  const lanes = Array.from({ length: 100 }, (_, n) => ({ topic: "t", partition: n, at: [0], owner: [n % 2] }));
  const one = model({ lanes });
  const drawn = scene.labels(one, one.ordered("partition"), { left: 100, right: 500, height: 7, byOwner: false });
  same(drawn.filter((c) => c.op === "rect").length, 100);
  const texts = drawn.filter((c) => c.op === "text" && c.align === "right");
  if (texts.length > 60) throw new Error(`${texts.length}`);
  same(scene.partitions([{ topic: "a", partition: 3 }, { topic: "a", partition: 9 }, { topic: "b", partition: 1 }]), "a 3, 9 · b 1");
});

Deno.test("lag that is unknown is no zero", () => {
  const one = model({ lag: { at: [], records: [] } });
  const drawn = scene.lag(one, { ...RANGE, left: 0, width: 100 }, { top: 0, height: 50 });
  same(drawn.some((c) => c.op === "text" && c.text === "not known yet"), true);
});

Deno.test("a rebalance that runs stands at the edge of now, in the server's words", () => {
  const one = model({ running: "it waits for b-2" });
  const drawn = scene.head(one, { ...RANGE, left: 0, width: 300 }, null).filter((c) => c.fill === "mark");
  same(drawn.map((c) => (c.op === "text" ? c.text : c.op)), ["it waits for b-2"]);
  same(scene.showsRunning(one, { ...RANGE, left: 0, width: 300 }), true);
  same(scene.showsRunning(one, { from: 0, to: 900, left: 0, width: 300 }), false);
  same(scene.showsRunning(model(), { ...RANGE, left: 0, width: 300 }), false);
  same(scene.head(one, { from: 0, to: 900, left: 0, width: 300 }, null).filter((c) => c.fill === "mark"), []);
});
