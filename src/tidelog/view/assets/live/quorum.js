// The metadata log: who votes, who leads, who is behind.
import { html } from "tidelog/html";
import { useFeed } from "./feed.js";
import { clock, number, Table } from "./parts.js";

export function Quorum() {
  const feed = useFeed();
  const { quorum, nodes, brokers } = feed.cluster;
  const voters = quorum.voters ?? [];
  const awake = new Map(nodes.map((node) => [node.id, node.awake]));
  const alive = voters.filter(({ id }) => awake.get(id)).length;
  const most = Math.floor(voters.length / 2) + 1;
  const elections = feed.events.filter((event) => event.event.startsWith("Controller")).slice(-12).reverse();
  return html`<div class="quorum">
    <section class="card"><h2>Quorum of controllers</h2>
      <p class="facts">
        <span>leader <b>${quorum.leader >= 0 ? quorum.leader : "none"}</b></span><span>epoch <b>${number(quorum.epoch)}</b></span>
        <span>high watermark <b>${number(quorum.high_watermark)}</b></span><span>log end <b>${number(quorum.log_end_offset)}</b></span>
        <span>voters <b>${alive} of ${voters.length} answer</b>, ${most} are a majority</span></p>
      <${Table} label="voters" head=${["voter", "is", "log end", "lag"]} empty="no quorum is known" rows=${voters.map((voter) => html`<tr key=${voter.id} data-voter=${voter.id}>
        <td>${voter.id}</td>
        <td>${voter.id === quorum.leader ? "★ leader" : awake.get(voter.id) ? "follower" : html`<span class="attention">✕ silent</span>`}</td>
        <td class="number">${number(voter.log_end_offset)}</td>
        <td class="number">${number(voter.lag)}</td></tr>`)} />
    </section>
    <section class="card"><h2>Brokers</h2>
      <${Table} label="brokers" head=${["broker", "state", "epoch", "rack", "listens on"]} rows=${brokers.map((broker) => html`<tr key=${broker.id}>
        <td>${broker.id}</td><td>${broker.fenced ? html`<span class="attention">✕ fenced</span>` : broker.shutting_down ? "shutting down" : "unfenced"}</td>
        <td class="number">${broker.epoch}</td><td>${broker.rack ?? "–"}</td>
        <td>${broker.endpoints.map((each) => `${each.name} ${each.host}:${each.port}`).join(", ")}</td></tr>`)} />
    </section>
    <section class="card"><h2>How it came</h2><ol class="events">${elections.map((event) => html`<li key=${`${event.node}-${event.seq}`}>
      <time>${clock(event.at)}</time> <span class="sentence-line">${event.sentence}</span></li>`)}
      ${!elections.length && html`<li>no event is kept any more</li>`}</ol></section>
  </div>`;
}
