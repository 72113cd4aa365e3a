// All partitions of the cluster, a cell each, grouped by topic. Drawn on a canvas that is as large as what is
// seen of it, so that ten thousand partitions cost no more than a screen full.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { feed, HEALTH, HEALTH_WORDS, nameOf, ROW } from "./feed.js";
import { number } from "./parts.js";

const LABEL = 20;
const GAP = 10;
const FLASH_MS = 350;
const ROOM_ABOVE = 330; // what stands above the grid on a screen
const LEADER_KINDS = 6;

/** Brokers are coloured in their order, so that neighbours never look alike. */
export function leaderKind(leader) {
  const at = feed.cluster.brokers.findIndex((broker) => broker.id === leader);
  return (at < 0 ? Math.max(0, leader) : at) % LEADER_KINDS;
}

export const FILTERS = {
  "": () => true,
  offline: (row) => row[ROW.health] === 3,
  "under-min-isr": (row) => row[ROW.health] === 2,
  "under-replicated": (row) => row[ROW.health] === 1,
  "not-preferred": (row) => row[ROW.leader] >= 0 && row[ROW.leader] !== row[ROW.replicas][0],
};

/** Draws; knows nothing of Preact. */
export class GridPainter {
  constructor(canvas, scroller) {
    this.canvas = canvas;
    this.scroller = scroller;
    this.context = canvas.getContext("2d");
    this.filter = "";
    this.text = "";
    this.then = null; // rows of an earlier moment, else those of now
    this.cells = []; // { row, x, y } in the order of topics
    this.labels = [];
    this.place = new Map(); // name → index of its cell
    this.dirty = new Set();
    this.flashes = new Map(); // name → until when it shines
    this.hovered = null;
    this.stale = true;
    this.frames = 0;
    this.draw = this.draw.bind(this);
    this.request = requestAnimationFrame(this.draw);
  }

  stop() {
    cancelAnimationFrame(this.request);
  }

  get rows() {
    return this.then ?? feed.rows;
  }

  /** Rows changed; only cells that are there are drawn anew, else all is laid out again. */
  hear(rows, gone, snapshot) {
    if (this.then) return;
    if (gone.length || snapshot) this.stale = true;
    const until = performance.now() + FLASH_MS;
    for (const row of rows) {
      const name = nameOf(row);
      const at = this.place.get(name);
      if (at === undefined || this.filter) {
        this.stale = true;
        continue;
      }
      const cell = this.cells[at];
      if (cell.row[ROW.end] !== row[ROW.end]) this.flashes.set(name, until);
      cell.row = row;
      this.dirty.add(at);
    }
  }

  show(filter, text, then) {
    this.filter = filter;
    this.text = text.toLowerCase();
    this.then = then;
    this.stale = true;
  }

  layout() {
    const width = Math.max(200, this.scroller.clientWidth);
    const rows = [...this.rows.values()].filter(FILTERS[this.filter] ?? FILTERS[""])
      .filter((row) => !this.text || nameOf(row).toLowerCase().includes(this.text));
    rows.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1]));
    this.cell = rows.length > 3000 ? 9 : rows.length > 600 ? 12 : rows.length > 100 ? 16 : 22;
    if (width < 500) this.cell = Math.max(this.cell, 12);
    this.cells = [];
    this.labels = [];
    this.place.clear();
    const columns = Math.max(1, Math.floor(width / this.cell));
    // Small topics share a line: each takes as many columns as it needs, or its name does.
    let [x, y, deepest] = [0, 0, 0];
    for (let first = 0; first < rows.length; ) {
      const topic = rows[first][ROW.topic];
      let last = first;
      while (last < rows.length && rows[last][ROW.topic] === topic) last += 1;
      const count = last - first;
      const wide = Math.max(Math.ceil((Math.min(topic.length, 24) * 7 + 34) / this.cell), Math.min(count, columns));
      if (x > 0 && (x + wide > columns || count > columns)) {
        y += deepest + GAP;
        [x, deepest] = [0, 0];
      }
      const room = Math.min(columns, Math.max(wide, 1));
      this.labels.push({ topic, count, x: x * this.cell, y });
      for (let index = 0; index < count; index += 1) {
        const row = rows[first + index];
        this.place.set(nameOf(row), this.cells.length);
        this.cells.push({
          row,
          x: (x + (index % room)) * this.cell,
          y: y + LABEL + Math.floor(index / room) * this.cell,
        });
      }
      deepest = Math.max(deepest, LABEL + Math.ceil(count / room) * this.cell);
      x += room + Math.ceil(GAP / this.cell);
      first = last;
    }
    this.height = y + deepest + GAP;
    this.width = width;
  }

  /** A cell in one of its looks, drawn once and copied from then on. */
  sprite(kind, health) {
    const key = `${kind}/${health}`;
    let found = this.sprites.get(key);
    if (!found) {
      found = document.createElement("canvas");
      const side = this.cell - (this.cell > 10 ? 2 : 1);
      found.width = found.height = Math.ceil(side * this.ratio);
      const context = found.getContext("2d");
      context.scale(this.ratio, this.ratio);
      paintCell(context, side, kind, health, this.colours);
      this.sprites.set(key, found);
    }
    return found;
  }

  draw() {
    this.request = requestAnimationFrame(this.draw);
    this.frames += 1;
    const { scroller, canvas, context } = this;
    const width = Math.max(200, scroller.clientWidth);
    const top = scroller.scrollTop;
    const whole = this.stale || width !== this.width || top !== this.top || scroller.clientHeight !== this.seen;
    if (whole) {
      if (this.stale || width !== this.width) this.layout();
      this.prepare(width);
      this.top = top;
      context.clearRect(0, 0, this.width, this.seen);
      context.textBaseline = "alphabetic";
      for (const label of this.labels) this.paintLabel(label);
      for (let at = 0; at < this.cells.length; at += 1) this.paint(at);
      this.stale = false;
    } else {
      for (const at of this.dirty) this.paint(at);
    }
    this.dirty.clear();
    const now = performance.now();
    for (const [name, until] of this.flashes) {
      if (until < now) {
        this.flashes.delete(name);
        const at = this.place.get(name);
        if (at !== undefined) this.dirty.add(at);
      }
    }
    canvas.dataset.cells = this.cells.length;
  }

  prepare(width) {
    const { canvas, scroller } = this;
    const room = Math.max(260, window.innerHeight - ROOM_ABOVE);
    scroller.style.height = `${Math.max(60, Math.min(this.height, room))}px`;
    const ratio = window.devicePixelRatio || 1;
    const theme = document.documentElement.dataset.theme + matchMedia("(prefers-color-scheme: dark)").matches;
    this.seen = scroller.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(this.seen * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(this.seen * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${this.seen}px`;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    scroller.firstElementChild.style.height = `${Math.max(this.height, 1)}px`;
    if (ratio !== this.ratio || theme !== this.theme || this.cell !== this.spriteCell) {
      this.ratio = ratio;
      this.theme = theme;
      this.spriteCell = this.cell;
      this.sprites = new Map();
      this.colours = coloursOf(canvas);
    }
  }

  paintLabel({ topic, count, x, y }) {
    const at = y - this.top;
    if (at + LABEL < 0 || at > this.seen) return;
    this.context.font = "600 12px system-ui, sans-serif";
    this.context.fillStyle = this.colours.ink;
    const name = topic.length > 24 ? `${topic.slice(0, 23)}…` : topic;
    this.context.fillText(name, x, at + 14);
    const wide = this.context.measureText(name).width;
    this.context.font = "11px system-ui, sans-serif";
    this.context.fillStyle = this.colours.soft;
    this.context.fillText(String(count), x + wide + 6, at + 14);
  }

  paint(index) {
    const { row, x, y } = this.cells[index];
    const at = y - this.top;
    if (at + this.cell < 0 || at > this.seen) return;
    const { context } = this;
    const side = this.cell - (this.cell > 10 ? 2 : 1);
    context.clearRect(x, at, this.cell, this.cell);
    context.drawImage(this.sprite(leaderKind(row[ROW.leader]), row[ROW.health]), x, at, side, side);
    const name = nameOf(row);
    if (this.flashes.has(name)) {
      context.fillStyle = this.colours.ink;
      const dot = Math.max(2, side / 4);
      context.fillRect(x + (side - dot) / 2, at + (side - dot) / 2, dot, dot);
    }
    if (name === this.hovered) {
      context.strokeStyle = this.colours.ink;
      context.lineWidth = 2;
      context.strokeRect(x + 1, at + 1, side - 2, side - 2);
    }
  }

  hover(name) {
    if (name === this.hovered) return;
    for (const each of [this.hovered, name]) {
      const at = this.place.get(each);
      if (at !== undefined) this.dirty.add(at);
    }
    this.hovered = name;
  }

  /** The row under a point of the canvas. */
  at(x, y) {
    const down = y + (this.top ?? 0);
    const found = this.cells.find((cell) => x >= cell.x && x < cell.x + this.cell && down >= cell.y && down < cell.y + this.cell);
    return found?.row ?? null;
  }

  /** The neighbour of a cell: by one, or by a line. */
  step(name, by) {
    if (!this.cells.length) return null;
    const at = this.place.get(name);
    if (at === undefined) return this.cells[0].row;
    if (by === 1 || by === -1) return this.cells[Math.min(this.cells.length - 1, Math.max(0, at + by))].row;
    const { x, y } = this.cells[at];
    const others = this.cells.filter((cell) => (by > 1 ? cell.y > y : cell.y < y));
    if (!others.length) return this.cells[at].row;
    const line = by > 1 ? Math.min(...others.map((cell) => cell.y)) : Math.max(...others.map((cell) => cell.y));
    return others.filter((cell) => cell.y === line).reduce((best, cell) => (Math.abs(cell.x - x) < Math.abs(best.x - x) ? cell : best)).row;
  }

  reveal(name) {
    const at = this.place.get(name);
    if (at === undefined) return;
    const { y } = this.cells[at];
    if (y < this.scroller.scrollTop) this.scroller.scrollTop = y - LABEL;
    else if (y + this.cell > this.scroller.scrollTop + this.seen) this.scroller.scrollTop = y + this.cell - this.seen;
  }
}

function coloursOf(element) {
  const style = getComputedStyle(element);
  const value = (name) => style.getPropertyValue(name).trim();
  return {
    ink: value("--ink"), soft: value("--soft"), card: value("--card"), bad: value("--bad"), warn: value("--warn"),
    leaders: Array.from({ length: LEADER_KINDS }, (_, kind) => value(`--edge-${kind}`)),
    fills: Array.from({ length: LEADER_KINDS }, (_, kind) => value(`--epoch-${kind}`)),
  };
}

/** The leader's colour, and over it, under-replicated: half of the cell covered. Under min ISR: stripes. Offline: a cross. */
export function paintCell(context, side, kind, health, colours) {
  const bad = HEALTH[health];
  context.fillStyle = colours.fills[kind];
  context.fillRect(0, 0, side, side);
  context.lineWidth = Math.max(1, side / 9);
  if (bad === "fine") {
    context.strokeStyle = colours.leaders[kind];
    context.strokeRect(context.lineWidth / 2, context.lineWidth / 2, side - context.lineWidth, side - context.lineWidth);
    return;
  }
  context.strokeStyle = bad === "under-replicated" ? colours.warn : colours.bad;
  if (bad === "under-replicated") {
    context.fillStyle = colours.warn;
    context.beginPath();
    context.moveTo(0, side);
    context.lineTo(side, 0);
    context.lineTo(side, side);
    context.fill();
  } else if (bad === "under-min-isr") {
    context.beginPath();
    for (let offset = -side; offset < side; offset += Math.max(3, side / 3)) {
      context.moveTo(offset, side);
      context.lineTo(offset + side, 0);
    }
    context.stroke();
  } else {
    context.fillStyle = colours.bad;
    context.fillRect(0, 0, side, side);
    context.strokeStyle = colours.card;
    context.lineWidth = Math.max(1.2, side / 6);
    context.beginPath();
    context.moveTo(side * 0.25, side * 0.25);
    context.lineTo(side * 0.75, side * 0.75);
    context.moveTo(side * 0.75, side * 0.25);
    context.lineTo(side * 0.25, side * 0.75);
    context.stroke();
  }
  if (bad !== "offline") context.strokeRect(context.lineWidth / 2, context.lineWidth / 2, side - context.lineWidth, side - context.lineWidth);
}

export function Swatch({ kind = 0, health = 0 }) {
  const canvas = useRef(null);
  useLayoutEffect(() => {
    const ratio = window.devicePixelRatio || 1;
    canvas.current.width = canvas.current.height = 14 * ratio;
    const context = canvas.current.getContext("2d");
    context.scale(ratio, ratio);
    paintCell(context, 14, kind, health, coloursOf(canvas.current));
  });
  return html`<canvas class="cell-swatch" ref=${canvas} aria-hidden="true" />`;
}

/** `rows` are those of an earlier moment; without any it is now. */
export function Grid({ filter, text, rows = null, onOpen, onPin }) {
  const canvas = useRef(null);
  const scroller = useRef(null);
  const painter = useRef(null);
  const [tip, setTip] = useState(null);
  useEffect(() => {
    const made = new GridPainter(canvas.current, scroller.current);
    painter.current = made;
    window.tidelogGrid = made;
    const hear = (rows, gone, snapshot) => made.hear(rows, gone, snapshot);
    feed.rowListeners.add(hear);
    return () => {
      feed.rowListeners.delete(hear);
      made.stop();
    };
  }, []);
  useEffect(() => painter.current.show(filter, text, rows), [filter, text, rows]);
  useEffect(() => {
    const pin = (event) => {
      if (event.key === "p" && painter.current.hovered && !event.target.matches("input, textarea, select")) onPin(painter.current.hovered);
    };
    addEventListener("keydown", pin);
    return () => removeEventListener("keydown", pin);
  }, [onPin]);
  const point = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const row = painter.current.at(event.clientX - box.left, event.clientY - box.top);
    painter.current.hover(row && nameOf(row));
    setTip(row && { name: nameOf(row), x: event.clientX - box.left, y: event.clientY - box.top });
  };
  const leave = () => {
    painter.current.hover(null);
    setTip(null);
  };
  const key = (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 2, ArrowUp: -2 };
    const at = painter.current;
    if (event.key in steps) {
      event.preventDefault();
      const row = at.step(at.hovered, steps[event.key]);
      if (!row) return;
      at.hover(nameOf(row));
      at.reveal(nameOf(row));
      const cell = at.cells[at.place.get(nameOf(row))];
      setTip({ name: nameOf(row), x: cell.x + at.cell, y: cell.y - scroller.current.scrollTop + at.cell });
    } else if (event.key === "Enter" && at.hovered) {
      onOpen(at.hovered);
    }
  };
  return html`<div class="grid-frame">
    <div class="grid-scroll" ref=${scroller} tabindex="0" role="application" onKeyDown=${key} onBlur=${leave}
      aria-label="all partitions; arrow keys move, enter opens, p pins">
      <div class="grid-tall"><canvas ref=${canvas} onPointerMove=${point} onPointerLeave=${leave}
        onClick=${(event) => { point(event); if (painter.current.hovered) onOpen(painter.current.hovered); }} /></div>
    </div>
    ${tip && html`<${Tip} tip=${tip} row=${painter.current.rows.get(tip.name)} width=${canvas.current.clientWidth} />`}
  </div>`;
}

function Tip({ tip, row, width }) {
  const box = useRef(null);
  useLayoutEffect(() => {
    if (!box.current) return;
    box.current.style.left = `${Math.max(0, Math.min(tip.x + 14, width - box.current.offsetWidth - 4))}px`;
    box.current.style.top = `${tip.y + 16}px`;
  });
  if (!row) return null;
  const [health, leader] = [row[ROW.health], row[ROW.leader]];
  const led = leader < 0 ? "no leader" : `leader ${leader}${HEALTH[health] === "offline" ? ", which does not answer" : ""}`;
  return html`<div class="tip" role="status" ref=${box}>
    <b>${tip.name}</b> <span class=${`health ${HEALTH[health]}`}>${HEALTH_WORDS[health]}</span><br />
    ${led}, epoch ${row[ROW.epoch]}<br />
    in sync ${row[ROW.isr].join(", ") || "nobody"} of ${row[ROW.replicas].join(", ")} (min ${row[ROW.minIsr]})<br />
    log end ${number(row[ROW.end])}, high watermark ${number(row[ROW.highWatermark])}
  </div>`;
}
