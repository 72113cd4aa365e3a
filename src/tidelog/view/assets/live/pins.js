// Partitions that are looked at side by side. They stay for this tab.
import { useEffect, useState } from "preact/hooks";

const KEY = "tidelog-pins";
export const MOST_PINS = 4; // so many a node tells of at once
const listeners = new Set();

function kept() {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((name) => typeof name === "string").slice(0, MOST_PINS) : [];
  } catch {
    return [];
  }
}

let pins = kept();

export function setPins(names) {
  const next = [...new Set(names)].slice(0, MOST_PINS);
  if (next.join() === pins.join()) return;
  pins = next;
  sessionStorage.setItem(KEY, JSON.stringify(pins));
  for (const listener of listeners) listener();
}

/** Pin a partition, or take it away; whether there was room. */
export function togglePin(name) {
  if (!pins.includes(name) && pins.length >= MOST_PINS) return false;
  setPins(pins.includes(name) ? pins.filter((each) => each !== name) : [...pins, name]);
  return true;
}

export function usePins() {
  const [, draw] = useState(0);
  useEffect(() => {
    const listener = () => draw((count) => count + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return pins;
}
