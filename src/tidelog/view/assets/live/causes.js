// How something came: the chain of causes, as `tidelog why` tells it.
import { html } from "tidelog/html";
import { useAnswer } from "./asking.js";
import { clock, Trouble } from "./parts.js";

/** Causes before what came of them; the last step is what was asked for. */
export function Causes({ path, everyMs = 0, withSummary = false }) {
  const { answer, trouble } = useAnswer(path, everyMs);
  if (!answer) return trouble ? html`<${Trouble} text=${trouble} />` : html`<p class="empty">asking …</p>`;
  return html`<div class="causes"><${Trouble} text=${trouble} />
    <ol class="chain">${answer.steps.map((step, index) => html`<li key=${index}>
      ${step.at ? html`<time>${clock(step.at)}</time>` : html`<time>before</time>`} <b>${step.node}</b>
      <span>${step.what}${step.cause && html`<span class="cause">: ${step.cause}</span>`}</span></li>`)}
      ${!answer.steps.length && html`<li class="empty">no event is kept any more</li>`}</ol>
    ${withSummary && html`<p class="summary"><b>Now</b> ${answer.summary}</p>`}</div>`;
}

export const whyPartition = (name) => `/api/why?partition=${encodeURIComponent(name)}`;
export const whyEvent = (event) => `/api/why?node=${event.node}&seq=${event.seq}`;
