// Questions and actions; the token that allows actions stays in this tab.
import { useEffect, useState } from "preact/hooks";

const KEY = "tidelog-token";

/** Takes the token out of the address, so that it is neither shown nor shared. */
export function keepToken() {
  const found = /(?:^#|&)token=([^&]+)/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(KEY, found[1]);
  history.replaceState(null, "", `${location.pathname}#/`);
}

export const hasToken = () => sessionStorage.getItem(KEY) !== null;

async function answer(response) {
  const told = await response.json().catch(() => ({ error: `the view answered ${response.status}` }));
  if (!response.ok) throw new Error(told.error ?? `the view answered ${response.status}`);
  return told;
}

export const ask = async (path) => answer(await fetch(path));

export const post = async (path, body, headers = {}) =>
  answer(await fetch(path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers } }));

export const act = (body) => post("/api/act", body, { "x-tidelog-token": sessionStorage.getItem(KEY) ?? "" });

/** The answer to a question, asked again every so often while it is shown. */
export function useAnswer(path, everyMs = 0) {
  const [state, setState] = useState({ answer: null, trouble: "", path: null });
  useEffect(() => {
    if (!path) return undefined;
    let stopped = false;
    let timer;
    const again = async () => {
      try {
        const found = await ask(path);
        if (!stopped) setState({ answer: found, trouble: "", path });
      } catch (error) {
        if (!stopped) setState((before) => ({ answer: before.path === path ? before.answer : null, trouble: error.message, path }));
      }
      if (!stopped && everyMs) timer = setTimeout(again, everyMs);
    };
    again();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [path, everyMs]);
  return state.path === path ? state : { answer: null, trouble: "", path };
}
