// Markdown as elements. Strings become text nodes, and only http(s) URLs become links.

import { h } from "./dom.js";

const FENCE = /^ {0,3}(```+|~~~+)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)/;
const ITEM = /^( *)(?:[-*+]|(\d{1,9})[.)])\s+(.*)/;
const QUOTE = /^ {0,3}> ?/;
const RULE = /^ {0,3}(?:-{3,}|\*{3,}|_{3,})\s*$/;
const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|(?<!\w)_([^_\s][^_]*)_(?!\w)|\[([^[\]]+)\]\((https?:\/\/[^\s()]+)\)/g;

/** The elements of a text. */
export function rendered(text) {
  const lines = text.split("\n");
  const blocks = [];
  let at = 0;
  const taken = (goes) => {
    const from = at;
    while (at < lines.length && goes(lines[at])) at++;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line)?.[1];
    const heading = HEADING.exec(line);
    if (fence) {
      at++;
      const code = taken((each) => !each.trim().startsWith(fence));
      at++;
      blocks.push(h("pre", { tabindex: 0 }, h("code", {}, code.join("\n"))));
    } else if (heading) {
      at++;
      blocks.push(h("h3", {}, inline(heading[2])));
    } else if (RULE.test(line)) {
      at++;
      blocks.push(h("hr"));
    } else if (QUOTE.test(line)) {
      blocks.push(h("blockquote", {}, rendered(taken((each) => QUOTE.test(each)).map((each) => each.replace(QUOTE, "")).join("\n"))));
    } else if (ITEM.test(line)) {
      blocks.push(list(taken((each) => ITEM.test(each) || /^ +\S/.test(each))));
    } else if (line.trim()) {
      const first = at;
      blocks.push(h("p", {}, inline(taken((each) => at === first || !starts(each)).join("\n"))));
    } else {
      at++;
    }
  }
  return blocks;
}

const starts = (line) => !line.trim() || [FENCE, HEADING, RULE, QUOTE, ITEM].some((each) => each.test(line));

/** A list of lines. Indented lines belong to the item above them. */
function list(lines) {
  const [, , number] = ITEM.exec(lines[0]);
  const indent = ITEM.exec(lines[0])[1].length;
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && (item[1].length <= indent || items.length === 0)) items.push([item[3]]);
    else items.at(-1).push(line.slice(Math.min(indent + 2, line.search(/\S/))));
  }
  return h(number ? "ol" : "ul", { start: number }, items.map(([first, ...rest]) => h("li", {}, inline(first), rest.length ? rendered(rest.join("\n")) : null)));
}

function inline(text) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, strong, star, line, label, href] = match;
    parts.push(text.slice(from, match.index));
    from = match.index + whole.length;
    if (code) parts.push(h("code", {}, code));
    else if (strong) parts.push(h("strong", {}, inline(strong)));
    else if (label) parts.push(h("a", { href, rel: "noopener noreferrer", target: "_blank" }, label));
    else parts.push(h("em", {}, inline(star ?? line)));
  }
  return [...parts, text.slice(from)];
}

/** The end of the blocks that later text cannot change; 0 if there are none. */
export function completeEnd(text) {
  let fence = null;
  let end = 0;
  let at = 0;
  for (const line of text.split("\n")) {
    const mark = FENCE.exec(line)?.[1] ?? null;
    if (fence === null && mark) {
      end = at;
      fence = mark;
    } else if (fence !== null && line.trim().startsWith(fence)) {
      fence = null;
    }
    at += line.length + 1;
    if (fence === null && !line.trim() && at <= text.length) end = at;
  }
  return end;
}
