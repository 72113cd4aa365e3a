// One partition under the microscope, live.
import { html } from "tidelog/html";
import { useAnswer } from "./asking.js";
import { Causes, whyPartition } from "./causes.js";
import { ROW, useFeed, useMicroscopes } from "./feed.js";
import { DrawnPartition, Happenings, MicroscopeLegend, PartitionFacts, PinButton } from "./microscopes.js";
import { Action } from "./parts.js";

export function Partition({ name, go }) {
  const feed = useFeed();
  useMicroscopes([name]);
  const { answer: links } = useAnswer(feed.hello.directory ? "/api/links" : null, 1000);
  const row = feed.rows.get(name);
  if (!row) {
    return html`<section class="card"><h2>${name}</h2><p>${feed.rows.size ? `There is no partition ${name}.` : "waiting for the nodes …"}</p></section>`;
  }
  const topic = row[ROW.topic];
  return html`<div class="partition">
    <section class="card">
      <div class="toolbar"><h2>${name}</h2><${PartitionFacts} row=${row} />
        <${PinButton} name=${name} go=${go} />
        <button type="button" onClick=${() => go(`/topics/${topic}`)}>messages</button></div>
      <${DrawnPartition} name=${name} row=${row} links=${links} />
      <${MicroscopeLegend} />
      ${row[ROW.leader] !== row[ROW.replicas][0] && html`<${Action} label="elect the preferred leader" ask=${{ action: "elect", topic }} />`}
    </section>
    <div class="two">
      <section class="card"><h2>Why it is so</h2><${Causes} path=${whyPartition(name)} everyMs=${2000} withSummary /></section>
      <section class="card"><h2>Fetch by fetch</h2><${Happenings} name=${name} /></section>
    </div>
  </div>`;
}
