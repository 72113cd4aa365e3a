// Problems first, then the nodes, then every partition.
import { useState } from "preact/hooks";
import { html } from "tidelog/html";
import { useAnswer } from "./asking.js";
import { ROW, useFeed } from "./feed.js";
import { Grid, leaderKind, Swatch } from "./grid.js";
import { Action, clock, number } from "./parts.js";

const FILTERS = [
  ["", "all"], ["offline", "no leader"], ["under-min-isr", "below min ISR"],
  ["under-replicated", "under-replicated"], ["not-preferred", "not led as preferred"],
];
const TURNS = ["LeaderElected", "LogTruncated", "LogDirectory", "Broker", "Controller", "InSyncReplicasDecided", "Node", "Topic"];
const MARKS = { critical: "✕", warning: "!", notice: "i" };

export function Overview({ go }) {
  const feed = useFeed();
  const [filter, setFilter] = useState("");
  const [text, setText] = useState("");
  const { problems, partitions } = feed.cluster;
  return html`<div class="overview">
    <section class="card problems" aria-live="polite">
      ${problems.length
        ? html`<ul>${problems.map((problem) => html`<li class=${problem.severity} key=${problem.sentence}>
            <b class="mark-sign" aria-label=${problem.severity}>${MARKS[problem.severity]}</b>
            <span>${problem.sentence} ${problem.advice && html`<small>${problem.advice}.</small>`}</span>
            ${problem.filter && html`<button type="button" onClick=${() => setFilter(problem.filter)}>show</button>`}</li>`)}</ul>`
        : html`<p class="well"><b class="mark-sign">✓</b> ${feed.cluster.nodes.length ? `Nothing is wrong: ${number(partitions)} partitions are in sync on ${feed.cluster.nodes.length} nodes.` : "waiting for the nodes …"}</p>`}
    </section>
    <${Latest} feed=${feed} go=${go} />
    <${Nodes} feed=${feed} />
    ${feed.hello.directory && html`<${Links} />`}
    <section class="card">
      <div class="toolbar">
        <h2>${number(partitions)} partitions</h2>
        <label>show <select value=${filter} onChange=${(event) => setFilter(event.target.value)}>
          ${FILTERS.map(([value, words]) => html`<option value=${value}>${words}</option>`)}</select></label>
        <label class="grow"><span class="hidden">filter by name</span>
          <input type="search" placeholder="filter by name ( / )" data-search value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      </div>
      <${Legend} feed=${feed} />
      <${Grid} filter=${filter} text=${text} onOpen=${(name) => go(`/partition/${name}`)} />
    </section>
  </div>`;
}

/** What happened last and why; what happened to many partitions for one reason is one line. */
function Latest({ feed, go }) {
  const lines = new Map();
  for (const event of feed.events.slice(-400)) {
    if (!TURNS.some((kind) => event.event.startsWith(kind))) continue;
    const key = `${event.event} ${event.node} ${event.cause}`;
    const line = lines.get(key);
    lines.delete(key);
    const named = line && (event.topic?.startsWith("__") ?? true) ? line.named : event;
    lines.set(key, { named, at: event.at, count: (line?.count ?? 0) + 1 });
  }
  const rank = ({ named }) => TURNS.findIndex((kind) => named.event.startsWith(kind));
  const shown = [...lines.values()].sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : rank(a) - rank(b))).slice(0, 5);
  if (!shown.length) return null;
  return html`<section class="card latest" aria-label="latest events"><ol>
    ${shown.map(({ named, at, count }) => html`<li key=${`${named.node}-${named.seq}`}><time>${clock(at)}</time>
      ${count > 1 && html`<b class="times" title=${`${count} such events for the same reason`}>×${count}</b>`}<span class="sentence-line">${named.sentence}</span></li>`)}
  </ol><button type="button" onClick=${() => go("/timeline")}>timeline</button></section>`;
}

function Nodes({ feed }) {
  const led = {};
  for (const row of feed.rows.values()) led[row[ROW.leader]] = (led[row[ROW.leader]] ?? 0) + 1;
  return html`<section class="nodes">${feed.cluster.nodes.map((node) => {
    const broker = feed.cluster.brokers.find((each) => each.id === node.id);
    const state = !node.awake ? node.process?.state === "running" || !node.process ? "silent" : node.process.state
      : broker?.fenced ? "fenced" : "running";
    return html`<article class=${`card node ${state}`} key=${node.address} data-node=${node.id} data-state=${state}>
      <h3>${node.id >= 0 && node.id !== null && html`<${Swatch} kind=${leaderKind(node.id)} />`} Node ${node.id ?? node.address}
        ${feed.cluster.quorum.leader === node.id && html`<span title="active controller">★</span>`}</h3>
      <p>${state}${node.roles.length ? `, ${node.roles.join(" + ")}` : ""}${node.roles.includes("broker") ? `, leads ${number(led[node.id] ?? 0)}` : ""}</p>
      ${feed.hello.directory && html`<${NodeActions} node=${node} />`}
    </article>`;
  })}</section>`;
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
      <b>${between[0]} – ${between[1]}</b> <span class=${link.cut || link.delay_ms ? "health under-replicated" : "health fine"}>${said(link)}</span>
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
