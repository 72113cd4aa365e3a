// Light or dark: what the system says, until somebody chooses.
const KEY = "tidelog-theme";
const NEXT = { auto: "light", light: "dark", dark: "auto" };

function remembered() {
  try {
    return localStorage.getItem(KEY) ?? "auto";
  } catch {
    return "auto"; // a page from a file may have no storage
  }
}

export function applyTheme(theme = remembered()) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  return theme;
}

export function nextTheme(theme) {
  const next = NEXT[theme];
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // it holds for this page then
  }
  return applyTheme(next);
}
