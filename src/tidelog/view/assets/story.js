// A story: one recording or several, each stepped through on its own.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { Controls, StepDrawing, stateAt, useKeys, usePlayer } from "tidelog/player";

export const STORY_KEYS = [
  ["→ ←", "one step forward, back"],
  ["Shift → ←, Page", "to the next or last step that matters"],
  ["space", "play, pause"],
  ["Home End", "first step, last step"],
];

/** `tools` stand beside the title, `keys` are what a page does on further keys, `address` is as in `usePlayer`. */
export function Story({ story, tools, keys = {}, address }) {
  const player = usePlayer(story.acts, address);
  const [compare, setCompare] = useState(false);
  useKeys(player, keys);
  const act = story.acts[player.place.act];
  return html`<article class="story">
    <header>
      <h1>${story.title}</h1>
      <p class="about">${story.about}</p>
      ${tools}
    </header>
    ${story.acts.length > 1 && html`<${Acts} story=${story} player=${player} compare=${compare} setCompare=${setCompare} />`}
    ${compare
      ? html`<${Comparison} story=${story} />`
      : html`<div class="scene">
          <section class="stage" aria-label=${`partition ${act.partition}`}>
            ${act.captions.length > 0 && html`<p class="caption">${act.captions[act.steps[player.place.step].chapter] ?? ""}</p>`}
            <${StepDrawing} act=${act} index=${player.place.step} />
            <${Controls} act=${act} player=${player} />
            <${Sentence} step=${act.steps[player.place.step]} />
            <${Writes} act=${act} index=${player.place.step} />
            <${Legend} />
          </section>
          <${StepList} act=${act} player=${player} />
        </div>`}
    <footer>${act.partition}, recorded by <code>${story.command}</code> (Tidelog ${story.version}). Virtual time; every step is one of
      the simulator's. ${act.idle ? `Left out: ${act.idle} of its fetches and answers, which changed nothing.` : ""}</footer>
  </article>`;
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
  return html`<div class="scene comparison">
    ${story.acts.map((act, index) => html`<section class="stage" key=${index}>
      <h2>${act.title}</h2>
      <${StepDrawing} act=${act} index=${act.steps.length - 1} />
      <${Writes} act=${act} index=${act.steps.length - 1} />
      <p class="sentence">${act.steps.at(-1).text}</p>
    </section>`)}
  </div>`;
}

const moment = (us) => `${(us / 1e6).toFixed(4)} s`;

function Sentence({ step }) {
  return html`<p class="sentence" aria-live="polite"><time>${moment(step.at)}</time> ${step.text}</p>`;
}

/** What the producers were told. */
function Writes({ act, index }) {
  const { writes } = stateAt(act, index);
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
  const later = act.left_out.length > 0 && act.left_out[0].at >= act.steps.at(-1).at;
  return html`<aside class="steps" aria-label="all steps">
    <ol ref=${list}>
      ${!later && html`<${LeftOut} act=${act} />`}
      ${act.steps.map((step, index) => {
        const begins = step.chapter !== chapter;
        chapter = step.chapter;
        return html`${begins && act.captions[chapter] && html`<li class="chapter" key=${`c${index}`}>${act.captions[chapter]}</li>`}
          <li key=${index} class=${step.matters ? "matters" : ""}>
            <button type="button" aria-current=${index === current ? "step" : undefined} onClick=${() => player.go(index)}>
              <small>${index + 1}</small> ${step.text}</button></li>`;
      })}
      ${later && html`<${LeftOut} act=${act} />`}
    </ol>
  </aside>`;
}

/** Of a run too long for a page: what was before or after the steps that are kept. */
function LeftOut({ act }) {
  if (!act.left_out_steps) return null;
  return html`<li class="left-out">${act.left_out_steps} steps of this run are left out. Of these matter:</li>
    ${act.left_out.map(({ at, text }, place) => html`<li class="left-out" key=${`o${place}`}><time>${moment(at)}</time> ${text}</li>`)}`;
}
