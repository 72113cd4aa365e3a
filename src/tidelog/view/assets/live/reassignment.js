// Moving partitions to other brokers: first what would move, then what moves.
import { useEffect, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { useAnswer } from "./asking.js";
import { ROW, useFeed } from "./feed.js";
import { Action, number, size, Table, Trouble } from "./parts.js";

export function Reassignment() {
  const feed = useFeed();
  const topics = [...new Set([...feed.rows.values()].map((row) => row[ROW.topic]))].sort();
  const brokers = feed.cluster.brokers.map((broker) => broker.id);
  const [topic, setTopic] = useState("");
  const [chosen, setChosen] = useState(null);
  const first = topics.find((each) => !each.startsWith("__")) ?? topics[0] ?? "";
  useEffect(() => {
    if (!topic && first) setTopic(first);
  }, [topic, first]);
  const targets = chosen ?? brokers;
  const toggle = (id) => setChosen(targets.includes(id) ? targets.filter((each) => each !== id) : [...targets, id].sort((a, b) => a - b));
  const path = topic && targets.length ? `/api/preview?topic=${encodeURIComponent(topic)}&brokers=${targets.join(",")}` : null;
  const { answer, trouble } = useAnswer(path, 3000);
  const moves = (answer?.moves ?? []).filter((move) => move.changes);
  const bytes = moves.reduce((sum, move) => (sum === null || move.bytes === null ? null : sum + move.bytes), 0);
  return html`<div class="reassignment">
    <${UnderWay} />
    <section class="card"><h2>Move a topic</h2>
      <div class="toolbar"><label>topic <select value=${topic} data-topic onChange=${(event) => setTopic(event.target.value)}>${topics.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
        <fieldset><legend>onto brokers</legend>${brokers.map((id) => html`<label class="check" key=${id}>
          <input type="checkbox" value=${id} checked=${targets.includes(id)} onChange=${() => toggle(id)} /> ${id}</label>`)}</fieldset></div>
      <${Trouble} text=${trouble} />
      ${answer && html`<p class="facts" data-preview=${moves.length}>${moves.length
        ? html`<span><b>${number(moves.length)} of ${number(answer.moves.length)}</b> partitions would change</span><span><b>${size(bytes)}</b> would be copied</span>`
        : html`<span>all of it is in place already</span>`}</p>
      ${moves.length > 0 && html`<${Table} label="preview" head=${["partition", "replicas now", "then", "copied to", "removed from", "bytes"]} rows=${moves.slice(0, 200).map((move) => html`<tr key=${move.name}>
        <td>${move.name}</td><td>${move.before.join(", ")}</td><td>${move.after.join(", ")}</td>
        <td>${move.adding.join(", ") || "–"}</td><td>${move.removing.join(", ") || "–"}</td><td class="number">${size(move.bytes)}</td></tr>`)} />`}
      ${moves.length > 0 && html`<${Action} label="move them" ask=${{ action: "reassign", topic, brokers: targets }} />`}`}
    </section>
    <section class="card"><h2>Preferred leaders</h2>
      <p>The first replica of each partition is its preferred leader. The cluster moves leaders back by itself after a while.</p>
      <${Action} label="elect preferred leaders" ask=${{ action: "elect" }} /></section>
  </div>`;
}

function UnderWay() {
  const { answer, trouble } = useAnswer("/api/reassignments", 1000);
  const moving = answer ?? [];
  return html`<section class="card"><h2>Under way</h2><${Trouble} text=${trouble} />
    <${Table} label="under way" head=${["partition", "goes to", "joining", "leaving", "left"]} empty=${answer ? "nothing moves" : "asking …"} rows=${moving.map((move) => html`<tr key=${move.name}>
      <td>${move.name}</td><td>${move.after.join(", ")}</td><td>${move.adding.join(", ") || "–"}</td><td>${move.removing.join(", ") || "–"}</td>
      <td class="number">${size(move.bytes_left)}</td></tr>`)} />
    ${moving.length > 0 && html`<${Action} label="cancel" ask=${{ action: "cancel-reassignments" }} />`}</section>`;
}
