// Elements as template strings: html`<b>${text}</b>`.
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
