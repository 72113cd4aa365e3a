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
    this.batch = 0;
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

  hearReplica({ node, replica }) {
    if (replica.removed) delete this.replicas[node];
    else this.replicas[node] = replica;
    this.changed();
  }

  hearMicroscope({ node, epochs, happened }) {
    for (const each of Object.values(epochs)) this.epochs[node] = each;
    this.batch += 1;
    for (const each of happened) {
      if (each.what === "parked") this.parkedOffsets.add(each.end_offset);
      if (each.what === "acknowledged") this.parkedOffsets.delete(each.end_offset);
      this.happened.push({ ...each, node, id: `${node}-${each.n}`, batch: this.batch });
    }
    if (this.happened.length > MOST_HAPPENINGS) this.happened.splice(0, this.happened.length - MOST_HAPPENINGS);
    this.changed();
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
