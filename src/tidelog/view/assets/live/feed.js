// What the server tells, kept in one place; whoever draws listens to it.
import { useEffect, useState } from "preact/hooks";
import { WatchedPartition } from "./watched_partition.js";

// A row of the grid, as the server sends it.
export const ROW = {
  topic: 0, partition: 1, health: 2, leader: 3, epoch: 4, replicas: 5, isr: 6, minIsr: 7, start: 8, end: 9,
  highWatermark: 10, parked: 11,
};
export const HEALTH = ["fine", "under-replicated", "under-min-isr", "offline"];
export const HEALTH_WORDS = ["in sync", "under-replicated", "below min ISR", "no leader"];
const MOST_EVENTS = 5000;
const DRAW_EVERY_MS = 100;
const AIM_AFTER_MS = 50;

export const nameOf = (row) => `${row[ROW.topic]}-${row[ROW.partition]}`;

class Feed {
  constructor() {
    this.hello = {};
    this.cluster = { nodes: [], brokers: [], quorum: {}, problems: [], not_told: [], partitions: 0, health: {} };
    this.rows = new Map();
    this.events = [];
    this.status = "connecting";
    this.watched = new Map(); // partitions under the microscope, by name
    this.listeners = new Set(); // told at most ten times a second that something changed
    this.rowListeners = new Set(); // told of each changed row at once
    this.pending = false;
  }

  /** Have these partitions under the microscope from now on; screens that follow each other ask shortly after each other. */
  watch(names) {
    clearTimeout(this.aiming);
    this.aiming = setTimeout(() => {
      if (names.join() !== [...this.watched.keys()].join()) this.connect(names);
    }, AIM_AFTER_MS);
  }

  /** Listen to the server. */
  connect(names = [...this.watched.keys()]) {
    this.source?.close();
    this.watched = new Map(names.map((name) => [name, new WatchedPartition()]));
    clearInterval(this.playing);
    this.playing = names.length ? setInterval(() => this.play(), DRAW_EVERY_MS) : undefined;
    const query = names.length ? `?microscope=${names.map(encodeURIComponent).join(",")}` : "";
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
    this.changed();
  }

  hearReplica({ node, replica, at_ms: at }) {
    this.watched.get(`${replica.topic}-${replica.partition}`)?.hearReplica(node, replica, at);
    this.changed();
  }

  hearMicroscope({ node, epochs, happened, at_ms: at }) {
    for (const [name, watched] of this.watched) {
      const mine = happened.filter(({ topic, partition }) => `${topic}-${partition}` === name);
      watched.hearMicroscope(node, epochs[name], mine, at);
    }
    this.changed();
  }

  play() {
    for (const watched of this.watched.values()) watched.play();
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

/** Have these partitions under the microscope for as long as something shows them. */
export function useMicroscopes(names) {
  useEffect(() => feed.watch(names), [names.join()]);
  useEffect(() => () => feed.watch([]), []);
}
