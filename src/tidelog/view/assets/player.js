// Steps through a recording: forward and back, by itself, by key, by link.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { Microscope } from "tidelog/microscope";

const SPEEDS = [0.5, 1, 2, 4];
const PAUSE_MS = 2200;

/** The state after a step; recordings keep each value once. */
export function stateAt(act, index) {
  const step = act.steps[index];
  const replicas = {};
  act.brokers.forEach((broker, place) => {
    replicas[broker] = act.replicas[step.replicas[place]];
  });
  const writes = step.writes.map((place) => act.writes[place]);
  return { brokers: act.brokers, replicas, cluster: act.clusters[step.cluster], writes };
}

export function messageAt(act, index) {
  const { message } = act.steps[index];
  if (!message) return [];
  const [from, to, kind, label] = message;
  return [{ id: index, from, to, kind, label }];
}

/** Where a page keeps its place: #act=2&step=12, both from 1. */
const PLACE_OF_PAGE = {
  read: () => location.hash.slice(1),
  link: (place) => `#${place}`,
};

function linked(acts, address) {
  const wanted = new URLSearchParams(address.read());
  const act = Math.min(acts.length, Math.max(1, Number(wanted.get("act")) || 1)) - 1;
  const step = Number(wanted.get("step")) || 1;
  return { act, step: Math.min(acts[act].steps.length, Math.max(1, step)) - 1 };
}

/** Where a recording stands and how it moves. `address` says how links to a place are read and written. */
export function usePlayer(acts, address = PLACE_OF_PAGE) {
  const [place, setPlace] = useState(() => linked(acts, address));
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(1);
  const steps = acts[place.act].steps;
  const last = steps.length - 1;
  const go = (step) => setPlace(({ act }) => ({ act, step: Math.min(acts[act].steps.length - 1, Math.max(0, step)) }));
  const by = (count) => setPlace(({ act, step }) => ({ act, step: Math.min(acts[act].steps.length - 1, Math.max(0, step + count)) }));
  const toKey = (direction) => setPlace(({ act, step }) => {
    const all = acts[act].steps;
    let at = step + direction;
    while (at > 0 && at < all.length - 1 && !all[at].matters) at += direction;
    return { act, step: Math.min(all.length - 1, Math.max(0, at)) };
  });
  const toAct = (act) => setPlace({ act, step: 0 });

  useEffect(() => {
    const act = acts.length > 1 ? `act=${place.act + 1}&` : "";
    history.replaceState(null, "", address.link(`${act}step=${place.step + 1}`));
  }, [place]);
  useEffect(() => {
    const follow = () => setPlace(linked(acts, address));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useEffect(() => {
    if (!playing) return undefined;
    if (place.step >= last) {
      setPlaying(false);
      return undefined;
    }
    const words = steps[place.step].text.length;
    const timer = setTimeout(() => by(1), (PAUSE_MS + words * 14) / speed);
    return () => clearTimeout(timer);
  }, [playing, place, speed]);
  return { place, last, playing, speed, setPlaying, setSpeed, go, by, toKey, toAct };
}

/** Whether whatever has the focus does something with a key: a list of choices, a button with space. */
function hasItsOwnUse({ target, key }) {
  if (target.matches("select, textarea, input:not([type=range])")) return key !== "Escape";
  return key === " " && target.matches("button, a, summary");
}

/** The player's keys, and a page's own: by the name of each, what it does. */
export function useKeys(player, keys) {
  const latest = useRef(null);
  latest.current = { player, keys };
  // Before the first paint: whoever sees the page may press a key.
  useLayoutEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || hasItsOwnUse(event)) return;
      const at = latest.current;
      const act = {
        ArrowRight: () => (event.shiftKey ? at.player.toKey(1) : at.player.by(1)),
        ArrowLeft: () => (event.shiftKey ? at.player.toKey(-1) : at.player.by(-1)),
        PageDown: () => at.player.toKey(1),
        PageUp: () => at.player.toKey(-1),
        Home: () => at.player.go(0),
        End: () => at.player.go(at.player.last),
        " ": () => at.player.setPlaying(!at.player.playing),
        ...at.keys,
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

export function Controls({ act, player }) {
  const { place, last, playing, speed } = player;
  const marks = useMemo(
    () => act.steps.map((step, index) => ({ index, kind: markKind(step, act.steps[index - 1]) })).filter(({ kind }) => kind),
    [act],
  );
  const button = (label, title, go) => html`<button type="button" title=${title} aria-label=${title} onClick=${go}>${label}</button>`;
  return html`<div class="controls">
    <div class="scrub">
      <div class="marks" aria-hidden="true">
        ${marks.map(({ index, kind }) => html`<i key=${index} class=${kind} style=${`left:${last ? (index / last) * 100 : 0}%`} />`)}
      </div>
      <input type="range" min="0" max=${last} value=${place.step} aria-label="step"
        aria-valuetext=${act.steps[place.step].text} onInput=${(event) => player.go(Number(event.target.value))} />
    </div>
    <div class="buttons">
      ${button("|◀", "first step (Home)", () => player.go(0))}
      ${button("◀", "back (←)", () => player.by(-1))}
      ${button(playing ? "❚❚" : "▶ play", "play or pause (space)", () => player.setPlaying(!playing))}
      ${button("next ▶", "forward (→)", () => player.by(1))}
      ${button("▶|", "last step (End)", () => player.go(last))}
      <label class="speed">speed
        <select value=${speed} onChange=${(event) => player.setSpeed(Number(event.target.value))}>
          ${SPEEDS.map((each) => html`<option value=${each}>${each}×</option>`)}
        </select>
      </label>
      <span class="count"><b>${place.step + 1}</b> of ${last + 1}</span>
    </div>
  </div>`;
}

/** What a mark on the scrub bar stands for. */
function markKind(step, before) {
  if (/^(A rule is broken|.*\bLost: )/.test(step.text)) return "loss";
  if (/truncates its log/.test(step.text)) return "cut";
  if (/is gone:|The network is|is paused|Fault:| starts\./.test(step.text)) return "fault";
  if (/The controller (makes|finds no)|is the active controller/.test(step.text)) return "leader";
  if (/high watermark rises/.test(step.text)) return "mark";
  if (before && step.chapter !== before.chapter) return "chapter";
  return "";
}

/** The drawing of one step. */
export function StepDrawing({ act, index }) {
  const state = useMemo(() => stateAt(act, index), [act, index]);
  const before = useMemo(() => (index > 0 ? stateAt(act, index - 1) : null), [act, index]);
  const rows = useMemo(() => Math.max(...act.replicas.map(({ end }) => end + 1)), [act]);
  return html`<${Microscope} state=${state} before=${before} messages=${messageAt(act, index)}
    values=${act.values} rows=${rows} title=${act.partition} />`;
}
