// The page of a story: one recording or several, each stepped through on its own.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { Controls, StepDrawing, useKeys, usePlayer } from "tidelog/player";
import { applyTheme, nextTheme } from "tidelog/theme";

const KEYS = [
  ["→ ←", "one step forward, back"],
  ["Shift → ←, Page", "to the next or last step that matters"],
  ["space", "play, pause"],
  ["Home End", "first step, last step"],
  ["t", "light, dark, as the system has it"],
  ["?", "this list"],
];

function Story({ story }) {
  const player = usePlayer(story.acts);
  const [theme, setTheme] = useState(() => applyTheme());
  const [help, setHelp] = useState(false);
  const [compare, setCompare] = useState(false);
  const turn = () => setTheme(nextTheme(theme));
  useKeys(player, {
    help: () => setHelp((shown) => !shown),
    theme: turn,
    close: () => setHelp(false),
  });
  const act = story.acts[player.place.act];
  return html`<div class="page">
    <header>
      <h1>${story.title}</h1>
      <p class="about">${story.about}</p>
      <div class="tools">
        <button type="button" onClick=${turn} title="light or dark (t)">${{ auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[theme]}</button>
        <button type="button" onClick=${() => setHelp(!help)} title="keys (?)" aria-expanded=${help}>?</button>
      </div>
    </header>
    ${story.acts.length > 1 && html`<${Acts} story=${story} player=${player} compare=${compare} setCompare=${setCompare} />`}
    ${compare
      ? html`<${Comparison} story=${story} />`
      : html`<main>
          <section class="stage" aria-label=${`partition ${act.partition}`}>
            <p class="caption">${act.captions[act.steps[player.place.step].chapter] ?? ""}</p>
            <${StepDrawing} act=${act} index=${player.place.step} />
            <${Controls} act=${act} player=${player} />
            <${Sentence} step=${act.steps[player.place.step]} />
            <${Writes} act=${act} index=${player.place.step} />
            <${Legend} />
          </section>
          <${StepList} act=${act} player=${player} />
        </main>`}
    ${help && html`<${Help} close=${() => setHelp(false)} />`}
    <footer>${act.partition}, recorded by <code>${story.command}</code> (Tidelog ${story.version}). Virtual time; every step is one of
      the simulator's. ${act.idle ? `Left out: ${act.idle} of its fetches and answers, which changed nothing.` : ""}</footer>
  </div>`;
}

function Acts({ story, player, compare, setCompare }) {
  return html`<nav class="acts" aria-label="acts">
    ${story.acts.map((act, index) => html`<button type="button" key=${index}
      aria-pressed=${!compare && index === player.place.act}
      onClick=${() => { setCompare(false); player.toAct(index); }}>${index + 1}. ${act.title}</button>`)}
    <button type="button" aria-pressed=${compare} onClick=${() => setCompare(!compare)}>how they end, side by side</button>
  </nav>`;
}

function Comparison({ story }) {
  return html`<main class="comparison">
    ${story.acts.map((act, index) => html`<section class="stage" key=${index}>
      <h2>${act.title}</h2>
      <${StepDrawing} act=${act} index=${act.steps.length - 1} />
      <${Writes} act=${act} index=${act.steps.length - 1} />
      <p class="sentence">${act.steps.at(-1).text}</p>
    </section>`)}
  </main>`;
}

const moment = (us) => `${(us / 1e6).toFixed(4)} s`;

function Sentence({ step }) {
  return html`<p class="sentence" aria-live="polite"><time>${moment(step.at)}</time> ${step.text}</p>`;
}

/** What the producers were told. */
function Writes({ act, index }) {
  const { writes } = act.clusters[act.steps[index].cluster];
  if (!writes.length) return null;
  const words = ({ fate, offset, error, lost }) => {
    if (lost) return `acknowledged at ${offset}, lost`;
    return { waits: "waits", acknowledged: `✓ at ${offset}`, refused: `✕ ${error}`, unanswered: "no answer" }[fate];
  };
  return html`<ul class="writes" aria-label="what producers were told">
    ${writes.map((write, place) => html`<li key=${place} class=${write.lost ? "lost" : write.fate}>
      <b>${write.label}</b> <small>acks=${write.acks === -1 ? "all" : write.acks}</small> ${words(write)}</li>`)}
  </ul>`;
}

function Legend() {
  return html`<p class="legend">
    <span><i class="swatch committed" /> committed</span>
    <span><i class="swatch open" /> above the high watermark</span>
    <span><i class="swatch cut" /> truncated in this step</span>
    <span><b class="hw">HW</b> high watermark as this replica knows it</span>
    <span><b>100 ▸</b> what the leader knows a follower to hold</span>
    <span><svg class="sandglass" width="9" height="13" viewBox="0 -6.5 8 13"><path d="M0 -6 h8 l-8 12 h8 z" /></svg> an acknowledgement waits for that offset</span>
    <span><b>★</b> active controller</span>
    <span>e1: written in leader epoch 1</span>
  </p>`;
}

function StepList({ act, player }) {
  const list = useRef(null);
  const { step: current } = player.place;
  useEffect(() => {
    const item = list.current?.querySelector("[aria-current]");
    if (item && list.current.scrollHeight > list.current.clientHeight) {
      list.current.scrollTop = item.offsetTop - list.current.clientHeight / 2;
    }
  }, [current, act]);
  let chapter = null;
  return html`<aside class="steps" aria-label="all steps">
    <ol ref=${list}>
      ${(act.left_out ?? []).map(({ at, text }) => html`<li class="left-out" key=${`o${at}`}><time>${moment(at)}</time> ${text}</li>`)}
      ${act.steps.map((step, index) => {
        const begins = step.chapter !== chapter;
        chapter = step.chapter;
        return html`${begins && act.captions[chapter] && html`<li class="chapter" key=${`c${index}`}>${act.captions[chapter]}</li>`}
          <li key=${index} class=${step.matters ? "matters" : ""}>
            <button type="button" aria-current=${index === current ? "step" : undefined} onClick=${() => player.go(index)}>
              <small>${index + 1}</small> ${step.text}</button></li>`;
      })}
    </ol>
  </aside>`;
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

applyTheme();
const story = JSON.parse(document.getElementById("story").textContent);
render(html`<${Story} story=${story} />`, document.getElementById("root"));
