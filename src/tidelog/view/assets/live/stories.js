// The simulator's stories, played here.
import { html } from "tidelog/html";
import { Story } from "tidelog/story";
import { useAnswer } from "./asking.js";
import { Trouble } from "./parts.js";

export function Stories({ name }) {
  const { answer, trouble } = useAnswer("/api/stories");
  return name ? html`<${Told} key=${name} name=${name} stories=${answer ?? []} />` : html`<section class="card">
    <h2>Stories</h2>
    <p class="lead">Replication one message at a time. The simulator runs the brokers' own code in virtual time; nothing of it touches the cluster that you look at.</p>
    <${Trouble} text=${trouble} />
    ${!answer && !trouble && html`<${Running} words="finding the stories …" />`}
    <ul class="story-list">${(answer ?? []).map((each) => html`<li key=${each.name}><a href=${`#/stories/${each.name}`}>
      <b>${each.title}</b> <span>${each.about}</span>${each.acts > 1 && html`<small>${each.acts} acts</small>`}</a></li>`)}</ul></section>`;
}

/** One story; its place in it stands in the address. */
function Told({ name, stories }) {
  const { answer, trouble } = useAnswer(`/api/stories?name=${encodeURIComponent(name)}`);
  const title = stories.find((each) => each.name === name)?.title ?? name;
  const address = { read: () => location.hash.split("?")[1] ?? "", link: (place) => `#/stories/${name}?${place}` };
  return html`<div class="told">
    <nav class="crumbs" aria-label="stories"><a href="#/stories">all stories</a>
      <label>story <select value=${name} onChange=${(event) => { location.hash = `/stories/${event.target.value}`; }}>
        ${stories.map((each) => html`<option value=${each.name}>${each.title}</option>`)}</select></label>
      <code title="writes it as one HTML file">tidelog story ${name} --open</code></nav>
    <${Trouble} text=${trouble} />
    ${!answer && !trouble && html`<section class="card"><${Running} words=${`The simulator runs “${title}” …`} /></section>`}
    ${answer && html`<${Story} story=${answer} address=${address} />`}
  </div>`;
}

function Running({ words }) {
  return html`<p class="in-progress" role="status"><i aria-hidden="true" />${words}</p>`;
}
