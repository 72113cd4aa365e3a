// What happened and why, on all nodes, with a way back in time.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { useFeed } from "./feed.js";
import { clock } from "./parts.js";

const SHOWN = 250;
const LANE = 26;
const KINDS = [
  ["leader", /^(LeaderElected|PartitionBecameLeader)$/, "leaders"],
  ["isr", /^InSyncReplicasDecided$/, "in-sync replicas"],
  ["broker", /^(Broker|Node|LogDirectory)/, "brokers"],
  ["controller", /^(Controller|StrangeController)/, "controllers"],
  ["log", /^(LogTruncated|LogRecovered|Segment|LogCleaned|CleaningFailed|FetcherStuck)/, "logs"],
  ["topic", /^(Topic|InternalTopic)/, "topics"],
  ["detail", /./, "details"],
];
export const kindOf = (event) => KINDS.find(([, pattern]) => pattern.test(event.event))[0];
const ms = (event) => Date.parse(event.at);

export function Timeline() {
  const feed = useFeed();
  const [text, setText] = useState("");
  const [kinds, setKinds] = useState(() => new Set(KINDS.map(([kind]) => kind).filter((kind) => kind !== "detail")));
  const [moment, setMoment] = useState(null); // null: now
  const [chosen, setChosen] = useState(null);
  const shown = useMemo(() => {
    const wanted = text.toLowerCase();
    return feed.events.filter((event) => kinds.has(kindOf(event)) && (!wanted || event.sentence.toLowerCase().includes(wanted)
      || `node ${event.node}` === wanted || event.event.toLowerCase().includes(wanted)));
  }, [feed.events.length, feed.events[feed.events.length - 1], text, kinds]);
  const until = moment === null ? shown : shown.filter((event) => ms(event) <= moment);
  const first = shown.length ? ms(shown[0]) : 0;
  const last = shown.length ? ms(shown[shown.length - 1]) : 1;
  const step = (by) => {
    const times = [...new Set(shown.map(ms))];
    const at = moment === null ? times.length - 1 : times.findIndex((time) => time >= moment);
    const next = Math.min(times.length - 1, Math.max(0, at + by));
    setMoment(next === times.length - 1 && by > 0 ? null : times[next]);
  };
  const toggle = (kind) => setKinds((before) => {
    const after = new Set(before);
    if (!after.delete(kind)) after.add(kind);
    return after;
  });
  return html`<div class="timeline">
    <section class="card">
      <div class="toolbar"><h2>Timeline</h2>
        ${KINDS.map(([kind, , label]) => html`<button type="button" class=${`kind ${kind}`} aria-pressed=${kinds.has(kind)} onClick=${() => toggle(kind)}>${label}</button>`)}
        <label class="grow"><span class="hidden">filter</span><input type="search" placeholder="filter: orders-0, fenced, node 101 ( / )" data-search
          value=${text} onInput=${(event) => setText(event.target.value)} /></label>
        <a class="button" href="/api/trace" download="tidelog-trace.json" title="for ui.perfetto.dev or chrome://tracing">export trace</a></div>
      <${Lanes} events=${shown} first=${first} last=${last} moment=${moment} onMoment=${setMoment} />
      <div class="scrubber">
        <button type="button" onClick=${() => step(-1)} aria-label="one event back">◂</button>
        <input type="range" min=${first} max=${Math.max(last, first + 1)} step="1" value=${moment ?? last} aria-label="moment"
          onInput=${(event) => { const value = Number(event.target.value); setMoment(value >= last ? null : value); }} />
        <button type="button" onClick=${() => step(1)} aria-label="one event forward">▸</button>
        <button type="button" aria-pressed=${moment === null} onClick=${() => setMoment(null)}>live</button>
        <time>${moment === null ? "now" : clock(new Date(moment).toISOString())}</time>
      </div>
      <${AsItWas} events=${feed.events} moment=${moment ?? Infinity} />
    </section>
    <section class="card"><ol class="events event-list">
      ${until.slice(-SHOWN).reverse().map((event) => {
        const id = `${event.node}-${event.seq}`;
        return html`<li key=${id} class=${`${kindOf(event)} ${chosen === id ? "chosen" : ""}`}>
          <button type="button" onClick=${() => setChosen(chosen === id ? null : id)} aria-expanded=${chosen === id}>
            <time>${clock(event.at)}</time> <b>${event.node}</b> <span class="sentence-line">${event.sentence}</span></button>
          ${chosen === id && html`<pre>${JSON.stringify({ ...event, sentence: undefined }, null, 1)}</pre>`}</li>`;
      })}
      ${!until.length && html`<li>nothing happened that fits</li>`}
    </ol></section>
  </div>`;
}

/** Who led and who was fenced at the moment, as the events tell. */
function AsItWas({ events, moment }) {
  const known = useMemo(() => {
    const found = { controller: null, fenced: new Set(), leaders: new Map(), isr: new Map() };
    for (const event of events) {
      if (ms(event) > moment) break;
      const name = `${event.topic}-${event.partition}`;
      if (event.event === "ControllerActivated") found.controller = `${event.node} (epoch ${event.epoch})`;
      else if (event.event === "BrokerFenced") found.fenced.add(event.broker_id);
      else if (event.event === "BrokerUnfenced") found.fenced.delete(event.broker_id);
      else if (event.event === "LeaderElected") found.leaders.set(name, event);
      else if (event.event === "InSyncReplicasDecided") found.isr.set(name, event.in_sync);
    }
    return found;
  }, [events.length, events[events.length - 1], moment]);
  const without = [...known.leaders].filter(([, event]) => event.leader < 0).map(([name]) => name);
  const recent = [...known.leaders].slice(-6).filter(([, event]) => event.leader >= 0);
  return html`<p class="as-it-was">
    <span>controller <b>${known.controller ?? "unknown"}</b></span>
    <span>fenced <b>${[...known.fenced].join(", ") || "nobody"}</b></span>
    <span>without a leader <b>${without.length > 5 ? `${without.length} partitions` : without.join(", ") || "none"}</b></span>
    ${recent.map(([name, event]) => html`<span key=${name}>${name} led by <b>${event.leader}</b> in epoch ${event.leader_epoch}${known.isr.has(name) ? `, in sync ${known.isr.get(name).join(", ")}` : ""}</span>`)}
  </p>`;
}

function Lanes({ events, first, last, moment, onMoment }) {
  const canvas = useRef(null);
  const [width, setWidth] = useState(600);
  const nodes = [...new Set(events.map((event) => event.node))].sort((a, b) => a - b);
  const height = Math.max(1, nodes.length) * LANE + 18;
  useEffect(() => {
    const frame = canvas.current.parentElement;
    const observer = new ResizeObserver(() => setWidth(Math.max(200, frame.clientWidth)));
    observer.observe(frame);
    return () => observer.disconnect();
  }, []);
  const x = (time) => 44 + ((time - first) / Math.max(1, last - first)) * (width - 56);
  useLayoutEffect(() => {
    const ratio = window.devicePixelRatio || 1;
    canvas.current.width = width * ratio;
    canvas.current.height = height * ratio;
    canvas.current.style.width = `${width}px`;
    canvas.current.style.height = `${height}px`;
    const context = canvas.current.getContext("2d");
    context.scale(ratio, ratio);
    const style = getComputedStyle(canvas.current);
    const colour = (name) => style.getPropertyValue(name).trim();
    context.font = "12px system-ui, sans-serif";
    nodes.forEach((node, index) => {
      const y = index * LANE + LANE / 2;
      context.fillStyle = colour("--soft");
      context.fillText(String(node), 4, y + 4);
      context.fillStyle = colour("--line");
      context.fillRect(44, y, width - 56, 1);
    });
    for (const event of events) paintEvent(context, kindOf(event), x(ms(event)), nodes.indexOf(event.node) * LANE + LANE / 2, colour);
    context.fillStyle = colour("--soft");
    if (events.length) {
      context.fillText(clock(events[0].at), 44, height - 4);
      context.textAlign = "right";
      context.fillText(clock(events[events.length - 1].at), width - 12, height - 4);
      context.textAlign = "left";
    }
    if (moment !== null) {
      context.fillStyle = colour("--accent");
      context.fillRect(x(moment) - 1, 0, 2, height - 16);
    }
  });
  const click = (event) => {
    const at = event.clientX - canvas.current.getBoundingClientRect().left;
    onMoment(Math.round(first + ((at - 44) / (width - 56)) * (last - first)));
  };
  return html`<div class="lanes"><canvas ref=${canvas} onClick=${click} role="img" aria-label=${`${events.length} events on ${nodes.length} nodes`} /></div>`;
}

/** Each kind has a shape of its own beside its colour. */
function paintEvent(context, kind, x, y, colour) {
  context.fillStyle = colour({ leader: "--edge-1", isr: "--edge-2", broker: "--bad", controller: "--accent", log: "--edge-4", topic: "--edge-5", detail: "--soft" }[kind]);
  context.beginPath();
  if (kind === "leader") {
    context.moveTo(x, y - 7);
    context.lineTo(x + 6, y + 5);
    context.lineTo(x - 6, y + 5);
  } else if (kind === "isr") context.arc(x, y, 4.5, 0, 7);
  else if (kind === "broker") context.rect(x - 4.5, y - 4.5, 9, 9);
  else if (kind === "controller") {
    context.moveTo(x, y - 7);
    context.lineTo(x + 6, y);
    context.lineTo(x, y + 7);
    context.lineTo(x - 6, y);
  } else if (kind === "log") context.rect(x - 1.5, y - 7, 3, 14);
  else context.arc(x, y, 2.5, 0, 7);
  context.fill();
}
