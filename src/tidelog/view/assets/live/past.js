// The cluster at an earlier moment: the present, with what happened since then undone.
//
// Events say who led and who was in sync before, so nothing has to be kept for it. Offsets are in no
// event: of the past they are not known.
import { useEffect, useState } from "preact/hooks";
import { momentOf } from "./events.js";
import { ROW } from "./feed.js";

let moment = null; // null: now
const listeners = new Set();

export function setMoment(next) {
  if (next === moment) return;
  moment = next;
  for (const listener of listeners) listener();
}

/** The moment that all screens show; null is now. */
export function useMoment() {
  const [, draw] = useState(0);
  useEffect(() => {
    const listener = () => draw((count) => count + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return moment;
}

let latest = { key: null, found: null };

/** Rows, brokers that are away and the active controller at a moment; null is now. */
export function clusterAt(feed, at) {
  if (at === null) return present(feed);
  const { events } = feed;
  const key = [at, events.length, events[events.length - 1]?.at, feed.rows.size].join();
  if (latest.key !== key) latest = { key, found: undone(feed, at) };
  return latest.found;
}

function present({ rows, cluster: { nodes, brokers, quorum } }) {
  const away = new Set(brokers.filter((broker) => broker.fenced).map((broker) => broker.id));
  const leads = nodes.some((node) => node.id === quorum.leader && node.awake); // who knew it may name one that is gone
  const controller = leads ? { node: quorum.leader, epoch: quorum.epoch } : null;
  return { rows, away, deleted: new Map(), controller };
}

function undone(feed, at) {
  const known = { ...present(feed), rows: new Map(), created: new Map(), deleted: new Map(), controller: null };
  for (const [name, row] of feed.rows) {
    const then = [...row];
    Object.assign(then, { [ROW.start]: -1, [ROW.end]: -1, [ROW.highWatermark]: -1, [ROW.parked]: 0 });
    known.rows.set(name, then);
  }
  let index = feed.events.length - 1;
  for (; index >= 0 && momentOf(feed.events[index]) > at; index -= 1) undo(known, feed.events[index]);
  for (; index >= 0; index -= 1) remember(known, feed.events[index]);
  for (const [name, row] of known.rows) if (known.created.has(row[ROW.topic])) known.rows.delete(name);
  for (const row of known.rows.values()) row[ROW.health] = healthOf(row);
  return known;
}

/** What happened before: who was the controller, and topics that all nodes tell of, one after the other. */
function remember(known, event) {
  if (event.event === "ControllerActivated") known.controller ??= { node: event.node, epoch: event.epoch };
  if (event.event === "TopicCreated" && known.created.get(event.topic) === event.topic_id) known.created.delete(event.topic);
  if (event.event === "TopicDeleted" && known.deleted.get(event.topic) === event.topic_id) known.deleted.delete(event.topic);
}

function undo({ rows, away, created, deleted }, event) {
  const row = rows.get(`${event.topic}-${event.partition}`);
  switch (event.event) {
    case "LeaderElected":
      if (row) Object.assign(row, { [ROW.leader]: event.leader_before, [ROW.epoch]: event.leader_epoch - 1 });
      break;
    case "InSyncReplicasDecided":
      if (row) row[ROW.isr] = event.in_sync_before;
      break;
    case "BrokerFenced":
      away.delete(event.broker_id);
      break;
    case "BrokerUnfenced":
      away.add(event.broker_id);
      break;
    case "TopicCreated":
      created.set(event.topic, event.topic_id);
      break;
    case "TopicDeleted":
      deleted.set(event.topic, event.topic_id);
      break;
    default:
  }
}

function healthOf(row) {
  if (row[ROW.leader] < 0) return 3;
  const [inSync, replicas] = [row[ROW.isr].length, row[ROW.replicas].length];
  if (inSync < Math.min(row[ROW.minIsr], replicas)) return 2;
  return inSync < replicas ? 1 : 0;
}
