// One partition under the microscope, live.
import { useEffect, useRef } from "preact/hooks";
import { html } from "tidelog/html";
import { Microscope } from "tidelog/microscope";
import { useAnswer } from "./asking.js";
import { ROW, useFeed } from "./feed.js";
import { Action, clock, clockOf, number } from "./parts.js";
import { kindOf } from "./timeline.js";

const CUT_SHOWN_MS = 4000;
const MESSAGES_SHOWN_MS = 900;

export function Partition({ name, go }) {
  const feed = useFeed();
  useEffect(() => {
    feed.connect(name);
    return () => feed.connect(null);
  }, [name]);
  const row = feed.rows.get(name);
  const { answer: links } = useAnswer(feed.hello.directory ? "/api/links" : null, 1000);
  const cuts = (links ?? []).filter((link) => link.cut).flatMap(({ between: [a, b] }) => [[a, b], [b, a]]);
  const state = stateOf(feed, row, cuts);
  const before = useBefore(state, name);
  if (!state) {
    return html`<section class="card"><h2>${name}</h2><p>${feed.rows.size ? `There is no partition ${name}.` : "waiting for the nodes …"}</p></section>`;
  }
  const topic = row[ROW.topic];
  return html`<div class="partition">
    <section class="card">
      <div class="toolbar"><h2>${name}</h2>
        <span>${row[ROW.leader] < 0 ? "no leader" : `led by ${row[ROW.leader]}`} in epoch ${row[ROW.epoch]}</span>
        <span>in sync ${row[ROW.isr].join(", ") || "nobody"} of ${row[ROW.replicas].join(", ")} (min ${row[ROW.minIsr]})</span>
        <span>log end ${number(row[ROW.end])}, high watermark ${number(row[ROW.highWatermark])}</span>
        <button type="button" onClick=${() => go(`/topics/${topic}`)}>messages</button></div>
      <${Microscope} state=${state} before=${before} messages=${messagesOf(feed)} title=${name} />
      <p class="legend">
        <span><i class="swatch committed" /> committed</span><span><i class="swatch open" /> above the high watermark</span>
        <span><i class="swatch cut" /> just truncated</span><span><b class="hw">HW</b> high watermark as the replica knows it</span>
        <span><b>101 ▸</b> what the leader knows a follower to hold</span><span><b>★</b> active controller</span></p>
      ${row[ROW.leader] !== row[ROW.replicas][0] && html`<${Action} label="elect the preferred leader" ask=${{ action: "elect", topic }} />`}
    </section>
    <div class="two">
      <section class="card"><h2>Why it is so</h2><${Why} feed=${feed} row=${row} /></section>
      <section class="card"><h2>Fetch by fetch</h2><ol class="happenings">
        ${feed.happened.slice(-40).reverse().map((each) => html`<li key=${each.id} class=${each.what}><time>${clockOf(each.at_ms)}</time> ${words(each)}</li>`)}
      </ol></section>
    </div>
  </div>`;
}

/** The chain of events that led to the present leader and in-sync replicas, newest first. */
function Why({ feed, row }) {
  const mine = feed.events.filter((event) => event.topic === row[ROW.topic] && event.partition === row[ROW.partition]
    && kindOf(event) !== "detail");
  const shown = mine.slice(-12).reverse();
  return html`<ol class="events">${shown.map((event) => html`<li key=${`${event.node}-${event.seq}`}>
    <time>${clock(event.at)}</time> <b>${event.node}</b> <span class="sentence-line">${event.sentence}</span></li>`)}
    ${!shown.length && html`<li>no event is kept any more</li>`}</ol>`;
}

/** The state that was drawn before, so that what is new or cut can be seen. */
function useBefore(state, name) {
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

function stateOf(feed, row, cuts) {
  if (!row) return null;
  const brokers = [...new Set([...row[ROW.replicas], ...Object.keys(feed.replicas).map(Number)])].sort((a, b) => a - b);
  const nodes = new Map(feed.cluster.nodes.map((node) => [node.id, node]));
  const life = (id) => {
    const node = nodes.get(id);
    if (node?.process?.state === "paused") return "paused";
    return node?.awake ? "up" : "down";
  };
  const replicas = {};
  for (const id of brokers) replicas[id] = replicaOf(feed, row, id, life(id));
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

function replicaOf(feed, row, id, life) {
  const told = feed.replicas[id];
  if (!told) return { life, role: "", epoch: -1, follows: -1, start: 0, end: 0, highWatermark: null, runs: [], inSync: [], known: [], parked: [] };
  const leads = told.role === "leader" && life !== "down";
  return {
    life,
    role: life === "down" || told.role === "offline" ? "" : told.role,
    epoch: told.leader_epoch,
    follows: told.leader,
    start: told.log_start_offset,
    end: told.log_end_offset,
    highWatermark: life === "down" ? null : told.high_watermark,
    runs: runsOf(feed.epochs[id] ?? [[told.leader_epoch, told.log_start_offset]], told),
    inSync: leads ? told.isr : [],
    known: leads ? Object.entries(told.followers ?? {}).filter(([, offset]) => offset >= 0).map(([node, offset]) => [Number(node), offset]) : [],
    parked: leads ? [...feed.parkedOffsets].filter((offset) => offset > told.high_watermark).sort((a, b) => a - b).slice(0, 3) : [],
  };
}

function runsOf(epochs, { log_start_offset: start, log_end_offset: end }) {
  return epochs
    .map(([epoch, first], index) => [epoch, Math.max(first, start), Math.min(epochs[index + 1]?.[1] ?? end, end)])
    .filter(([, low, high]) => high > low);
}

/** The newest message between brokers and the newest to clients, for as long as they may be called new. */
function messagesOf(feed) {
  const newest = {};
  for (const each of feed.happened) {
    if (feed.now - each.at_ms > MESSAGES_SHOWN_MS) continue;
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

function words(each) {
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
