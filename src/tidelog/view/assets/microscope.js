// The partition microscope: a column per broker, its log, and what travels between them.
//
// It knows nothing of where its state comes from. A state is a plain object:
//
//   brokers      [100, 101, 102]
//   replicas     { 101: { life, role, epoch, start, end, highWatermark, runs: [[epoch, start, end]],
//                         inSync, known: [[follower, offset]], parked: [offset] } }; one of which nobody
//              told what it holds is `unknown`
//   cluster      { leader, epoch, inSync, eligible, controller, controllers: [[id, life]], fenced,
//                  cuts: [[from, to]] }
//
// `before` is the state that was drawn last, so that truncation can be seen; `messages` are
// { id, from, to, kind, label }, drawn on their way; `rows` is the least height of the logs, so that
// a drawing whose logs grow need not, and `most` the greatest.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { EpochBlock, EpochPatterns } from "tidelog/epochs";

const TOP = 40; // clients and controllers
const HEAD = { y: 76, height: 60 };
const LANE = { y: HEAD.y + HEAD.height + 8, height: 44 };
const LOG_Y = LANE.y + LANE.height + 16;
const ROW = 25;
const MOST_ROWS = 12;
const FEWEST_ROWS = 5;
const MOST_CUTS = 3; // drawn one by one

let drawings = 0;

export function Microscope({ state, before, messages = [], values = {}, rows = FEWEST_ROWS, most = MOST_ROWS, title }) {
  const frame = useRef(null);
  const [width, setWidth] = useState(760);
  const [id] = useState(() => `m${(drawings += 1)}`);
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.max(300, Math.floor(frame.current.clientWidth)));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const plan = layout(state, before, width, Math.min(rows, most), most);
  return html`<div class="microscope" ref=${frame}>
    <svg width=${width} height=${plan.height} viewBox=${`0 0 ${width} ${plan.height}`} role="img"
      aria-label=${describe(state, title)}>
      <${EpochPatterns} id=${id} />
      <${Outside} state=${state} plan=${plan} />
      ${state.brokers.map((broker) => html`<${Column} key=${broker} id=${id} broker=${broker}
        state=${state} before=${before} plan=${plan} values=${values} />`)}
      <${Lane} state=${state} plan=${plan} messages=${messages} />
    </svg>
  </div>`;
}

/** Where everything stands. */
function layout(state, before, width, fewest, most) {
  const column = width / state.brokers.length;
  const narrow = column < 150;
  const x = {};
  state.brokers.forEach((broker, index) => {
    x[broker] = column * (index + 0.5);
  });
  const outside = state.cluster.controllers.filter(([node]) => !state.brokers.includes(node));
  const clientX = outside.length ? width * 0.22 : width / 2;
  outside.forEach(([node], index) => {
    const room = width * 0.56;
    x[node] = width * 0.42 + (room / outside.length) * (index + 0.5);
  });
  const seen = [state, before].filter(Boolean).flatMap((each) => Object.values(each.replicas)).filter((each) => !each.unknown);
  const end = Math.max(0, ...seen.map((each) => each.end));
  const start = Math.min(...seen.filter((each) => each.end > each.start).map((each) => each.start), end);
  // Records one by one, the last ones of a long log; if a replica lags further behind, to scale.
  const slowest = Math.min(...seen.map((each) => Math.min(each.highWatermark ?? each.end, each.end)), end);
  const window = Math.max(start, end - most + 1);
  const single = slowest >= window;
  const first = single ? window : Math.max(start, slowest - 4);
  const rows = single ? Math.max(fewest, FEWEST_ROWS, end - first + 1) : most;
  const scale = single ? ROW : (ROW * most) / Math.max(1, end - first);
  const y = (offset) => LOG_Y + Math.max(0, Math.min(offset, end + 1) - first) * scale;
  return {
    column, narrow, x, clientX, outside, single, first, end, y, scale,
    cells: Math.min(column - (narrow ? 62 : 122), 190),
    shift: narrow ? 5 : 0,
    bottom: LOG_Y + rows * ROW,
    height: LOG_Y + rows * ROW + 26,
    place: (name) => (name in x ? { x: x[name], top: outside.some(([node]) => String(node) === name) } : { x: clientX, top: true }),
  };
}

/** Clients and controllers that are nodes of their own. */
function Outside({ state, plan }) {
  const { cluster } = state;
  return html`<g>
    <g class="pill clients" transform=${`translate(${plan.clientX}, 20)`}>
      <rect x="-48" y="-15" width="96" height="30" rx="15" /><text y="5">clients</text>
    </g>
    ${plan.outside.map(([node, life]) => {
      const active = node === cluster.controller;
      const wide = plan.narrow ? 26 : 54;
      return html`<g key=${node} class=${`pill controller ${life} ${active ? "active" : ""}`}
        transform=${`translate(${plan.x[node]}, 20)`}>
        <rect x=${-wide} y="-15" width=${wide * 2} height="30" rx="6" />
        <text y="5">${active ? "★ " : ""}${node}${life === "up" ? "" : " ✕"}${plan.narrow ? "" : active ? " decides" : ""}</text>
      </g>`;
    })}
  </g>`;
}

function Column({ id, broker, state, before, plan, values }) {
  const replica = state.replicas[broker];
  const was = before && before.replicas[broker];
  const left = plan.x[broker] - plan.cells / 2 + plan.shift;
  const gone = replica.life === "down" || replica.life === "starting";
  return html`<g class=${`column ${plan.narrow ? "narrow" : ""} ${replica.life} ${replica.role}`} data-broker=${broker}
    data-high-watermark=${replica.highWatermark ?? ""} data-end=${replica.end}>
    <${Head} broker=${broker} replica=${replica} state=${state} plan=${plan} />
    <rect class="trough" x=${left} y=${LOG_Y} width=${plan.cells} height=${plan.bottom - LOG_Y} rx="4" />
    ${plan.first > replica.start && replica.end > plan.first && html`<text class="earlier" x=${left + plan.cells / 2} y=${LOG_Y - 5}>… ${plan.first - replica.start} before</text>`}
    <${Log} id=${id} replica=${replica} was=${was} left=${left} plan=${plan} values=${values} />
    <${Marks} broker=${broker} replica=${replica} left=${left} plan=${plan} />
    ${gone && html`<text class="stamp" x=${left + plan.cells / 2} y=${plan.bottom - 12}>${replica.life}</text>`}
    ${replica.life === "paused" && html`<text class="stamp" x=${left + plan.cells / 2} y=${plan.bottom - 12}>paused</text>`}
  </g>`;
}

function Head({ broker, replica, state, plan }) {
  const { cluster } = state;
  const x = plan.x[broker] - plan.column / 2 + 6;
  const width = plan.column - 12;
  const middle = plan.x[broker];
  const inSync = cluster.inSync.includes(broker);
  const controls = cluster.controller === broker;
  const role = replica.life === "up" || replica.life === "paused"
    ? replica.role === "leader" ? `leader, epoch ${replica.epoch}`
      : replica.role === "follower" ? (replica.follows < 0 ? "waits for a leader" : `follows ${replica.follows}, epoch ${replica.epoch}`)
      : "no replica"
    : replica.life === "starting" ? "starting" : "down";
  const short = role.replace("follows ", "→").replace(", epoch ", " e").replace("waits for a leader", "no leader");
  return html`<g class="head">
    <rect x=${x} y=${HEAD.y} width=${width} height=${HEAD.height} rx="8" />
    <text class="name" x=${middle} y=${HEAD.y + 20}>${plan.narrow ? "" : "Broker "}${broker}${controls ? " ★" : ""}</text>
    <text class="role" x=${middle} y=${HEAD.y + 37}>${plan.narrow ? short : role}</text>
    <text class=${`sync ${inSync ? "in" : "out"}`} x=${middle} y=${HEAD.y + 53}>
      ${inSync ? "● in sync" : cluster.eligible.includes(broker) ? "◐ eligible" : "○ not in sync"}${cluster.fenced.includes(broker) && !plan.narrow ? ", fenced" : ""}</text>
    ${controls && html`<title>${broker} is also the active controller</title>`}
  </g>`;
}

function Log({ id, replica, was, left, plan, values }) {
  const mark = replica.highWatermark ?? replica.end;
  const blocks = [];
  const common = { id, left, plan, values };
  for (const run of replica.runs) {
    blocks.push(...runBlocks(run, mark, was, common));
  }
  const cut = was ? goneFrom(was.runs, replica.runs) : [];
  for (const [epoch, begin, end] of cut) {
    const start = Math.max(begin, plan.first);
    for (const [from, to] of pieces(start, end, plan)) {
      const y = plan.y(from) + 1;
      const height = Math.max(3, plan.y(to) - plan.y(from) - 2);
      blocks.push(html`<g key=${`cut-${epoch}-${from}`} class="cut">
        <${EpochBlock} id=${id} epoch=${epoch} x=${left + 2} y=${y} width=${plan.cells - 4} height=${height} state="cut" />
        <line x1=${left + 6} x2=${left + plan.cells - 20} y1=${y + height / 2} y2=${y + height / 2} />
        ${plan.single && html`<text class="value" x=${left + 9} y=${y + height / 2 + 4}>${fitted(values[`${epoch}:${from}`] ?? "", plan)}</text>`}
        ${height > 14 && html`<text class="epoch" x=${left + plan.cells - 8} y=${y + height / 2 + 4}>✕</text>`}
      </g>`);
    }
  }
  return html`<g>${blocks}</g>`;
}

function runBlocks([epoch, start, end], mark, was, { id, left, plan, values }) {
  const from = Math.max(start, plan.first);
  return pieces(from, end, plan, mark).map(([low, high]) => {
    const y = plan.y(low) + 1;
    const height = Math.max(3, plan.y(high) - plan.y(low) - 2);
    const fresh = was && !holds(was.runs, epoch, high - 1);
    const state = `${high <= mark ? "committed" : "open"} ${fresh ? "fresh" : ""}`;
    const stretch = plan.narrow ? "" : high - low > 1 ? `${low} … ${high - 1}` : `${low}`;
    const value = plan.single ? values[`${epoch}:${low}`] ?? "" : stretch;
    return html`<g key=${`${epoch}-${low}`} data-offset=${low}>
      <${EpochBlock} id=${id} epoch=${epoch} x=${left + 2} y=${y} width=${plan.cells - 4} height=${height} state=${state} />
      ${height > 12 && html`<text class="value" x=${left + 9} y=${y + height / 2 + 4}>${fitted(value, plan)}</text>
      <text class="epoch" x=${left + plan.cells - 8} y=${y + height / 2 + 4}>e${epoch}</text>`}
      ${plan.single && !plan.narrow && html`<text class="offset" x=${left - 6} y=${y + height / 2 + 4}>${low}</text>`}
    </g>`;
  });
}

/** Single records where there is room, else stretches that end where the high watermark does. */
function pieces(start, end, plan, mark = start) {
  if (!plan.single) {
    const bounds = [start, ...(mark > start && mark < end ? [mark] : []), end];
    return bounds.slice(1).map((to, index) => [bounds[index], to]).filter(([low, high]) => high > low);
  }
  const found = [];
  for (let offset = start; offset < end; offset += 1) found.push([offset, offset + 1]);
  return found;
}

/** High watermark, log end, what the leader knows of its followers, and answers that wait. */
function Marks({ broker, replica, left, plan }) {
  const right = left + plan.cells;
  const marks = [];
  if (replica.highWatermark !== null && replica.role) {
    marks.push(html`<g key="mark" class="mark" style=${`transform: translate(0, ${plan.y(replica.highWatermark)}px)`}>
      <line x1=${left - 3} x2=${right + 4} y1="0" y2="0" />
      <text x=${right + 6} y="4">${plan.narrow ? "" : "HW "}${replica.highWatermark}</text>
    </g>`);
  }
  if (replica.role === "leader" && replica.life === "up") {
    const taken = {};
    for (const [follower, offset] of replica.known) {
      taken[offset] = (taken[offset] ?? 0) + 1;
      const across = plan.narrow ? left - 3 : left - 22;
      const y = plan.y(offset) + (taken[offset] - 1) * 13;
      marks.push(html`<g key=${`known-${follower}`} class="known" style=${`transform: translate(0, ${y}px)`}>
        <path d=${`M${across} 0 l-6 -4 v8 z`} /><text x=${across - 9} y="4">${follower}</text>
        <title>${broker} knows that ${follower} holds everything below ${offset}</title>
      </g>`);
    }
  }
  replica.parked.forEach((offset, index) => {
    marks.push(html`<g key=${`parked-${offset}`} class="parked" style=${`transform: translate(${right + 7}px, ${plan.y(offset) + index * 2}px)`}>
      <path d="M0 -6 h8 l-8 12 h8 z" />
      ${!plan.narrow && html`<text x="12" y="4">ack</text>`}
      <title>an acknowledgement waits until the high watermark is ${offset}</title>
    </g>`);
  });
  return html`<g>${marks}</g>`;
}

/** What is cut, and what travels. */
function Lane({ state, plan, messages }) {
  const middle = LANE.y + LANE.height / 2;
  const cuts = state.cluster.cuts.filter(([from, to]) => from in plan.x && to in plan.x);
  const pairs = {};
  for (const [from, to] of cuts) {
    const key = [from, to].sort().join("-");
    pairs[key] = [...(pairs[key] ?? []), [from, to]];
  }
  const all = Object.entries(pairs);
  return html`<g class="lane">
    ${all.length > MOST_CUTS && html`<g class="severed" transform=${`translate(${plan.x[state.brokers.at(-1)]}, ${LANE.y + LANE.height - 2})`}>
      <rect x="-58" y="-9" width="116" height="18" rx="9" /><text y="4">✂ ${cuts.length} ways are cut</text>
      <title>${cuts.map(([from, to]) => `${from} ↛ ${to}`).join(", ")}</title>
    </g>`}
    ${(all.length > MOST_CUTS ? [] : all).map(([key, both], index) => {
      const [from, to] = both[0];
      const a = plan.place(from);
      const b = plan.place(to);
      const y = a.top || b.top ? (TOP + HEAD.y) / 2 : LANE.y + LANE.height - 2 + (index % 3) * 5;
      const words = both.length > 1 ? `✂ ${from} ↮ ${to}` : `✂ ${from} ↛ ${to}`;
      return html`<g key=${key} class="severed">
        <line x1=${a.x} x2=${b.x} y1=${y} y2=${y} />
        <g transform=${`translate(${(a.x + b.x) / 2}, ${y})`}>
          <rect x="-38" y="-9" width="76" height="18" rx="9" /><text y="4">${words}</text></g>
      </g>`;
    })}
    ${messages.map((message) => html`<${Travelling} key=${message.id} message=${message} plan=${plan} middle=${middle} />`)}
  </g>`;
}

function Travelling({ message, plan, middle }) {
  const from = plan.place(message.from);
  const to = plan.place(message.to);
  const height = from.top && to.top ? TOP + 14 : middle - 6;
  const level = from.top === to.top;
  const start = { x: from.x, y: level ? height : from.top ? 36 : HEAD.y };
  const end = { x: to.x, y: level ? height : to.top ? 36 : HEAD.y };
  const along = Math.sign(end.x - start.x);
  if (level) {
    start.x += along * 14;
    end.x -= along * 8;
  }
  const label = message.label;
  const wide = label.length * 7.3 + 20;
  const centre = Math.min(Math.max((start.x + end.x) / 2, wide / 2 + 2), plan.column * Object.keys(plan.x).length - wide / 2 - 2);
  const labelY = (start.y + end.y) / 2;
  const vertical = Math.abs(end.x - start.x) < 30 && !level;
  const path = `M${start.x} ${start.y} L${end.x} ${end.y}`;
  return html`<g class=${`message ${message.kind}`} data-from=${message.from} data-to=${message.to}>
    <path class="way" d=${path} />
    <path class="tip" d=${arrowTip(start, end)} />
    <circle class="travels" r="5" style=${`--x1:${start.x}px;--y1:${start.y}px;--x2:${end.x}px;--y2:${end.y}px`} />
    <g transform=${`translate(${vertical ? centre + wide / 2 + 12 : centre}, ${labelY})`}>
      <rect x=${-wide / 2} y="-11" width=${wide} height="22" rx="11" /><text y="4">${label}</text>
    </g>
  </g>`;
}

function arrowTip(start, end) {
  const angle = Math.atan2(end.y - start.y, end.x - start.x);
  const wing = (turn) => `${end.x - 9 * Math.cos(angle + turn)} ${end.y - 9 * Math.sin(angle + turn)}`;
  return `M${end.x} ${end.y} L${wing(0.45)} L${wing(-0.45)} Z`;
}

function fitted(value, plan) {
  const most = Math.floor((plan.cells - (plan.narrow ? 28 : 40)) / 7.4);
  return value.length > most ? `${value.slice(0, Math.max(1, most - 1))}…` : value;
}

const holds = (runs, epoch, offset) =>
  runs.some(([each, start, end]) => each === epoch && offset >= start && offset < end);

/** What was there and is not: the tail of each run, since logs are cut from the end. */
function goneFrom(was, now) {
  const gone = [];
  for (const [epoch, start, end] of was) {
    const kept = now.find(([each]) => each === epoch);
    const keptEnd = kept ? Math.max(start, Math.min(end, kept[2])) : start;
    const shown = now.some(([each, low, high]) => each !== epoch && low < end && high > keptEnd);
    if (keptEnd < end && !shown) gone.push([epoch, keptEnd, end]);
  }
  return gone;
}

/** The same in words, for whoever cannot see it. */
function describe(state, title) {
  const words = state.brokers.map((broker) => {
    const { life, role, end, highWatermark, unknown } = state.replicas[broker];
    if (unknown) return `broker ${broker} ${life}, log unknown`;
    const mark = highWatermark === null ? "" : `, high watermark ${highWatermark}`;
    return `broker ${broker} ${life === "up" ? role || "without a replica" : life}, log end ${end}${mark}`;
  });
  return `${title ?? "partition"}: ${words.join("; ")}`;
}
