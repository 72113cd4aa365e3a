// Consumer groups: who reads what, and how far behind.
import { html } from "tidelog/html";
import { useAnswer } from "./asking.js";
import { Bar, number, Table, Trouble } from "./parts.js";

export function Groups({ name, go }) {
  const { answer, trouble } = useAnswer("/api/groups", 4000);
  return html`<div class="groups">
    ${name && html`<${Group} key=${name} name=${name} go=${go} />`}
    <section class="card"><h2>Groups</h2><${Trouble} text=${trouble} />
      <${Table} label="groups" head=${["group", "state", "protocol", "coordinator"]} empty=${answer ? "no consumer group is known: one appears when its consumers join or commit" : "asking …"} rows=${(answer ?? []).map((each) => html`<tr key=${each.group}>
        <td><a href=${`#/groups/${encodeURIComponent(each.group)}`} aria-current=${each.group === name ? "true" : undefined}>${each.group}</a></td>
        <td>${each.state}</td><td>${each.type}</td><td>${each.coordinator}</td></tr>`)} />
    </section></div>`;
}

function Group({ name, go }) {
  const { answer, trouble } = useAnswer(`/api/group?name=${encodeURIComponent(name)}`, 2000);
  if (!answer) return html`<section class="card"><h2>${name}</h2>${trouble ? html`<${Trouble} text=${trouble} />` : "asking …"}</section>`;
  const lag = answer.partitions.reduce((sum, each) => sum + (each.lag ?? 0), 0);
  const most = Math.max(1, ...answer.partitions.map((each) => each.lag ?? 0));
  const members = new Map(answer.members.map((member) => [member.member_id, member]));
  return html`<section class="card"><h2>${name}</h2><${Trouble} text=${trouble} />
    <p class="facts"><span>state <b>${answer.state}</b></span><span>assignor <b>${answer.assignor || "–"}</b></span>
      <span>coordinator <b>${answer.coordinator}</b></span><span>lag <b data-lag>${number(lag)}</b></span></p>
    <${Table} label="members" head=${["member", "client", "host", "partitions", "lag"]} empty="it has no members" rows=${answer.members.map((member) => html`<tr key=${member.member_id}>
      <td class="cut-short">${member.instance_id ?? member.member_id}</td><td>${member.client_id}</td><td>${member.host}</td>
      <td class="cut-short">${member.partitions.join(", ") || "none"}</td><td class="number">${number(member.lag)}</td></tr>`)} />
    <${Table} label="partitions" head=${["partition", "committed", "end", "lag", "", "member"]} empty="it has committed nothing" rows=${answer.partitions.map((each) => html`<tr key=${`${each.topic}-${each.partition}`}>
      <td><button type="button" class="plain" onClick=${() => go(`/partition/${each.topic}-${each.partition}`)}>${each.topic}-${each.partition}</button></td>
      <td class="number">${number(each.committed)}</td><td class="number">${each.trouble || number(each.end)}</td><td class="number">${number(each.lag)}</td>
      <td><${Bar} value=${each.lag ?? 0} most=${most} label=${`lag ${each.lag}`} /></td>
      <td>${members.get(each.member)?.client_id ?? "nobody"}</td></tr>`)} /></section>`;
}
