// What happened and why, on all nodes, with a way back in time.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { Causes, whyEvent } from "./causes.js";
import { idOf, kindOf, KINDS, momentOf } from "./events.js";
import { ROW, useFeed } from "./feed.js";
import { clock, number } from "./parts.js";
import { clusterAt, setMoment, useMoment } from "./past.js";
import { Scrubber } from "./scrubber.js";

const SHOWN = 250;
const LANE = 26;

export function Timeline({ go }) {
  const feed = useFeed();
  const moment = useMoment();
  const [text, setText] = useState("");
  const [kinds, setKinds] = useState(() => new Set(KINDS.map(([kind]) => kind).filter((kind) => kind !== "detail")));
  const [chosen, setChosen] = useState(null);
  const shown = useMemo(() => {
    const wanted = text.toLowerCase();
    return feed.events.filter((event) => kinds.has(kindOf(event)) && (!wanted || event.sentence.toLowerCase().includes(wanted)
      || `node ${event.node}` === wanted || event.event.toLowerCase().includes(wanted)));
  }, [feed.events.length, feed.events[feed.events.length - 1], text, kinds]);
  const until = moment === null ? shown : shown.filter((event) => momentOf(event) <= moment);
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
      <${Lanes} events=${shown} moment=${moment} />
      <${Scrubber} events=${shown} moment=${moment} />
      <${AsItWas} feed=${feed} moment=${moment} go=${go} />
    </section>
    <section class="card"><ol class="events event-list">
      ${until.slice(-SHOWN).reverse().map((event) => html`<${Event} key=${idOf(event)} event=${event} go=${go}
        open=${chosen === idOf(event)} onToggle=${() => setChosen(chosen === idOf(event) ? null : idOf(event))} />`)}
      ${!until.length && html`<li class="empty">nothing happened that fits</li>`}
    </ol>
    ${until.length > SHOWN && html`<p class="legend">${number(until.length - SHOWN)} earlier ones: filter, or go back in time</p>`}</section>
  </div>`;
}

/** One event; a click opens how it came. */
function Event({ event, open, onToggle, go }) {
  const show = () => {
    setMoment(momentOf(event));
    go("/");
  };
  return html`<li class=${`${kindOf(event)} ${open ? "chosen" : ""}`}>
    <button type="button" onClick=${onToggle} aria-expanded=${open}>
      <time>${clock(event.at)}</time> <b>${event.node}</b> <span class="sentence-line">${event.sentence}</span></button>
    ${open && html`<div class="opened-event"><h3>How it came</h3><${Causes} path=${whyEvent(event)} />
      <p class="event-tools"><button type="button" onClick=${show}>the cluster at this moment</button>
        ${event.topic !== undefined && event.partition !== undefined && html`<a href=${`#/partition/${event.topic}-${event.partition}`}>${event.topic}-${event.partition}</a>`}</p>
      <details><summary>as JSON</summary><pre>${JSON.stringify({ ...event, sentence: undefined }, null, 1)}</pre></details></div>`}</li>`;
}

/** The cluster at the moment in a line, and the way to all of it. */
function AsItWas({ feed, moment, go }) {
  const { rows, away, controller } = clusterAt(feed, moment);
  const counts = [0, 0, 0, 0];
  for (const row of rows.values()) counts[row[ROW.health]] += 1;
  return html`<p class="as-it-was">
    <span>controller <b>${controller ? `${controller.node} (epoch ${controller.epoch})` : "unknown"}</b></span>
    <span>fenced <b>${[...away].sort().join(", ") || "nobody"}</b></span>
    <span>partitions <b>${number(rows.size)}</b></span><span>without a leader <b>${number(counts[3])}</b></span>
    <span>below min ISR <b>${number(counts[2])}</b></span><span>under-replicated <b>${number(counts[1])}</b></span>
    ${moment !== null && html`<button type="button" onClick=${() => go("/")}>show the cluster then</button>`}
  </p>`;
}

function Lanes({ events, moment }) {
  const first = events.length ? momentOf(events[0]) : 0;
  const last = events.length ? momentOf(events[events.length - 1]) : 1;
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
    for (const event of events) paintEvent(context, kindOf(event), x(momentOf(event)), nodes.indexOf(event.node) * LANE + LANE / 2, colour);
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
  }, [events, moment, width, document.documentElement.dataset.theme]);
  const click = (event) => {
    const at = event.clientX - canvas.current.getBoundingClientRect().left;
    const time = Math.round(first + ((at - 44) / (width - 56)) * (last - first));
    setMoment(time >= last ? null : Math.max(first, time));
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
