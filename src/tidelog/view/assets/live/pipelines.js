// Pipelines from topics to tables: rows, quarantine, lag.
import { html } from "tidelog/html";
import { useAnswer } from "./asking.js";
import { useFeed } from "./feed.js";
import { number, Table, Trouble } from "./parts.js";

export function Pipelines() {
  const { hello } = useFeed();
  const { answer, trouble } = useAnswer(hello.pipelines ? "/api/pipelines" : null, 3000);
  if (!hello.pipelines) {
    return html`<section class="card"><h2>Pipelines</h2>
      <p>No pipeline is named. <code>tidelog view --pipeline pipeline.yaml</code> shows how far its tables are.</p></section>`;
  }
  return html`<div><${Trouble} text=${trouble} />${(answer ?? []).map((each) => html`<section class="card" key=${each.file}><h2>${each.name}</h2>
    <p class="about">${each.file}</p><${Trouble} text=${each.trouble} />
    <${Table} label=${each.name} head=${["table", "from", "rows", "in quarantine", "dropped", "lag"]} rows=${each.tables.map((table) => html`<tr key=${table.table}>
      <td>${table.table}</td><td>${table.source}</td><td class="number">${number(table.rows)}</td>
      <td class=${`number ${table.quarantined ? "attention" : ""}`}>${number(table.quarantined)}</td><td class="number">${number(table.dropped)}</td>
      <td class="number">${table.trouble || number(table.lag)}</td></tr>`)} />
    ${each.views?.length > 0 && html`<p class="legend">views: ${each.views.join(", ")}</p>`}</section>`)}</div>`;
}
