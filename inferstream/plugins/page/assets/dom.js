// Makes elements. Every string becomes a text node, so that the output of a model is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "indeterminate", "spellcheck"]);

/** An element. Attributes that are null, undefined or false are left out; `onclick` and the like are listeners. */
export const h = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

/** The same for SVG. */
export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A small button. */
export const button = (text, onclick, attributes = {}) => h("button", { type: "button", class: "small", onclick, ...attributes }, text);

/** A control with an id, below its label and notes. */
export const labelled = (control, label, ...notes) => h("div", { class: "field" }, h("div", { class: "label" }, h("label", { for: control.id }, label), notes), control);

/** Preformatted text that scrolls in its own region. */
export const scrollText = (label, text, attributes = {}) => h("pre", { tabindex: 0, role: "region", "aria-label": label, ...attributes }, text);

let counter = 0;

/** An id that no other element has. */
export const newId = (word) => `${word}-${++counter}`;

const ICONS = {
  chevron: "M6 9l6 6 6-6",
  copy: "M9 9h10v10H9zM5 15V5h10",
  key: "M8 11a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM11 12l8-8M15.5 7.5l3 3",
  theme: "M12 4a8 8 0 1 0 0 16 8 8 0 1 0 0-16z|M12 4v16a8 8 0 0 0 0-16z",
  send: "M12 19V5M5 12l7-7 7 7",
  stop: "M7 7h10v10H7z",
  play: "M8 5v14l11-7z",
};

/** A small picture without a name, because the control around it has one. */
export function icon(name) {
  const paths = ICONS[name].split("|").map((d) => svg("path", { d }));
  return svg("svg", { class: `icon icon-${name}`, viewBox: "0 0 24 24", "aria-hidden": "true" }, paths);
}

const status = h("div", { class: "unseen", role: "status", "aria-live": "polite" });
let waiting = null;
let announced = 0;

/** Announce a text to screen readers. If several follow each other fast, only the last one is announced. */
export function announce(text) {
  if (!status.isConnected) document.body.append(status);
  clearTimeout(waiting);
  const pause = Math.max(0, announced + 2500 - performance.now());
  waiting = setTimeout(() => {
    announced = performance.now();
    status.textContent = text;
  }, pause);
}

/** A list of tabs, which arrow keys, Home and End also select. `entries` are [key, label, panel]. */
export function tabs(label, entries, chosen, changed = () => {}) {
  const buttons = entries.map(([key, text, panel]) => {
    panel.id ||= newId("panel");
    const button = h("button", { type: "button", role: "tab", id: newId("tab"), "aria-controls": panel.id }, text);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", button.id);
    button.addEventListener("click", () => choose(key));
    return button;
  });
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: turn }, buttons);
  function choose(wanted, quiet = false) {
    entries.forEach(([key, , panel], index) => {
      buttons[index].setAttribute("aria-selected", String(key === wanted));
      buttons[index].tabIndex = key === wanted ? 0 : -1;
      panel.hidden = key !== wanted;
    });
    if (!quiet) changed(wanted);
  }
  function turn(event) {
    const at = buttons.indexOf(event.target);
    const last = buttons.length - 1;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = buttons[(to + buttons.length) % buttons.length];
    next.focus();
    next.click();
  }
  choose(entries.some(([key]) => key === chosen) ? chosen : entries[0][0], true);
  return list;
}

/** The head of a column. */
export const head = (content, kind = null) => h("th", { scope: "col", class: kind }, content);

/** The same, for screen readers only. */
export const unseenHead = (text) => head(h("span", { class: "unseen" }, text));

/** A table that scrolls in its own region. */
export const scrollTable = (label, heads, body, kind = "", attributes = {}) =>
  h("div", { class: `table ${kind}`, tabindex: 0, role: "region", "aria-label": label }, h("table", attributes, h("thead", {}, h("tr", {}, heads)), body));

/** Download a file. */
export function download(name, type, ...parts) {
  const href = URL.createObjectURL(new Blob(parts, { type }));
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

/** A button that copies `text()`. */
export function copyButton(text, title) {
  const label = h("span", {}, "Copy");
  const control = button([icon("copy"), label], copy, { class: "small copy", "aria-label": `Copy: ${title}` });
  async function copy() {
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      copySelected(text()); // pages without TLS have no clipboard
    }
    control.focus(); // the selection has taken the focus
    label.textContent = "Copied";
    announce("Copied");
    setTimeout(() => (label.textContent = "Copy"), 1500);
  }
  return control;
}

function copySelected(text) {
  const area = h("textarea", { class: "unseen", value: text, "aria-hidden": "true" });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
