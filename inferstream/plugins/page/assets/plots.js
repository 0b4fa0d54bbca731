// Plots as SVG: the gaps of a stream, and numbers as bars or a line. Colours come from the style sheet.

import { h, svg } from "./dom.js";

const WIDTH = 320;
const HEIGHT = 72;
const MOST_BARS = 96;

/** The time between items of a stream, newest at the right. */
export class GapPlot {
  constructor(word = "items") {
    this.word = word;
    this.gaps = [];
    this._bars = svg("path", { class: "bars" });
    this._middle = svg("line", { class: "middle", x1: 0, x2: WIDTH });
    this._plot = svg(
      "svg",
      { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": "No gaps yet" },
      this._bars,
      this._middle,
    );
    this._caption = h("figcaption", {}, `Time between ${word}`);
    this.element = h("figure", { class: "gaps" }, this._plot, this._caption);
  }

  push(milliseconds) {
    this.gaps.push(milliseconds);
    if (this.gaps.length > 2 * MOST_BARS) this.gaps = this.gaps.slice(-MOST_BARS);
  }

  /** Draw the gaps so far. Call it once for each frame. */
  draw() {
    if (this.gaps.length === 0) return;
    const shown = this.gaps.slice(-MOST_BARS);
    const sorted = [...shown].sort((a, b) => a - b);
    const middle = sorted[sorted.length >> 1];
    const top = Math.max(middle * 2, sorted[Math.floor(sorted.length * 0.98)], 1) * 1.1;
    const step = WIDTH / Math.max(shown.length, 32);
    const width = Math.max(step * 0.6, 1);
    const path = shown.map((gap, index) => {
      const height = Math.max(1.5, Math.min(1, gap / top) * HEIGHT);
      return `M${(index * step).toFixed(1)} ${HEIGHT}v${-height.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}z`;
    });
    this._bars.setAttribute("d", path.join(""));
    const y = (HEIGHT - (middle / top) * HEIGHT).toFixed(1);
    this._middle.setAttribute("y1", y);
    this._middle.setAttribute("y2", y);
    const longest = sorted.at(-1);
    this._caption.textContent = `Time between ${this.word}: median ${duration(middle)}, longest ${duration(longest)}`;
    this._plot.setAttribute("aria-label", this._caption.textContent);
  }
}

/** A duration in milliseconds as text, in the unit that suits it. */
export function duration(milliseconds) {
  if (milliseconds >= 60_000) return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 2 : 1)} s`;
  if (milliseconds >= 10) return `${Math.round(milliseconds)} ms`;
  return `${milliseconds.toFixed(1)} ms`;
}

/** A number in few digits. */
export function brief(value) {
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  return String(Number(value.toPrecision(4)));
}

/** A value as the text of a cell; empty for a missing one. */
export function cellText(value) {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : brief(value ?? "");
}

/** Numbers as bars if there are few, else as a line. */
export function chart(values, name) {
  const numbers = values.map((value) => (typeof value === "boolean" ? Number(value) : value));
  const low = Math.min(0, ...numbers);
  const high = Math.max(0, ...numbers);
  const span = high - low || 1;
  const y = (value) => 4 + ((high - value) / span) * (HEIGHT * 2 - 8);
  const step = WIDTH / numbers.length;
  const zero = y(0);
  const few = numbers.length <= 48;
  const marks = few
    ? numbers.map((value, index) => {
        const at = Math.min(y(value), zero);
        const height = Math.max(Math.abs(y(value) - zero), 1);
        const width = Math.min(step * 0.7, 48);
        return svg("rect", { class: "bar", x: index * step + (step - width) / 2, y: at, width, height, rx: 2 }, svg("title", {}, brief(value)));
      })
    : [svg("path", { class: "line", d: numbers.map((value, index) => `${index ? "L" : "M"}${(index * step).toFixed(1)} ${y(value).toFixed(1)}`).join("") })];
  const summary = `${name}: ${numbers.length} values from ${brief(Math.min(...numbers))} to ${brief(Math.max(...numbers))}`;
  return h(
    "figure",
    { class: "chart" },
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT * 2}`, preserveAspectRatio: "none", role: "img", "aria-label": summary },
      svg("line", { class: "zero", x1: 0, x2: WIDTH, y1: zero, y2: zero }),
      marks,
    ),
    h("figcaption", {}, `${numbers.length} values, ${brief(Math.min(...numbers))} to ${brief(Math.max(...numbers))}`),
  );
}

/** Rows of numbers as a picture: grey values, or colours if the last dimension has 3 or 4 values. */
export function picture(rows, name) {
  const height = rows.length;
  const width = rows[0].length;
  const colours = Array.isArray(rows[0][0]) ? rows[0][0].length : 0;
  const flat = rows.flat(Infinity);
  const largest = flat.reduce((most, value) => Math.max(most, value), -Infinity);
  const least = flat.reduce((most, value) => Math.min(most, value), Infinity);
  const bytes = colours && least >= 0 && largest > 1 && largest <= 255;
  const grey = (value) => ((value - least) / (largest - least || 1)) * 255;
  const shade = bytes ? (value) => value : colours && least >= 0 && largest <= 1 ? (value) => value * 255 : grey;
  const pixels = new Uint8ClampedArray(width * height * 4);
  for (let index = 0; index < width * height; index++) {
    const cell = colours ? flat.slice(index * colours, index * colours + colours) : [flat[index], flat[index], flat[index]];
    pixels.set([shade(cell[0]), shade(cell[1]), shade(cell[2]), cell.length === 4 ? shade(cell[3]) : 255], index * 4);
  }
  const canvas = h("canvas", { width, height, class: "picture", role: "img", "aria-label": `${name}: picture of ${width} × ${height}` });
  canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
  return h("figure", {}, canvas, h("figcaption", {}, `${width} × ${height}, ${brief(least)} to ${brief(largest)}`));
}
