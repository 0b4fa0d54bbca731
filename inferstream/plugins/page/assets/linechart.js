// A chart of lines over time, with axes, a legend and the values at one point.

import { h, svg } from "./dom.js";
import { brief, duration } from "./plots.js";

const WIDTH = 300;
const HEIGHT = 100;

/** Lines over the last `span` milliseconds, broken after `gap`. `lines` are [key, label] of the points to draw. */
export class LineChart {
  constructor(title, lines, format, span, gap) {
    Object.assign(this, { lines, format, span, gap, _points: [], _read: null }); // `_read`: the time of the point, null for the last one
    const line = (index, d) => svg("path", { class: `line line-${index}`, d });
    const swatch = (index) => svg("svg", { class: "swatch", viewBox: "0 0 24 8", "aria-hidden": "true" }, line(index, "M1 4h22"));
    this._paths = lines.map((_, index) => line(index));
    this._mark = svg("line", { class: "mark", y1: 0, y2: HEIGHT });
    this._ticks = [h("span", {}), h("span", {}), h("span", {}, "0")];
    this._values = lines.map(() => h("b", {}));
    this._legend = lines.map(([, label], index) => h("li", {}, swatch(index), `${label} `, this._values[index]));
    this._when = h("span", { class: "quiet" });
    const grid = [0, HEIGHT / 2, HEIGHT].map((y) => svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y }));
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, grid, this._paths, this._mark);
    const last = () => this._show(null);
    this._plot = h("div", { class: "line-plot", role: "slider", tabindex: 0, "aria-label": `${title}, time`, "aria-valuemin": -span / 1000, "aria-valuemax": 0, onkeydown: (event) => this._step(event), onpointermove: (event) => this._point(event), onpointerleave: last, onblur: last }, picture);
    this.element = h(
      "figure",
      { class: "line-chart" },
      h("figcaption", {}, h("h3", {}, title), this._when),
      h("ul", { class: "legend" }, this._legend),
      h("div", { class: "axes" }, h("div", { class: "ticks" }, this._ticks), this._plot, h("div", { class: "times" }, h("span", {}, `${span / 60_000} min ago`), h("span", {}, "now"))),
    );
  }

  /** Draw points, which have a `time` and a number or null for each line. */
  draw(points, now) {
    this._points = points;
    this._now = now;
    const top = roundUp(Math.max(0, ...points.flatMap((point) => this.lines.map(([key]) => point[key] ?? 0))));
    [top, top / 2].forEach((value, index) => (this._ticks[index].textContent = this.format(value)));
    this.lines.forEach(([key], index) => {
      const drawn = points.filter((point) => (point[key] ?? null) !== null);
      const path = drawn.map((point, at) => `${at && point.time - drawn[at - 1].time <= this.gap ? "L" : "M"}${this._x(point).toFixed(1)} ${(HEIGHT * (1 - point[key] / top)).toFixed(1)}h0`);
      this._paths[index].setAttribute("d", path.join(""));
      this._legend[index].hidden = drawn.length === 0;
    });
    this._show(this._read);
  }

  _x({ time }) {
    return WIDTH * (1 - (this._now - time) / this.span);
  }

  _point({ clientX }) {
    const { left, width } = this._plot.getBoundingClientRect();
    const distance = (point) => Math.abs(this._x(point) / WIDTH - (clientX - left) / width);
    if (this._points.length) this._show(this._points.reduce((best, each) => (distance(each) < distance(best) ? each : best)).time);
  }

  _step(event) {
    const last = this._points.length - 1;
    const found = this._points.findIndex(({ time }) => time === this._read);
    const at = found < 0 ? last : found;
    const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, Home: 0, End: last, Escape: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this._show(to < last ? this._points[Math.max(0, to)].time : null); // at the end, the reading follows the newest point
  }

  /** Show the values of the point at this time, or of the last one. */
  _show(time) {
    const read = this._points.find((point) => point.time === time);
    const point = read ?? this._points.at(-1) ?? {};
    this._read = read?.time ?? null;
    const texts = this.lines.map(([key]) => shown(point[key], this.format));
    texts.forEach((text, index) => (this._values[index].textContent = text));
    const ago = read ? Math.round((this._now - read.time) / 1000) : 0;
    this._when.textContent = read ? `${ago} s ago` : "";
    for (const name of ["x1", "x2"]) this._mark.setAttribute(name, read ? this._x(read) : -1);
    this._plot.setAttribute("aria-valuenow", -ago);
    this._plot.setAttribute("aria-valuetext", `${ago} s ago: ${this.lines.map(([, label], index) => `${label} ${texts[index]}`).join(", ")}`);
  }
}

/** The next number of 1, 2 or 5 times a power of ten; 1 for 0. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 5, 10].map((step) => step * power).find((each) => each >= value * 0.999);
}

export const shown = (value, format) => (value === null || value === undefined ? "–" : format(value));
export const number = (value) => (value >= 100 ? Math.round(value).toLocaleString("en") : brief(Number(value.toFixed(value < 10 ? 2 : 1))));
export const seconds = (value) => duration(value * 1000);
export const percent = (value) => `${Math.round(value * 100)} %`;
export const bytes = (value) => (value >= 1e9 ? `${number(value / 1e9)} GB` : `${number(value / 1e6)} MB`);
