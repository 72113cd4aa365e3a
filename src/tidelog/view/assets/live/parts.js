// Small things that several screens use.
import { useEffect, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { act, hasToken, post } from "./asking.js";
import { useFeed } from "./feed.js";

export const number = (value) => (value === null || value === undefined || value < 0 ? "–" : value.toLocaleString("en"));

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let left = bytes;
  while (left >= 1000 && at < units.length - 1) {
    left /= 1000;
    at += 1;
  }
  return `${at ? left.toFixed(1) : left} ${units[at]}`;
}

export const clock = (text) => text.slice(11, 23);
export const clockOf = (ms) => clock(new Date(ms).toISOString());

export function Table({ head, rows, empty = "nothing", label }) {
  return html`<div class="scroll" tabindex="0" aria-label=${label}><table class="data">
    <thead><tr>${head.map((each) => html`<th scope="col">${each}</th>`)}</tr></thead>
    <tbody>${rows.length ? rows : html`<tr><td colspan=${head.length} class="empty">${empty}</td></tr>`}</tbody>
  </table></div>`;
}

export function Trouble({ text }) {
  return text ? html`<p class="trouble" role="alert">${text}</p>` : null;
}

export function Bar({ value, most, label }) {
  const share = most > 0 ? Math.min(1, value / most) : 0;
  return html`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=${label}>
    <rect class="whole" width="100" height="8" /><rect class="part" width=${100 * share} height="8" /></svg>`;
}

const ASK_FIRST = new Set(["kill", "stop", "reassign", "cancel-reassignments"]);

/** A button that acts, with the command that does the same beside it. */
export function Action({ label, ask, disabled = false, done }) {
  const { hello } = useFeed();
  const [state, setState] = useState({ phase: "idle", text: "" });
  const [command, setCommand] = useState("");
  const key = JSON.stringify(ask);
  useEffect(() => {
    setState({ phase: "idle", text: "" });
    let stopped = false;
    post("/api/command", ask).then((told) => stopped || setCommand(told.command), () => stopped || setCommand(""));
    return () => {
      stopped = true;
    };
  }, [key]);
  const may = hello.acts && hasToken();
  const press = async () => {
    if (ASK_FIRST.has(ask.action) && state.phase !== "sure") {
      setState({ phase: "sure", text: "" });
      return;
    }
    setState({ phase: "busy", text: "" });
    try {
      const told = await act(ask);
      setState({ phase: "done", text: told.done });
      done?.();
    } catch (error) {
      setState({ phase: "failed", text: error.message });
    }
  };
  const words = state.phase === "sure" ? `${label}: sure?` : state.phase === "busy" ? `${label} …` : label;
  return html`<span class=${`action ${state.phase}`} data-action=${ask.action}>
    ${may && html`<button type="button" disabled=${disabled || state.phase === "busy"} onClick=${press}
      onBlur=${() => state.phase === "sure" && setState({ phase: "idle", text: "" })}>${words}</button>`}
    ${command && html`<code title="the command that does the same">${command}</code>`}
    ${state.text && html`<em role="status">${state.text}</em>`}
  </span>`;
}
