// A partition that is watched, as the microscope draws it and in words.
import { useRef } from "preact/hooks";
import { ROW } from "./feed.js";
import { number } from "./parts.js";

const CUT_SHOWN_MS = 4000;
const MESSAGES_SHOWN_MS = 900;

/** The state that was drawn before, so that what is new or cut can be seen. */
export function useBefore(state, name) {
  const kept = useRef({ name, state: null, before: null, since: 0 });
  const memory = kept.current;
  if (memory.name !== name) Object.assign(memory, { name, state: null, before: null });
  const now = performance.now();
  if (state && memory.state && JSON.stringify(state.replicas) !== JSON.stringify(memory.state.replicas)) {
    const cut = Object.keys(state.replicas).some((id) => memory.state.replicas[id] && state.replicas[id].end < memory.state.replicas[id].end);
    if (cut || now - memory.since > CUT_SHOWN_MS) Object.assign(memory, { before: memory.state, since: now, cut });
  }
  memory.state = state;
  return memory.cut && now - memory.since < CUT_SHOWN_MS ? memory.before : null;
}

/** What a microscope draws of a partition: its row, what is watched of it, and links that are cut. */
export function stateOf(feed, watched, row, cuts) {
  if (!row) return null;
  const brokers = [...new Set([...row[ROW.replicas], ...Object.keys(watched.replicas).map(Number)])].sort((a, b) => a - b);
  const nodes = new Map(feed.cluster.nodes.map((node) => [node.id, node]));
  const life = (id) => {
    const node = nodes.get(id);
    if (node?.process?.state === "paused") return "paused";
    return node?.awake ? "up" : "down";
  };
  const replicas = {};
  for (const id of brokers) replicas[id] = replicaOf(watched, id, life(id));
  const { quorum } = feed.cluster;
  return {
    brokers,
    replicas,
    cluster: {
      leader: row[ROW.leader], epoch: row[ROW.epoch], inSync: row[ROW.isr], eligible: [],
      controller: quorum.leader ?? -1,
      controllers: (quorum.voters ?? []).map(({ id }) => [id, life(id)]),
      fenced: feed.cluster.brokers.filter((broker) => broker.fenced).map((broker) => broker.id),
      cuts, writes: [],
    },
  };
}

function replicaOf(watched, id, life) {
  const told = watched.replicas[id];
  if (!told) return { life, unknown: true, role: "", epoch: -1, follows: -1, start: 0, end: 0, highWatermark: null, runs: [], inSync: [], known: [], parked: [] };
  const leads = told.role === "leader" && life !== "down";
  return {
    life,
    role: life === "down" || told.role === "offline" ? "" : told.role,
    epoch: told.leader_epoch,
    follows: told.leader,
    start: told.log_start_offset,
    end: told.log_end_offset,
    highWatermark: life === "down" ? null : told.high_watermark,
    runs: runsOf(watched.epochs[id] ?? [[told.leader_epoch, told.log_start_offset]], told),
    inSync: leads ? told.isr : [],
    known: leads ? Object.entries(told.followers ?? {}).filter(([, offset]) => offset >= 0).map(([node, offset]) => [Number(node), offset]) : [],
    parked: leads ? [...watched.parked].filter((offset) => offset > told.high_watermark).sort((a, b) => a - b).slice(0, 3) : [],
  };
}

function runsOf(epochs, { log_start_offset: start, log_end_offset: end }) {
  return epochs
    .map(([epoch, first], index) => [epoch, Math.max(first, start), Math.min(epochs[index + 1]?.[1] ?? end, end)])
    .filter(([, low, high]) => high > low);
}

/** The newest message between brokers and the newest to clients, for as long as they may be called new. */
export function messagesOf(watched) {
  const newest = {};
  for (const each of watched.happened) {
    if (watched.now - each.at_ms > MESSAGES_SHOWN_MS) continue;
    const message = messageOf(each);
    if (message) newest[message.to === "clients" ? "clients" : "brokers"] = message;
  }
  return Object.values(newest);
}

function messageOf(each) {
  const between = (from, to, kind, label) => ({ id: each.id, from: String(from), to: String(to), kind, label });
  switch (each.what) {
    case "fetch_sent":
      return between(each.node, each.leader, "fetch", `fetch ${number(each.fetch_offset)}`);
    case "fetch_answered":
      if (each.replica < 0) return null;
      if (each.diverging) return between(each.node, each.replica, "diverging", `epoch ${each.diverging[0]} ends at ${each.diverging[1]}`);
      if (each.error) return between(each.node, each.replica, "refusal", `error ${each.error}`);
      return between(each.node, each.replica, "records", each.bytes ? `${number(each.bytes)} bytes` : `HW ${number(each.high_watermark)}`);
    case "acknowledged":
      return each.error ? between(each.node, "clients", "refusal", `error ${each.error}`) : between(each.node, "clients", "acknowledgement", "acknowledged");
    default:
      return null;
  }
}

export function words(each) {
  const from = each.replica < 0 ? "a consumer" : each.replica;
  const diverging = each.diverging && `the logs part: epoch ${each.diverging[0]} ends at ${number(each.diverging[1])}`;
  switch (each.what) {
    case "appended":
      return `${each.node} appends ${number(each.first_offset)} to ${number(each.log_end_offset - 1)}, ${number(each.bytes)} bytes of epoch ${each.leader_epoch}`;
    case "parked":
      return `${each.node} holds an acknowledgement until the high watermark is ${number(each.end_offset)}`;
    case "acknowledged":
      return each.error ? `${each.node} refuses a write with error ${each.error}` : `${each.node} acknowledges everything below ${number(each.end_offset)} after ${each.waited_ms} ms`;
    case "fetch_sent":
      return `${each.node} asks ${each.leader} for ${number(each.fetch_offset)} on, its last epoch is ${each.last_fetched_epoch}`;
    case "fetch_received":
      return `${each.node} hears ${from} ask for ${number(each.fetch_offset)} on${each.replica < 0 ? "" : ": it holds everything below"}`;
    case "fetch_answered":
      return `${each.node} answers ${from}: ${diverging || (each.error ? `error ${each.error}` : `${number(each.bytes)} bytes, high watermark ${number(each.high_watermark)}`)}`;
    case "answer_received":
      return `${each.node} hears from ${each.leader}: ${diverging || (each.error ? `error ${each.error}` : `${number(each.bytes)} bytes, high watermark ${number(each.high_watermark)}`)}`;
    case "high_watermark":
      return `${each.node}: the high watermark rises from ${number(each.before)} to ${number(each.after)}`;
    case "truncated":
      return `${each.node} truncates its log from ${number(each.log_end_offset_before)} to ${number(each.log_end_offset)}`;
    default:
      return `${each.node}: ${each.what}`;
  }
}
