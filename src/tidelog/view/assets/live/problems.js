// What is wrong, the worst first, with the way out.
import { html } from "tidelog/html";
import { number } from "./parts.js";

const MARKS = { critical: "✕", serious: "‼", degraded: "!", notice: "i" };
const FILTER_OF = { "offline-partitions": "offline", "under-min-isr": "under-min-isr", "under-replicated": "under-replicated" };

export function Problems({ feed, onFilter, go }) {
  const { problems, not_told: notTold, nodes, partitions } = feed.cluster;
  const waiting = !problems.length && !nodes.some((node) => node.awake);
  return html`<section class="card problems" aria-live="polite" aria-label="problems">
    ${problems.length > 0 && html`<ul>${problems.map((problem) => html`<${Problem} key=${problem.kind + problem.what} problem=${problem} onFilter=${onFilter} go=${go} />`)}</ul>`}
    ${!problems.length && html`<p class=${waiting ? "waiting-line" : "well"}>${waiting ? "waiting for the nodes …"
      : html`<b class="mark-sign" aria-hidden="true">✓</b> <span>Nothing is wrong: ${number(partitions)} partitions are in sync on ${nodes.length} nodes.</span>`}</p>`}
    ${notTold.length > 0 && html`<p class="not-told">not looked at: ${notTold.join("; ")}</p>`}
  </section>`;
}

function Problem({ problem, onFilter, go }) {
  const { severity, kind, what, remedy, partitions } = problem;
  const filter = FILTER_OF[kind];
  return html`<li class=${severity} data-kind=${kind}>
    <b class="mark-sign" aria-hidden="true">${MARKS[severity]}</b>
    <span class="said"><b class="severity">${severity}</b> ${what}
      <small><${Remedy} text=${remedy} /></small></span>
    ${filter && html`<button type="button" onClick=${() => onFilter(filter)}>show</button>`}
    ${!filter && partitions.length === 1 && html`<button type="button" onClick=${() => go(`/partition/${partitions[0]}`)}>open</button>`}</li>`;
}

/** Words with commands between backticks. */
function Remedy({ text }) {
  return text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}

/** What was wrong at an earlier moment, as far as events tell. */
export function PastProblems({ shown, counts, onFilter }) {
  const away = [...shown.away].sort();
  const lines = [
    ["critical", counts.offline, "without a leader", "offline"],
    ["serious", counts["under-min-isr"], "with fewer in-sync replicas than min.insync.replicas", "under-min-isr"],
    ["degraded", counts["under-replicated"], "with replicas out of sync", "under-replicated"],
  ].filter(([, count]) => count > 0);
  return html`<section class="card problems" aria-label="problems then">
    <ul>${lines.map(([severity, count, words, filter]) => html`<li key=${filter} class=${severity}>
      <b class="mark-sign" aria-hidden="true">${MARKS[severity]}</b><span class="said">${number(count)} ${count === 1 ? "partition" : "partitions"} ${words}</span>
      <button type="button" onClick=${() => onFilter(filter)}>show</button></li>`)}
      ${away.length > 0 && html`<li class="degraded"><b class="mark-sign" aria-hidden="true">!</b><span class="said">fenced: ${away.join(", ")}</span></li>`}
      ${!lines.length && !away.length && html`<li class="fine"><b class="mark-sign" aria-hidden="true">✓</b><span class="said">All partitions were in sync, and no broker was fenced.</span></li>`}
      ${shown.deleted.size > 0 && html`<li class="notice"><b class="mark-sign" aria-hidden="true">i</b><span class="said">not shown, since they were deleted later: ${[...shown.deleted.keys()].join(", ")}</span></li>`}</ul>
  </section>`;
}
