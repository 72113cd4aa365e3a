// The live view: one page, a screen for each address behind #.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "tidelog/html";
import { STORY_KEYS } from "tidelog/story";
import { applyTheme, nextTheme } from "tidelog/theme";
import { hasToken, keepToken } from "./asking.js";
import { feed, useFeed } from "./feed.js";
import { Groups } from "./groups.js";
import { Microscopes } from "./microscopes.js";
import { Overview } from "./overview.js";
import { Partition } from "./partition.js";
import { usePins } from "./pins.js";
import { Pipelines } from "./pipelines.js";
import { Quorum } from "./quorum.js";
import { Reassignment } from "./reassignment.js";
import { PastBar } from "./scrubber.js";
import { Stories } from "./stories.js";
import { Timeline } from "./timeline.js";
import { Topics } from "./topics.js";
import { Transactions } from "./transactions.js";

const SCREENS = [
  ["", "1", "Cluster", Overview], ["timeline", "2", "Timeline", Timeline], ["microscope", "3", "Microscope", Microscopes],
  ["quorum", "4", "Quorum", Quorum], ["topics", "5", "Topics", Topics], ["groups", "6", "Groups", Groups],
  ["transactions", "7", "Transactions", Transactions], ["pipelines", "8", "Pipelines", Pipelines],
  ["reassignment", "9", "Reassignment", Reassignment], ["stories", "0", "Stories", Stories],
  ["partition", null, "Partition", Partition],
];
const KEYS = [
  ["1 … 9, 0", "the screens"], ["/", "filter"], ["Esc", "back to the cluster, or close this"], ["t", "light or dark"],
  ["← → ↑ ↓, Enter", "in the grid: move, open"], ["p", "in the grid: pin for the microscope"], ["?", "these keys"],
];

const here = () => location.hash.replace(/^#\/?/, "").split("?")[0];
const go = (path) => {
  location.hash = path;
};

function App() {
  const [place, setPlace] = useState(here());
  const [theme, setTheme] = useState(() => applyTheme());
  const [help, setHelp] = useState(false);
  useEffect(() => {
    const moved = () => setPlace(here());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => {
    const key = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") {
        if (help) setHelp(false);
        else if (event.target.matches("input, textarea")) event.target.blur();
        else go("/");
        return;
      }
      if (event.target.matches("input, textarea, select")) return;
      const screen = SCREENS.find(([, digit]) => digit === event.key);
      if (screen) go(`/${screen[0]}`);
      else if (event.key === "?") setHelp(!help);
      else if (event.key === "t") setTheme((before) => nextTheme(before));
      else if (event.key === "/") {
        event.preventDefault();
        document.querySelector("[data-search]")?.focus();
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, [help]);
  const [route, ...rest] = place.split("/");
  const name = decodeURIComponent(rest.join("/"));
  const [, , title, Screen] = SCREENS.find(([path]) => path === route) ?? SCREENS[0];
  useEffect(() => {
    document.title = `${name || title} · Tidelog`;
  }, [name, title]);
  return html`<div class="shell">
    <${Head} route=${route} theme=${theme} setTheme=${setTheme} setHelp=${setHelp} />
    <${PastBar} route=${route} />
    <main class="screen"><${Screen} name=${name} go=${go} /></main>
    ${help && html`<div class="help" role="dialog" aria-label="keys" onClick=${() => setHelp(false)}><table>
      <caption>Keys</caption>${(route === "stories" ? [...KEYS, ...STORY_KEYS] : KEYS).map(([key, words]) => html`<tr><th><kbd>${key}</kbd></th><td>${words}</td></tr>`)}</table></div>`}
  </div>`;
}

/** Whether a screen stands under this entry. */
const shows = (path, route) => path === route || (path === "" && route === "partition");

function Head({ route, theme, setTheme, setHelp }) {
  const { status, hello, cluster } = useFeed();
  const pins = usePins().length;
  const worst = cluster.problems[0]?.severity ?? "well";
  const badges = {
    "": cluster.problems.length > 0 && html` <span class=${`badge ${worst}`}>${cluster.problems.length}</span>`,
    microscope: pins > 0 && html` <span class="badge">${pins}</span>`,
  };
  const current = useRef(null);
  useEffect(() => {
    current.current?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [route]);
  const status_words = { connecting: "connecting", live: "live", lost: "the view does not answer" }[status];
  return html`<div class="top">
    <b class=${`brand ${worst}`}>Tidelog</b>
    <nav aria-label="screens">${SCREENS.filter(([, digit]) => digit).map(([path, digit, title]) => html`<a key=${path} href=${`#/${path}`}
      ref=${shows(path, route) ? current : undefined} aria-current=${shows(path, route) ? "page" : undefined} title=${`key ${digit}`}>${title}${badges[path] || ""}</a>`)}</nav>
    <span class="tools">
      <span class=${`status ${status}`} role="status">${status_words}</span>
      <span class="mode" title=${hello.acts ? "started with --dev" : "start the cluster with `tidelog up --dev` to act on it here"}>${hello.acts ? (hasToken() ? "may act" : "open the printed address to act") : "read-only"}</span>
      <button type="button" title="light or dark (t)" onClick=${() => setTheme((before) => nextTheme(before))}>${{ auto: "◐", light: "☀", dark: "☾" }[theme]}</button>
      <button type="button" title="keys (?)" onClick=${() => setHelp(true)}>?</button></span>
  </div>`;
}

keepToken();
feed.connect();
render(html`<${App} />`, document.getElementById("root"));
