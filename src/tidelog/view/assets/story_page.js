// A page that is one story, which stands in it as JSON.
import { render } from "preact";
import { useState } from "preact/hooks";
import { html } from "tidelog/html";
import { Story, STORY_KEYS } from "tidelog/story";
import { applyTheme, nextTheme } from "tidelog/theme";

const KEYS = [...STORY_KEYS, ["t", "light, dark, as the system has it"], ["?", "this list"]];

function StoryPage({ story }) {
  const [theme, setTheme] = useState(() => applyTheme());
  const [help, setHelp] = useState(false);
  const turn = () => setTheme(nextTheme());
  const keys = { "?": () => setHelp((shown) => !shown), t: turn, Escape: () => setHelp(false) };
  const tools = html`<div class="tools">
    <button type="button" onClick=${turn} title="light or dark (t)">${{ auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[theme]}</button>
    <button type="button" onClick=${() => setHelp(!help)} title="keys (?)" aria-expanded=${help}>?</button>
  </div>`;
  return html`<main class="page"><${Story} story=${story} tools=${tools} keys=${keys} />
    ${help && html`<${Help} close=${() => setHelp(false)} />`}</main>`;
}

function Help({ close }) {
  return html`<div class="help" role="dialog" aria-label="keys" onClick=${close}>
    <table onClick=${(event) => event.stopPropagation()}>
      <caption>Keys</caption>
      ${KEYS.map(([key, words]) => html`<tr><th><kbd>${key}</kbd></th><td>${words}</td></tr>`)}
      <tr><td colspan="2">A link ends with #step=12 and opens there.</td></tr>
    </table>
  </div>`;
}

const story = JSON.parse(document.getElementById("story").textContent);
render(html`<${StoryPage} story=${story} />`, document.getElementById("root"));
