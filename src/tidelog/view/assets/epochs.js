// How a leader epoch looks: a colour, a pattern and always its number, so that no eye needs the colour.
import { html } from "tidelog/html";

const KINDS = 6;

export const epochKind = (epoch) => ((epoch % KINDS) + KINDS) % KINDS;

const stroke = (d) => html`<path d=${d} class="weave" />`;

/** The patterns, once per drawing; `id` keeps two drawings of a page apart. */
export function EpochPatterns({ id }) {
  const pattern = (kind, size, weave) => html`
    <pattern id=${`${id}-${kind}`} width=${size} height=${size} patternUnits="userSpaceOnUse">${weave}</pattern>`;
  return html`<defs>
    ${pattern(0, 8, null)}
    ${pattern(1, 8, stroke("M-2 2 L2 -2 M0 8 L8 0 M6 10 L10 6"))}
    ${pattern(2, 7, html`<circle cx="3.5" cy="3.5" r="1.1" class="dot" />`)}
    ${pattern(3, 8, stroke("M-2 6 L2 10 M0 0 L8 8 M6 -2 L10 2"))}
    ${pattern(4, 7, stroke("M0 3.5 L7 3.5"))}
    ${pattern(5, 9, stroke("M0 4.5 L9 4.5 M4.5 0 L4.5 9"))}
  </defs>`;
}

/** A stretch of a log in the look of its epoch. */
export function EpochBlock({ id, epoch, x, y, width, height, state }) {
  const kind = epochKind(epoch);
  const box = { x, y, width, height, rx: 3 };
  return html`<g class=${`block epoch-${kind} ${state}`}>
    <rect class="fill" ...${box} />
    <rect class="pattern" ...${box} fill=${`url(#${id}-${kind})`} />
    <rect class="edge" ...${box} />
  </g>`;
}
