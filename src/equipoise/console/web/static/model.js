// @ts-check
// The picture's data: lanes of owners, rebalances, episodes, lag. A snapshot fills it, events of the stream change it.

/**
 * @typedef {{id: string, name: string, host: string, slot: number, trouble: boolean}} Owner
 * @typedef {{topic: string, partition: number, at: number[], owner: number[]}} Lane
 * @typedef {{detect: number, join: number, assign: number, sync: number}} Phases
 * @typedef {{key: string, at: number, started: number | null, kind: string, stopped: number, moved: number,
 *   phases: Phases | null, text: string, url: string}} Rebalance
 * @typedef {{from: number, to: number, text: string}} Episode
 * @typedef {{at: number, text: string}} Mark
 * @typedef {{at: number[], records: (number | null)[]}} Lag
 * @typedef {{seq: number, group: string, from: number, to: number, state: string, owners: Owner[], lanes: Lane[],
 *   rebalances: Rebalance[], episodes: Episode[], marks: Mark[], lag: Lag,
 *   lag_of: (number | null)[], running: string | null, html?: Record<string, string>}} Snapshot
 * @typedef {{lane: number, owner: number, from: number, to: number}} Span
 */

export const NO_OWNER = -1; // the group has members, and none of them works on the partition
export const EMPTY = -2; // the group has no members
export const UNKNOWN = -3; // before the history begins

/** Times of a snapshot are differences: four digits instead of thirteen. @param {number[]} deltas */
export function absolute(deltas) {
  let sum = 0;
  return deltas.map((delta) => (sum += delta));
}

const COLLATE = new Intl.Collator("en", { numeric: true });

export class Model {
  /** @type {Owner[] | null} */
  #ranked = null;
  /** @type {number[]} */
  #rank = [];

  /** @param {Snapshot} snapshot */
  constructor(snapshot) {
    this.group = snapshot.group;
    this.seq = snapshot.seq;
    this.from = snapshot.from;
    this.to = snapshot.to;
    this.state = snapshot.state;
    this.running = snapshot.running;
    this.owners = snapshot.owners;
    this.lanes = snapshot.lanes.map((lane) => ({ ...lane, at: absolute(lane.at) }));
    this.rebalances = snapshot.rebalances;
    this.episodes = snapshot.episodes;
    this.marks = snapshot.marks;
    this.lag = { at: absolute(snapshot.lag.at), records: snapshot.lag.records };
    this.lagOfLanes = snapshot.lag_of;
  }

  /** One event of the stream. False: the event does not fit, and a new snapshot is needed.
   * @param {string} type @param {any} event */
  apply(type, event) {
    if (type === "rebalance") return this.#rebalance(event);
    if (type === "state") {
      this.state = event.state;
      this.running = event.running;
    } else if (type === "members") {
      this.owners = event.owners;
    } else if (type === "lag") {
      this.lag.at.push(event.at);
      this.lag.records.push(event.records);
      if (event.lanes) this.lagOfLanes = event.lanes;
    } else if (type !== "fragments") return false;
    this.#advance(event.to ?? this.to);
    return true;
  }

  /** A change may lie before the last one: darkness is known only afterwards. The lane is cut back to it.
   * @param {any} event */
  #rebalance(event) {
    if (event.owners) this.owners = event.owners;
    if (event.lanes !== this.lanes.length) return false;
    for (const [lane, at, owner] of event.changes) {
      const row = this.lanes[lane];
      if (!row) return false;
      while (row.at.length && /** @type {number} */ (row.at.at(-1)) >= at) {
        row.at.pop();
        row.owner.pop();
      }
      if (row.owner.at(-1) !== owner) {
        row.at.push(at);
        row.owner.push(owner);
      }
    }
    for (const one of event.rebalances) this.#replace(one);
    this.episodes = event.episodes ?? this.episodes;
    this.marks = event.marks ?? this.marks;
    this.#advance(event.to);
    this.#forget(event.from ?? this.from);
    return true;
  }

  /** @param {Rebalance} one */
  #replace(one) {
    const index = this.rebalances.findIndex((old) => old.key === one.key);
    if (index >= 0) this.rebalances[index] = one;
    else this.rebalances.push(one);
  }

  /** @param {number} to */
  #advance(to) {
    this.to = Math.max(this.to, to);
  }

  /** What lies before the window is dropped, here as on the server: memory stays flat. @param {number} from */
  #forget(from) {
    if (from <= this.from) return;
    this.from = from;
    this.rebalances = this.rebalances.filter((one) => one.at >= from);
    for (const lane of this.lanes) {
      let gone = 0;
      while (gone + 1 < lane.at.length && /** @type {number} */ (lane.at[gone + 1]) <= from) gone++;
      if (gone) {
        lane.at.splice(0, gone);
        lane.owner.splice(0, gone);
      }
    }
    let old = 0;
    while (old + 1 < this.lag.at.length && /** @type {number} */ (this.lag.at[old + 1]) <= from) old++;
    this.lag.at.splice(0, old);
    this.lag.records.splice(0, old);
  }

  /** The span of a lane at a time. @param {number} lane @param {number} time @returns {Span} */
  spanAt(lane, time) {
    const row = this.lanes[lane];
    if (!row || !row.at.length || time < /** @type {number} */ (row.at[0])) {
      return { lane, owner: UNKNOWN, from: this.from, to: row?.at[0] ?? this.to };
    }
    const index = lastAtOrBefore(row.at, time);
    return {
      lane,
      owner: row.owner[index] ?? UNKNOWN,
      from: row.at[index] ?? this.from,
      to: row.at[index + 1] ?? this.to,
    };
  }

  /** The rebalance nearest to a time, or null. @param {number} time */
  nearest(time) {
    let best = null;
    for (const one of this.rebalances) {
      if (best === null || Math.abs(one.at - time) < Math.abs(best.at - time)) best = one;
    }
    return best;
  }

  /** The rebalance after (1) or before (-1) a time, or null. @param {number} time @param {1 | -1} direction */
  next(time, direction) {
    const found = this.rebalances.filter((one) => (one.at - time) * direction > 0);
    return (direction > 0 ? found[0] : found.at(-1)) ?? null;
  }

  /** The lanes as they stand: by their last owner, by partition, or by lag.
   * @param {"owner" | "partition" | "lag"} order @returns {number[]} */
  ordered(order) {
    const indices = this.lanes.map((_, index) => index);
    if (order === "owner") {
      const rank = this.#ranks();
      const place = indices.map((index) => rank[this.lastOwner(index)] ?? this.owners.length);
      return indices.sort((a, b) => (place[a] ?? 0) - (place[b] ?? 0) || a - b);
    }
    const lag = (/** @type {number} */ lane) => this.lagOfLanes[lane] ?? -1;
    if (order === "lag") return indices.sort((a, b) => lag(b) - lag(a) || a - b);
    return indices;
  }

  /** The place of each owner by its name: etl-2 stands before etl-10. Owners change seldom, and are sorted then. */
  #ranks() {
    if (this.#ranked !== this.owners) {
      const names = this.owners.map((owner, index) => ({ name: owner.name, index }));
      names.sort((a, b) => COLLATE.compare(a.name, b.name) || a.index - b.index);
      this.#rank = [];
      names.forEach(({ index }, place) => (this.#rank[index] = place));
      this.#ranked = this.owners;
    }
    return this.#rank;
  }

  /** The owner that a lane has, or had last. @param {number} lane */
  lastOwner(lane) {
    return this.lanes[lane]?.owner.findLast((owner) => owner >= 0) ?? UNKNOWN;
  }
}

/** The index of the last value that is not after `time`; the values rise. @param {number[]} values
 * @param {number} time */
export function lastAtOrBefore(values, time) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (/** @type {number} */ (values[middle]) <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
