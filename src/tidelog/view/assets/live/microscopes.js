// Up to four partitions under the microscope, side by side.
import { useEffect, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { Microscope } from "tidelog/microscope";
import { useAnswer } from "./asking.js";
import { feed, ROW, useFeed, useMicroscopes } from "./feed.js";
import { messagesOf, stateOf, useBefore, words } from "./partition_state.js";
import { clockOf, number } from "./parts.js";
import { MOST_PINS, setPins, togglePin, usePins } from "./pins.js";

const MOST_TOLD = 40;
const ROWS_OF = [undefined, undefined, 8, 6, 6]; // of each log, where so many drawings share a screen

export function Microscopes({ name, go }) {
  const { rows, hello } = useFeed();
  const pins = usePins();
  useEffect(() => {
    if (name) setPins(name.split(",").filter(Boolean));
  }, [name]);
  useEffect(() => {
    history.replaceState(null, "", `#/microscope${pins.length ? `/${pins.join(",")}` : ""}`);
  }, [pins]);
  useMicroscopes(pins);
  const { answer: links } = useAnswer(pins.length && hello.directory ? "/api/links" : null, 1000);
  return html`<div class="microscopes">
    <section class=${`card ${pins.length ? "slim" : ""}`}><div class="toolbar"><h2>Microscope</h2>
      <span>${pins.length ? `${pins.length} of ${MOST_PINS} partitions` : `up to ${MOST_PINS} partitions side by side: fetches, answers, acknowledgements that wait`}</span>
      <${AddPartition} pins=${pins} /></div>
      ${!pins.length && html`<p class="empty">Name a partition above, press <kbd>p</kbd> on one in the grid of the <a href="#/">cluster</a>, or use the pin on the page of a partition.</p>`}</section>
    <div class=${`panels of-${pins.length}`}>${pins.map((each) => html`<section class="card panel" key=${each} data-panel=${each}>
      <div class="toolbar"><h2><a href=${`#/partition/${each}`}>${each}</a></h2>
        <${PartitionFacts} row=${rows.get(each)} short />
        <button type="button" class="unpin" aria-label=${`take ${each} away`} title="take it away" onClick=${() => togglePin(each)}>✕</button></div>
      ${rows.has(each)
        ? html`<${DrawnPartition} name=${each} row=${rows.get(each)} links=${links} rows=${ROWS_OF[pins.length]} /><${Happenings} name=${each} />`
        : html`<p class="empty">${rows.size ? `There is no partition ${each}.` : "waiting for the nodes …"}</p>`}
    </section>`)}</div>
    ${pins.length > 0 && html`<${MicroscopeLegend} />`}
  </div>`;
}

function AddPartition({ pins }) {
  const { rows } = useFeed();
  const [text, setText] = useState("");
  const [trouble, setTrouble] = useState("");
  const found = text ? [...rows.keys()].filter((each) => each.includes(text) && !pins.includes(each)).sort().slice(0, 20) : [];
  const add = (event) => {
    event.preventDefault();
    const name = text.trim();
    if (!rows.has(name)) setTrouble(`there is no partition ${name || "without a name"}`);
    else if (pins.includes(name)) setTrouble(`${name} is there already`);
    else {
      togglePin(name);
      setText("");
      setTrouble("");
    }
  };
  if (pins.length >= MOST_PINS) return html`<span class="grow">take one away to see another</span>`;
  return html`<form class="grow add" onSubmit=${add}><label class="hidden" for="add-partition">partition</label>
    <input id="add-partition" type="search" list="partitions" autocomplete="off" placeholder="a partition, such as orders-0 ( / )" data-search
      value=${text} onInput=${(event) => { setText(event.target.value); setTrouble(""); }} />
    <datalist id="partitions">${found.map((each) => html`<option value=${each} />`)}</datalist>
    <button type="submit" disabled=${!text.trim()}>add</button>${trouble && html`<em class="trouble-line" role="alert">${trouble}</em>`}</form>`;
}

/** The drawing of a partition that is watched. */
export function DrawnPartition({ name, row, links, rows }) {
  const watched = feed.watched.get(name);
  const cuts = (links ?? []).filter((link) => link.cut).flatMap(({ between: [a, b] }) => [[a, b], [b, a]]);
  const state = watched ? stateOf(feed, watched, row, cuts) : null;
  const before = useBefore(state, name);
  return state && html`<${Microscope} state=${state} before=${before} messages=${messagesOf(watched)} rows=${rows} most=${rows} title=${name} />`;
}

/** What the replicas did last, the newest first. */
export function Happenings({ name }) {
  const happened = feed.watched.get(name)?.happened ?? [];
  return html`<ol class="happenings">
    ${happened.slice(-MOST_TOLD).reverse().map((each) => html`<li key=${each.id} class=${each.what}><time>${clockOf(each.at_ms)}</time> ${words(each)}</li>`)}
    ${!happened.length && html`<li class="empty">nothing is fetched: followers of an idle partition have nothing to ask for</li>`}</ol>`;
}

export function PartitionFacts({ row, short = false }) {
  if (!row) return null;
  const parked = row[ROW.parked];
  return html`<span>${row[ROW.leader] < 0 ? "no leader" : `led by ${row[ROW.leader]}`} in epoch ${row[ROW.epoch]}</span>
    <span>in sync ${row[ROW.isr].join(", ") || "nobody"}${short ? "" : ` of ${row[ROW.replicas].join(", ")} (min ${row[ROW.minIsr]})`}</span>
    ${!short && html`<span>log end ${number(row[ROW.end])}, high watermark ${number(row[ROW.highWatermark])}</span>`}
    ${parked > 0 && html`<span class="waiting" data-parked=${parked}>${number(parked)} acknowledgement${parked > 1 ? "s wait" : " waits"}</span>`}`;
}

export function PinButton({ name, go }) {
  const pins = usePins();
  const pinned = pins.includes(name);
  const full = !pinned && pins.length >= MOST_PINS;
  return html`<button type="button" aria-pressed=${pinned} disabled=${full} onClick=${() => togglePin(name)}
      title=${full ? `${MOST_PINS} are pinned already` : "see it beside others"}>${pinned ? "pinned" : "pin"}</button>
    ${pins.length > 0 && html`<button type="button" onClick=${() => go("/microscope")}>side by side (${pins.length})</button>`}`;
}

export function MicroscopeLegend() {
  return html`<p class="legend">
    <span><i class="swatch committed" /> committed</span><span><i class="swatch open" /> above the high watermark</span>
    <span><i class="swatch cut" /> just truncated</span><span><b class="hw">HW</b> high watermark as the replica knows it</span>
    <span><b>101 ▸</b> what the leader knows a follower to hold</span>
    <span><svg class="sandglass" width="9" height="13" viewBox="0 -6.5 8 13"><path d="M0 -6 h8 l-8 12 h8 z" /></svg> an acknowledgement waits</span>
    <span><b>★</b> active controller</span></p>`;
}
