// Back and forth in time: by event, by slider, and back to now.
import { html } from "tidelog/html";
import { kindOf, momentOf } from "./events.js";
import { useFeed } from "./feed.js";
import { clockOf } from "./parts.js";
import { setMoment, useMoment } from "./past.js";

const OF_THE_PAST = new Set(["", "timeline"]); // screens that show an earlier moment

export function Scrubber({ events, moment }) {
  const first = events.length ? momentOf(events[0]) : 0;
  const last = events.length ? momentOf(events[events.length - 1]) : 1;
  const step = (by) => {
    const times = [...new Set(events.map(momentOf))];
    if (!times.length) return;
    const at = moment === null ? times.length - 1 : times.findLastIndex((time) => time <= moment);
    const next = Math.max(0, at + by);
    setMoment(next >= times.length - 1 && by > 0 ? null : times[next]);
  };
  const slide = (event) => {
    const value = Number(event.target.value);
    setMoment(value >= last ? null : value);
  };
  return html`<div class="scrubber">
    <button type="button" onClick=${() => step(-1)} aria-label="one event back">◂</button>
    <input type="range" min=${first} max=${Math.max(last, first + 1)} step="1" value=${moment ?? last} aria-label="moment"
      aria-valuetext=${moment === null ? "now" : clockOf(moment)} onInput=${slide} />
    <button type="button" onClick=${() => step(1)} aria-label="one event forward">▸</button>
    <time>${moment === null ? "now" : `${clockOf(moment)} UTC`}</time>
  </div>`;
}

/** Says on every screen that an earlier moment was chosen, and leads back. */
export function PastBar({ route }) {
  const moment = useMoment();
  if (moment === null) return null;
  const at = html`<time>${clockOf(moment)} UTC</time>`;
  return html`<div class="past-bar"><b>The past</b>
    <span role="status">${OF_THE_PAST.has(route) ? html`leaders, in-sync replicas and brokers as they were at ${at}` : html`this screen shows the present; cluster and timeline show ${at}`}</span>
    ${route === "" && html`<${Turns} moment=${moment} />`}
    <button type="button" class="to-now" onClick=${() => setMoment(null)}>back to now</button></div>`;
}

function Turns({ moment }) {
  const { events } = useFeed();
  return html`<${Scrubber} events=${events.filter((event) => kindOf(event) !== "detail")} moment=${moment} />`;
}
