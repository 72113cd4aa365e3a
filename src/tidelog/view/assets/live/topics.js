// Topics and their messages: browse, tail, filter, decode, produce.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { hasToken, post, useAnswer } from "./asking.js";
import { HEALTH, HEALTH_WORDS, ROW, useFeed } from "./feed.js";
import { Action, number, Table, Trouble } from "./parts.js";

const TAILED = 500;

export function Topics({ name, go }) {
  return name ? html`<${Topic} name=${name} go=${go} />` : html`<${List} go=${go} />`;
}

function List({ go }) {
  const feed = useFeed();
  const [text, setText] = useState("");
  const topics = new Map();
  for (const row of feed.rows.values()) {
    const found = topics.get(row[ROW.topic]) ?? { partitions: 0, worst: 0, records: 0, replicas: 0 };
    found.partitions += 1;
    found.worst = Math.max(found.worst, row[ROW.health]);
    found.records += Math.max(0, row[ROW.end] - row[ROW.start]);
    found.replicas = Math.max(found.replicas, row[ROW.replicas].length);
    topics.set(row[ROW.topic], found);
  }
  const shown = [...topics].filter(([topic]) => topic.toLowerCase().includes(text.toLowerCase())).sort(([a], [b]) => (a < b ? -1 : 1));
  return html`<section class="card">
    <div class="toolbar"><h2>${number(topics.size)} topics</h2>
      <label class="grow"><span class="hidden">filter</span><input type="search" placeholder="filter ( / )" data-search value=${text} onInput=${(event) => setText(event.target.value)} /></label></div>
    <${Table} label="topics" head=${["topic", "partitions", "replicas", "offsets", "health"]} empty=${topics.size ? "no topic has such a name" : "there is no topic yet: tidelog topics create orders"} rows=${shown.slice(0, 500).map(([topic, found]) => html`<tr key=${topic}>
      <td><a href=${`#/topics/${encodeURIComponent(topic)}`} onClick=${(event) => { event.preventDefault(); go(`/topics/${topic}`); }}>${topic}</a></td>
      <td class="number">${number(found.partitions)}</td><td class="number">${found.replicas}</td>
      <td class="number">${number(found.records)}</td><td><span class=${`health ${HEALTH[found.worst]}`}>${HEALTH_WORDS[found.worst]}</span></td></tr>`)} />
    ${shown.length > 500 && html`<p>${number(shown.length - 500)} more: filter by name</p>`}
  </section>`;
}

function Topic({ name, go }) {
  const { answer, trouble } = useAnswer(`/api/topic?name=${encodeURIComponent(name)}`, 5000);
  return html`<div class="topic">
    <${Messages} key=${name} topic=${name} partitions=${answer?.partitions ?? []} />
    <section class="card"><h2>${name}</h2><${Trouble} text=${trouble} />
      ${answer && html`<${Table} label="partitions" head=${["partition", "leader", "epoch", "in sync", "offsets"]} rows=${answer.partitions.map((each) => html`<tr key=${each.partition}>
        <td><a href=${`#/partition/${name}-${each.partition}`} onClick=${(event) => { event.preventDefault(); go(`/partition/${name}-${each.partition}`); }}>${name}-${each.partition}</a></td>
        <td>${each.leader < 0 ? "none" : each.leader}</td><td class="number">${each.epoch}</td><td>${each.isr.join(", ")} of ${each.replicas.join(", ")}</td>
        <td class="number">${Array.isArray(each.bounds) ? `${number(each.bounds[0])} – ${number(each.bounds[1])}` : each.bounds}</td></tr>`)} />
      ${answer.settings.length > 0 && html`<h3>Settings</h3><${Table} label="settings" head=${["setting", "value", "from"]} rows=${answer.settings.map((each) => html`<tr key=${each.name}>
        <td><code>${each.name}</code></td><td>${each.value}</td><td>${each.source}</td></tr>`)} />`}`}
    </section>
  </div>`;
}

function placeOf(form) {
  if (form.from === "time") return { time: Date.parse(form.time) || Date.now() };
  if (form.from === "offset") return { offset: Number(form.offset) || 0 };
  return form.from;
}

function Messages({ topic, partitions }) {
  const [form, setForm] = useState({ partition: "", from: "newest", offset: "0", time: "", contains: "", form: "auto", schema: "", committed: false });
  const [records, setRecords] = useState([]);
  const [state, setState] = useState({ busy: false, trouble: "", words: "", next: null });
  const [tailing, setTailing] = useState(false);
  const [tailed, setTailed] = useState(false); // the end was found, from which on records are shown
  const change = (key) => (event) => setForm({ ...form, [key]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const question = (from, more = {}) => ({
    topic, from, contains: form.contains, form: form.form, schema: form.schema, committed: form.committed,
    ...(form.partition === "" ? {} : { partition: Number(form.partition) }), ...more,
  });
  const read = async (from, keep = []) => {
    setState({ ...state, busy: true, trouble: "" });
    try {
      const told = await post("/api/messages", question(from, { limit: 100 }));
      setRecords([...keep, ...told.records]);
      const looked = `${number(told.scanned)} looked at`;
      setState({ busy: false, trouble: "", words: told.complete ? `${looked}, to the end` : looked, next: told.next });
    } catch (error) {
      setState({ ...state, busy: false, trouble: error.message });
    }
  };
  useEffect(() => {
    read("newest");
  }, []);
  useTail(tailing, question, setRecords, (found, trouble) => {
    setTailed(found);
    setState((before) => ({ ...before, trouble }));
  });
  return html`<section class="card messages">
    <div class="toolbar"><h2>Messages of ${topic}</h2>
      <label>partition <select value=${form.partition} onChange=${change("partition")}><option value="">all</option>
        ${partitions.map((each) => html`<option value=${each.partition}>${each.partition}</option>`)}</select></label>
      <label>from <select value=${form.from} onChange=${change("from")}><option value="newest">newest</option><option value="beginning">beginning</option>
        <option value="offset">offset</option><option value="time">time</option></select></label>
      ${form.from === "offset" && html`<label><span class="hidden">offset</span><input class="short" inputmode="numeric" value=${form.offset} onInput=${change("offset")} /></label>`}
      ${form.from === "time" && html`<label><span class="hidden">time</span><input type="datetime-local" step="1" value=${form.time} onInput=${change("time")} /></label>`}
      <label>show as <select value=${form.form} onChange=${change("form")}><option value="auto">JSON or text</option><option value="text">text</option>
        <option value="avro">Avro</option><option value="base64">base64</option></select></label>
      <label class="grow"><span class="hidden">contains</span><input type="search" data-search placeholder="contains ( / )" value=${form.contains} onInput=${change("contains")} /></label>
      <label class="check"><input type="checkbox" checked=${form.committed} onChange=${change("committed")} /> committed only</label>
      <button type="button" disabled=${state.busy || tailing} onClick=${() => read(placeOf(form))}>read</button>
      <button type="button" aria-pressed=${tailing} data-tail onClick=${() => { if (!tailing) setRecords([]); setTailing(!tailing); }}>${tailing ? "stop" : "tail"}</button>
    </div>
    ${form.form === "avro" && html`<label class="schema">Avro schema <textarea rows="4" value=${form.schema} onInput=${change("schema")} placeholder='{"type": "record", "name": "Order", "fields": [ … ]}' /></label>`}
    <${Trouble} text=${state.trouble} />
    <${Records} records=${records} newestFirst=${tailing || form.from === "newest"} />
    <p class="legend">${tailing ? (tailed ? "waiting for records …" : "finding the end …") : state.words}
      ${!tailing && state.next && form.from !== "newest" && html`<button type="button" onClick=${() => read({ offsets: state.next }, records)}>more</button>`}</p>
    <${Produce} topic=${topic} partitions=${partitions} />
  </section>`;
}

/** Ask again and again for what is behind the last record. */
function useTail(tailing, question, setRecords, tell) {
  const asked = useRef(question);
  asked.current = question;
  useEffect(() => {
    if (!tailing) return undefined;
    let stopped = false;
    (async () => {
      let from = "end";
      while (!stopped) {
        try {
          const told = await post("/api/messages", asked.current(from, { limit: 200, wait: from !== "end" }));
          from = { offsets: told.next };
          if (!stopped && told.records.length) setRecords((before) => [...before, ...told.records].slice(-TAILED));
          if (!stopped) tell(true, "");
        } catch (error) {
          if (!stopped) tell(from !== "end", error.message);
          await new Promise((resolve) => setTimeout(resolve, 1000));
        }
      }
    })();
    return () => {
      stopped = true;
      tell(false, "");
    };
  }, [tailing]);
}

const timeOf = (record) => new Date(record.at_ms).toISOString().slice(5, 23).replace("T", " ");

function shownValue(value) {
  if (value.bytes === null) return html`<i>null</i>`;
  if ("json" in value) return JSON.stringify(value.json);
  return "text" in value ? value.text : html`<i>base64</i> ${value.base64}`;
}

function Records({ records, newestFirst }) {
  const [open, setOpen] = useState(null);
  const ordered = [...records].sort((a, b) => a.at_ms - b.at_ms || a.partition - b.partition || a.offset - b.offset);
  if (newestFirst) ordered.reverse();
  return html`<${Table} label="messages" head=${["partition", "offset", "time", "key", "value"]} empty="no record" rows=${ordered.map((record) => {
    const id = `${record.partition}-${record.offset}`;
    const { value } = record;
    return html`<tr key=${id} class="record" onClick=${() => setOpen(open === id ? null : id)}>
        <td class="number">${record.partition}</td><td class="number"><button type="button" class="plain" aria-expanded=${open === id}>${number(record.offset)}</button></td>
        <td class="when"><time>${timeOf(record)}</time></td>
        <td class="cut-short">${shownValue(record.key)}</td><td class="cut-short wide">${shownValue(value)}${value.trouble && html` <em>${value.trouble}</em>`}</td></tr>
      ${open === id && html`<tr key=${`${id}-open`} class="opened"><td colspan="5"><pre>${"json" in value ? JSON.stringify(value.json, null, 2) : shownValue(value)}</pre>
        <p>${timeOf(record)}, ${value.bytes === null ? "no value (a tombstone in a compacted topic)" : `${number(value.bytes)} bytes`}, leader epoch ${record.epoch}${record.headers.length ? "; headers:" : ""}
          ${record.headers.map(([key, content]) => html` <code>${key}=${shownValue(content)}</code>`)}</p></td></tr>`}`;
  })} />`;
}

function Produce({ topic, partitions }) {
  const { hello } = useFeed();
  const [form, setForm] = useState({ key: "", value: "", partition: "" });
  const ask = { action: "produce", topic, ...form };
  if (!hello.acts || !hasToken()) return null;
  const change = (key) => (event) => setForm({ ...form, [key]: event.target.value });
  return html`<details class="produce"><summary>produce a record</summary>
    <div class="toolbar"><label>key <input value=${form.key} onInput=${change("key")} /></label>
      <label>partition <select value=${form.partition} onChange=${change("partition")}><option value="">by key</option>
        ${partitions.map((each) => html`<option value=${each.partition}>${each.partition}</option>`)}</select></label>
      <label class="grow">value <input value=${form.value} onInput=${change("value")} data-produce-value /></label></div>
    <${Action} label="produce" ask=${ask} disabled=${form.value === ""} /></details>`;
}
