// What the server tells, kept in one place; whoever draws listens to it.
import { useEffect, useState } from "preact/hooks";

// A row of the grid, as the server sends it.
export const ROW = {
  topic: 0, partition: 1, health: 2, leader: 3, epoch: 4, replicas: 5, isr: 6, minIsr: 7, start: 8, end: 9,
  highWatermark: 10, parked: 11,
};
export const HEALTH = ["fine", "under-replicated", "under-min-isr", "offline"];
const MOST_EVENTS = 5000;
const MOST_HAPPENINGS = 200;
const DRAW_EVERY_MS = 100;
const BEHIND_MS = 600; // nodes tell four times a second: so far behind, what they tell can be put in order

export const nameOf = (row) => `${row[ROW.topic]}-${row[ROW.partition]}`;

class Feed {
  constructor() {
    this.hello = {};
    this.cluster = { nodes: [], brokers: [], quorum: {}, problems: [], partitions: 0, health: {} };
    this.rows = new Map();
    this.events = [];
    this.status = "connecting";
    this.microscope = null;
    this.listeners = new Set(); // told at most ten times a second that something changed
    this.rowListeners = new Set(); // told of each changed row at once
    this.eventListeners = new Set();
    this.pending = false;
    this.clearMicroscope(null);
  }

  clearMicroscope(name) {
    this.microscope = name;
    this.replicas = {};
    this.epochs = {};
    this.happened = [];
    this.parkedOffsets = new Set();
    this.untold = []; // what nodes told of the partition and is not shown yet
    this.ahead = -Infinity; // of the nodes' clock before this one
    this.now = 0; // the moment that is shown, by the nodes' clock
    clearInterval(this.playing);
    this.playing = name ? setInterval(() => this.play(), DRAW_EVERY_MS) : undefined;
  }

  connect(microscope = this.microscope) {
    if (this.source && microscope === this.microscope && this.source.readyState !== EventSource.CLOSED) return;
    this.source?.close();
    this.clearMicroscope(microscope);
    const query = microscope ? `?microscope=${encodeURIComponent(microscope)}` : "";
    const source = new EventSource(`/stream${query}`);
    this.source = source;
    source.onopen = () => this.set("status", "live");
    source.onerror = () => {
      this.set("status", "lost");
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.source === source && this.connect(), 1000);
    };
    const hear = (kind, heard) => source.addEventListener(kind, (event) => heard.call(this, JSON.parse(event.data)));
    hear("hello", (told) => {
      this.events = [];
      this.set("hello", told);
    });
    hear("cluster", (told) => this.set("cluster", told));
    hear("partitions", this.hearPartitions);
    hear("events", this.hearEvents);
    hear("replica", this.hearReplica);
    hear("microscope", this.hearMicroscope);
  }

  set(key, value) {
    this[key] = value;
    this.changed();
  }

  changed() {
    if (this.pending) return;
    this.pending = true;
    setTimeout(() => {
      this.pending = false;
      for (const listener of this.listeners) listener();
    }, DRAW_EVERY_MS);
  }

  hearPartitions({ snapshot, rows, removed }) {
    const gone = [];
    if (snapshot && rows.length === 0 && removed.length === 0 && this.rows.size === 0) return;
    if (snapshot) this.rows.clear();
    for (const row of rows) this.rows.set(nameOf(row), row);
    for (const [topic, partition] of removed) {
      this.rows.delete(`${topic}-${partition}`);
      gone.push(`${topic}-${partition}`);
    }
    for (const listener of this.rowListeners) listener(rows, gone, snapshot);
    this.changed();
  }

  hearEvents(told) {
    const last = this.events[this.events.length - 1];
    this.events.push(...told);
    if (last && told.length && told[0].at < last.at) {
      this.events.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : a.node - b.node || a.seq - b.seq));
    }
    if (this.events.length > MOST_EVENTS) this.events.splice(0, this.events.length - MOST_EVENTS);
    for (const listener of this.eventListeners) listener(told);
    this.changed();
  }

  hearReplica({ node, replica, at_ms: at }) {
    if (at) this.untold.push({ at_ms: at, node, n: Infinity, told: replica });
    else this.show({ node, told: replica });
    this.note(at);
  }

  hearMicroscope({ node, epochs, happened, at_ms: at }) {
    for (const each of Object.values(epochs)) this.untold.push({ at_ms: happened[0]?.at_ms ?? at ?? 0, node, n: -1, epochs: each });
    for (const each of happened) this.untold.push({ ...each, node, id: `${node}-${each.n}` });
    this.note(at);
  }

  note(at) {
    if (at) this.ahead = Math.max(this.ahead, at - performance.now());
    this.changed();
  }

  /** Show what happened up to a moment shortly before now, on all nodes, in the order in which it happened. */
  play() {
    this.now = performance.now() + this.ahead - BEHIND_MS;
    const due = this.untold.filter((each) => each.at_ms <= this.now);
    this.untold = this.untold.filter((each) => each.at_ms > this.now);
    due.sort((a, b) => a.at_ms - b.at_ms || a.node - b.node || a.n - b.n);
    for (const each of due) this.show(each);
    if (this.happened.length > MOST_HAPPENINGS) this.happened.splice(0, this.happened.length - MOST_HAPPENINGS);
    this.changed();
  }

  show(each) {
    const { node } = each;
    if (each.told) {
      if (each.told.removed) delete this.replicas[node];
      else this.replicas[node] = { ...each.told, followers: { ...each.told.followers } };
      return;
    }
    if (each.epochs) {
      this.epochs[node] = each.epochs;
      return;
    }
    this.happened.push(each);
    const replica = this.replicas[node];
    if (each.what === "parked") this.parkedOffsets.add(each.end_offset);
    if (each.what === "acknowledged") this.parkedOffsets.delete(each.end_offset);
    if (!replica) return;
    if (each.what === "appended" || each.what === "truncated") replica.log_end_offset = each.log_end_offset;
    if (each.what === "high_watermark") replica.high_watermark = each.after;
    if (each.what === "fetch_received" && each.replica >= 0) replica.followers[each.replica] = each.fetch_offset;
  }
}

export const feed = new Feed();

/** Draw again when the feed changes. */
export function useFeed() {
  const [, draw] = useState(0);
  useEffect(() => {
    const listener = () => draw((count) => count + 1);
    feed.listeners.add(listener);
    return () => feed.listeners.delete(listener);
  }, []);
  return feed;
}
