// Problems first, then the nodes, then every partition; at the moment that is looked at.
import { useState } from "preact/hooks";
import { html } from "tidelog/html";
import { useAnswer } from "./asking.js";
import { momentOf } from "./events.js";
import { ROW, useFeed } from "./feed.js";
import { FILTERS, Grid, leaderKind, Swatch } from "./grid.js";
import { Action, clock, number } from "./parts.js";
import { clusterAt, useMoment } from "./past.js";
import { togglePin, usePins } from "./pins.js";
import { PastProblems, Problems } from "./problems.js";

const FILTER_WORDS = [
  ["", "all"], ["offline", "no leader"], ["under-min-isr", "below min ISR"],
  ["under-replicated", "under-replicated"], ["not-preferred", "not led as preferred"],
];
const TURNS = ["LeaderElected", "LogTruncated", "LogDirectory", "Broker", "Controller", "InSyncReplicasDecided", "Node", "Topic"];

export function Overview({ go }) {
  const feed = useFeed();
  const moment = useMoment();
  const [filter, setFilter] = useState("");
  const [text, setText] = useState("");
  const shown = clusterAt(feed, moment);
  const counts = countsOf(shown.rows);
  return html`<div class="overview">
    ${moment === null ? html`<${Problems} feed=${feed} onFilter=${setFilter} go=${go} />` : html`<${PastProblems} shown=${shown} counts=${counts} onFilter=${setFilter} />`}
    <${Latest} feed=${feed} moment=${moment} go=${go} />
    <${Nodes} feed=${feed} shown=${shown} isPast=${moment !== null} />
    ${feed.hello.directory && moment === null && html`<${Links} />`}
    <section class="card">
      <div class="toolbar">
        <h2>${number(shown.rows.size)} partitions</h2>
        <label>show <select value=${filter} onChange=${(event) => setFilter(event.target.value)}>
          ${FILTER_WORDS.map(([value, words]) => html`<option value=${value}>${words} (${number(counts[value])})</option>`)}</select></label>
        <label class="grow"><span class="hidden">filter by name</span>
          <input type="search" placeholder="filter by name ( / )" data-search value=${text} onInput=${(event) => setText(event.target.value)} /></label>
        <${Pinned} go=${go} />
      </div>
      <${Legend} feed=${feed} />
      <${Grid} filter=${filter} text=${text} rows=${moment === null ? null : shown.rows} onOpen=${(name) => go(`/partition/${name}`)} onPin=${togglePin} />
    </section>
  </div>`;
}

/** How many partitions each filter shows. */
function countsOf(rows) {
  const counts = Object.fromEntries(Object.keys(FILTERS).map((name) => [name, 0]));
  for (const row of rows.values()) {
    for (const name in FILTERS) if (FILTERS[name](row)) counts[name] += 1;
  }
  return counts;
}

function Pinned({ go }) {
  const pins = usePins();
  if (!pins.length) return html`<span class="hint"><kbd>p</kbd> pins one</span>`;
  return html`<button type="button" onClick=${() => go("/microscope")} title=${pins.join(", ")}>side by side (${pins.length})</button>`;
}

/** What happened last and why; what happened to many partitions for one reason is one line. */
function Latest({ feed, moment, go }) {
  const lines = new Map();
  const events = moment === null ? feed.events : feed.events.filter((event) => momentOf(event) <= moment);
  for (const event of events.slice(-400)) {
    if (!TURNS.some((kind) => event.event.startsWith(kind))) continue;
    const ofAllNodes = event.event.startsWith("Topic"); // each of them tells it
    const key = `${event.event} ${ofAllNodes ? "" : event.node} ${event.cause}`;
    const line = lines.get(key) ?? { named: event, about: new Set() };
    lines.delete(key);
    const named = event.topic === undefined || event.topic.startsWith("__") ? line.named : event;
    lines.set(key, { named, at: event.at, about: line.about.add(`${event.topic}-${event.partition ?? event.broker_id ?? ""}`) });
  }
  const rank = ({ named }) => TURNS.findIndex((kind) => named.event.startsWith(kind));
  const shown = [...lines.values()].sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : rank(a) - rank(b))).slice(0, 5);
  if (!shown.length) return null;
  return html`<section class="card latest" aria-label="latest events"><ol>
    ${shown.map(({ named, at, about: { size: count } }) => html`<li key=${`${named.node}-${named.seq}`}><time>${clock(at)}</time>
      ${count > 1 && html`<b class="times" title=${`${count} times for the same reason`}>×${count}</b>`}<span class="sentence-line">${named.sentence}</span></li>`)}
  </ol><button type="button" onClick=${() => go("/timeline")}>timeline</button></section>`;
}

function Nodes({ feed, shown, isPast }) {
  const led = {};
  for (const row of shown.rows.values()) led[row[ROW.leader]] = (led[row[ROW.leader]] ?? 0) + 1;
  return html`<section class="nodes">${feed.cluster.nodes.map((node) => {
    const state = isPast ? (shown.away.has(node.id) ? "fenced" : "unfenced") : stateOf(node, shown.away);
    const isBroker = node.roles.includes("broker");
    return html`<article class=${`card node ${state}`} key=${node.address} data-node=${node.id} data-state=${state}>
      <h3>${node.id >= 0 && node.id !== null && html`<${Swatch} kind=${leaderKind(node.id)} />`} Node ${node.id ?? node.address}
        ${shown.controller?.node === node.id && html`<span class="star" title="active controller">★</span>`}</h3>
      <p>${isPast && !isBroker ? "" : `${state}, `}${node.roles.join(" + ") || "role unknown"}${isBroker ? `, leads ${number(led[node.id] ?? 0)}` : ""}</p>
      ${feed.hello.directory && !isPast && html`<${NodeActions} node=${node} />`}
    </article>`;
  })}</section>`;
}

function stateOf(node, away) {
  if (node.awake) return away.has(node.id) ? "fenced" : "running";
  return node.process && node.process.state !== "running" ? node.process.state : "silent";
}

function NodeActions({ node }) {
  const state = node.process?.state;
  const verbs = state === "stopped" ? ["start"] : state === "paused" ? ["resume", "kill"] : ["kill", "stop", "pause"];
  const [open, setOpen] = useState(false);
  return html`<details open=${open} onToggle=${(event) => setOpen(event.target.open)}><summary>break or mend it</summary>
    ${open && verbs.map((verb) => html`<${Action} key=${verb} label=${verb} ask=${{ action: verb, node: node.id }} />`)}
  </details>`;
}

/** Links that are cut or slow, and on demand all of them. */
function Links() {
  const { answer } = useAnswer("/api/links", 1000);
  const [open, setOpen] = useState(false);
  if (!answer?.length) return null;
  const faulty = answer.filter((link) => link.cut || link.delay_ms);
  const said = ({ cut, delay_ms: delay }) => (cut ? "✂ cut" : delay ? `+ ${delay} ms` : "whole");
  const shown = open ? answer : faulty;
  return html`<section class=${`card links ${faulty.length ? "faulty" : ""}`}>
    <div class="toolbar"><b>Links between nodes</b> <span>${faulty.length ? `${faulty.length} of ${answer.length} are not whole` : `all ${answer.length} are whole`}</span>
      <button type="button" aria-pressed=${open} onClick=${() => setOpen(!open)}>${open ? "fewer" : "cut or slow one"}</button></div>
    ${shown.map(({ between, ...link }) => html`<div class="link-line" key=${between.join("-")} data-link=${between.join("-")}>
      <b>${between[0]} – ${between[1]}</b> <span class=${link.cut || link.delay_ms ? "attention" : ""}>${said(link)}</span>
      ${link.cut || link.delay_ms ? html`<${Action} label="heal" ask=${{ action: "heal", between }} />`
        : html`<${Action} label="cut" ask=${{ action: "cut", between }} /><${Action} label="slow by 500 ms" ask=${{ action: "slow", between, delay_ms: 500 }} />`}
    </div>`)}</section>`;
}

function Legend({ feed }) {
  const leaders = feed.cluster.nodes.filter((node) => node.roles.includes("broker")).map((node) => node.id);
  const first = leaders[0] ?? 0;
  return html`<p class="legend">
    ${leaders.slice(0, 9).map((id) => html`<span key=${id}><${Swatch} kind=${leaderKind(id)} /> led by ${id}</span>`)}
    <span><${Swatch} kind=${leaderKind(first)} health=${1} /> under-replicated</span>
    <span><${Swatch} kind=${leaderKind(first)} health=${2} /> below min ISR</span>
    <span><${Swatch} kind=${0} health=${3} /> no leader</span>
    <span><b>▪</b> records arrive</span>
  </p>`;
}
