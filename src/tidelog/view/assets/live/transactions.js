// Transactional ids: who has one open, and for how long.
import { html } from "tidelog/html";
import { useAnswer } from "./asking.js";
import { number, Table, Trouble } from "./parts.js";

export function Transactions() {
  const { answer, trouble } = useAnswer("/api/transactions", 2000);
  const age = (started) => (started ? `${((Date.now() - started) / 1000).toFixed(1)} s` : "–");
  return html`<section class="card"><h2>Transactions</h2><${Trouble} text=${trouble} />
    <${Table} label="transactions" head=${["transactional id", "state", "open for", "timeout", "producer", "coordinator", "partitions"]}
      empty=${answer ? "there is no transactional id" : "asking …"} rows=${(answer ?? []).map((each) => html`<tr key=${each.transactional_id} class=${each.state}>
        <td>${each.transactional_id}</td><td>${each.state}</td><td class="number">${age(each.started_ms)}</td>
        <td class="number">${each.timeout_ms === 2147483647 ? "never" : `${number(each.timeout_ms / 1000)} s`}</td>
        <td class="number">${each.producer_id} / ${each.producer_epoch}</td><td>${each.coordinator}</td>
        <td class="cut-short">${each.partitions.join(", ") || "–"}</td></tr>`)} />
    <p class="legend">An open transaction that is too old holds up readers of committed records: <code>tidelog transactions abort ID</code> ends it.</p></section>`;
}
