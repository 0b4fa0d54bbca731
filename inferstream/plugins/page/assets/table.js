// The input of a model of columns: a table of cells, which accepts pasted blocks and CSV files.

import { announce, button, h, head, newId, scrollTable, unseenHead } from "./dom.js";
import { brief, cellOf, columnsOf, exampleCell, valueOf } from "./columns.js";
import { readBlock, readCsv } from "./csv.js";
import { WrongValue } from "./fields.js";
import { mapInTurns, shownRows } from "./turns.js";

/** Metadata has at most this many examples of a column, so a column with as many may have others. */
const MAX_EXAMPLES = 20;
const TYPES = { date: "date", time: "time", "date and time": "datetime-local" };
const MODES = { integer: "numeric", number: "decimal" };

/** The field of all inputs of a model of columns; null for any other model. */
export function tableOf(model, changed, replaced) {
  const columns = columnsOf(model);
  return columns === null ? null : new TableField(columns, changed, replaced);
}

/** Rows of cells. A cell is a string, or true, false or null for yes, no and missing. */
class TableField {
  name = "table";
  path = "table";
  tensor = { datatype: "table" };

  /** Columns of a file that the model does not have. They are shown next to the outputs. */
  others = { names: [], rows: [] };

  constructor(columns, changed, replaced) {
    this.columns = columns;
    this._changed = changed;
    this._replaced = replaced;
    this._rows = [columns.map(exampleCell)];
    this._lines = new WeakMap();
    this._notice = "";
    this._shown = shownRows(columns.length);
    this._body = h("tbody", {});
    this._more = h("p", { class: "help", role: "status" });
    this._fault = h("p", { class: "fault", role: "alert", id: newId("fault") });
    this._file = h("input", { type: "file", accept: ".csv,.tsv,.txt,text/csv", class: "unseen", tabindex: -1, "aria-label": "CSV file", onchange: () => this._load(this._file.files[0]) });
    const heads = columns.map(({ name, kind, optional }) => head([name, " ", h("span", { class: "kind" }, optional ? `${kind}, optional` : kind)]));
    const scroller = scrollTable("Rows of the input", [unseenHead("Row"), ...heads, unseenHead("Remove")], this._body, "sheet", { "aria-describedby": this._fault.id });
    const buttons = [button("Add a row", () => this._add()), button("Back to the example", () => this._reset()), button("Open a CSV file", () => this._file.click())];
    const actions = h("div", { class: "chips" }, buttons, this._file, h("span", { class: "help" }, "or drop one here, or paste cells"));
    const listeners = { ondragover: (event) => event.preventDefault(), ondrop: (event) => this._drop(event) };
    this.element = h("div", { class: "field", ...listeners }, scroller, actions, this._more, this._fault);
    this._body.addEventListener("input", (event) => this._edit(event.target));
    this._body.addEventListener("change", (event) => this._edit(event.target));
    this._body.addEventListener("paste", (event) => this._paste(event));
    this._body.addEventListener("keydown", (event) => this._move(event));
    this._draw();
  }

  /** The control that errors point to. */
  get input() {
    return this._body.querySelector("[aria-invalid]") ?? this._body.querySelector("input, select");
  }

  get count() {
    return this._rows.length;
  }

  leaves() {
    return [this];
  }

  /** The values of the first `most` rows. Throws a WrongValue that names row and column. */
  async read(most) {
    if (this._refused && most === Infinity) throw this._wrong(this._refused);
    const rows = this._rows.slice(0, most);
    if (rows.length === 0) throw this._wrong("The table has no rows.");
    return mapInTurns(rows, (row, at) => row.map((cell, index) => this._value(cell, at, index)));
  }

  _value(cell, at, index) {
    const column = this.columns[index];
    try {
      return valueOf(column, cell);
    } catch (error) {
      throw this._wrong(`Row ${at + 1}, column "${column.name}": ${error.message}.`, [at, index]);
    }
  }

  _wrong(message, cell = null) {
    return Object.assign(new WrongValue(message), { field: this, cell });
  }

  /** The cells, for the table of the same model after a reload. */
  cells() {
    return { names: this.columns.map(({ name }) => name), rows: this._rows };
  }

  /** Show the cells of another table, or the values of a call by column. */
  write(given) {
    if (given.rows) {
      const at = this.columns.map(({ name }) => given.names.indexOf(name));
      this._rows = given.rows.map((row) => this.columns.map((column, index) => this._fitting(column, row[at[index]])));
    } else {
      const values = this.columns.map(({ name }) => [given[name]].flat());
      const count = Math.max(...values.map((each) => each.length));
      this._rows = Array.from({ length: count }, (_, row) => this.columns.map((column, index) => this._fitting(column, values[index][row])));
    }
    this._draw();
  }

  _fitting(column, cell) {
    if (column.kind === "yes or no") return typeof cell === "boolean" ? cell : cell === undefined || cell === null ? null : Boolean(cell);
    return cell === undefined || cell === null ? "" : String(cell);
  }

  /** Remove the errors, also that of a file that was not loaded, when the user changes the table. */
  _clear() {
    this._refused = "";
    this.fail("");
  }

  fail(message, cell = null) {
    this._fault.textContent = message;
    for (const each of this._body.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
    if (cell) this._control(...cell)?.setAttribute("aria-invalid", "true");
  }

  /** The first cell of a column that an error of the server names. */
  cellOf(name) {
    return [0, this.columns.findIndex((column) => column.name === name)];
  }

  _control(row, index) {
    return this._body.rows[row]?.cells[index + 1]?.firstElementChild;
  }

  /** Draw the first rows. A row that is already drawn keeps its line, because layout of new lines is slow. */
  _draw() {
    const lines = this._rows.slice(0, this._shown).map((row) => this._lines.get(row) ?? this._line(row));
    const kept = new Set(lines);
    for (const line of [...this._body.rows]) if (!kept.has(line)) line.remove();
    lines.forEach((line, at) => {
      if (this._body.rows[at] !== line) this._body.insertBefore(line, this._body.rows[at] ?? null);
      this._number(line, at);
    });
    this._count();
  }

  _number({ cells: [head, ...cells] }, at) {
    if (head.textContent === String(at + 1)) return;
    head.textContent = at + 1;
    const names = [...this.columns.map(({ name }) => `${name}, row ${at + 1}`), `Remove row ${at + 1}`];
    names.forEach((name, index) => (cells[index].firstElementChild.ariaLabel = name));
  }

  _count() {
    const hidden = this._rows.length > this._shown;
    const number = (value) => value.toLocaleString("en");
    const rows = hidden ? `The first ${number(this._shown)} rows are shown, and all ${number(this._rows.length)} are sent.` : "";
    this._more.textContent = [rows, this._unseen(), this._notice].filter(Boolean).join(" ");
  }

  /** Name a value of a text column that the training data did not have. The model may accept it. */
  _unseen() {
    for (const [index, { name, kind, examples }] of this.columns.entries()) {
      if (kind !== "text" || examples.length < 2 || examples.length >= MAX_EXAMPLES) continue;
      const at = this._rows.findIndex((row) => row[index] !== "" && !examples.includes(row[index]));
      if (at >= 0) return `Row ${at + 1}, column "${name}": the training data had no "${brief(this._rows[at][index])}".`;
    }
    return "";
  }

  _line(row) {
    const remove = button("×", () => this._remove(this._place(remove)[0]));
    const line = h("tr", {}, h("th", { scope: "row" }), row.map((cell, index) => h("td", {}, this._cell(cell, index))), h("td", {}, remove));
    this._lines.set(row, line);
    return line;
  }

  _cell(cell, index) {
    const { kind, choices, nullable, examples } = this.columns[index];
    if (kind === "yes or no") return h("input", { type: "checkbox", checked: cell === true, indeterminate: cell === null });
    if (choices) return h("select", {}, nullable && h("option", { value: "" }, ""), choices.map((each) => h("option", { value: each, selected: String(each) === cell }, String(each))));
    const suggested = kind === "text" && examples.length > 1 ? this._suggestions(index, examples) : null;
    return h("input", { type: TYPES[kind] ?? "text", step: TYPES[kind] ? 1 : null, inputmode: MODES[kind], value: cell, list: suggested, spellcheck: false, autocomplete: "off" });
  }

  /** The list of known values of a text column. Any other text is allowed. */
  _suggestions(index, examples) {
    this._lists ??= new Map();
    if (!this._lists.has(index)) {
      const list = h("datalist", { id: newId("values") }, examples.map((value) => h("option", { value })));
      this._lists.set(index, list);
      this.element.append(list);
    }
    return this._lists.get(index).id;
  }

  _place(control) {
    const cell = control.closest("td");
    return [cell.parentElement.rowIndex - 1, cell.cellIndex - 1];
  }

  _edit(control) {
    const [at, index] = this._place(control);
    this._rows[at][index] = control.type === "checkbox" ? control.checked : control.value;
    this._clear();
    this._count();
  }

  _add() {
    // At the end of a long table, the new row would be hidden.
    const at = this._rows.length < this._shown ? this._rows.length : 0;
    this._rows.splice(at, 0, this.columns.map(exampleCell));
    this.others.rows.splice(at, 0, this.others.names.map(() => ""));
    this._clear();
    this._draw();
    this._control(at, 0)?.focus();
    this._changed();
  }

  /** Show only the example row. */
  _reset() {
    this._rows = [this.columns.map(exampleCell)];
    this.others = { names: [], rows: [] };
    this._notice = "";
    this._clear();
    this._draw();
    this._replaced();
    this._changed();
    announce("The table has the example again");
  }

  _remove(at) {
    this._rows.splice(at, 1);
    this.others.rows.splice(at, 1);
    this._clear();
    this._draw();
    (this._control(Math.min(at, this._rows.length - 1), 0) ?? this.element.querySelector("button.small")).focus();
    announce(`Row ${at + 1} removed`);
    this._changed();
  }

  /** Arrow keys and Enter move between rows, unless the control uses them. */
  _move(event) {
    const step = { ArrowUp: -1, ArrowDown: 1, Enter: 1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.target.localName === "button") return;
    if (event.key === "Enter") event.preventDefault(); // it would run the model
    if (step === undefined || event.target.localName !== "input" || event.target.type !== "text" || event.target.list) return;
    const [at, index] = this._place(event.target);
    const next = this._control(at + step, index);
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.select?.();
  }

  async _paste(event) {
    const text = event.clipboardData.getData("text/plain").replace(/\r?\n$/, "");
    if (!/[\t\n]/.test(text)) return;
    event.preventDefault();
    const [top, left] = this._place(event.target);
    await this._replacing(async () => {
      let block = await readBlock(text);
      if (this._isHeader(block[0])) block = block.slice(1);
      const width = Math.max(...block.map((row) => row.length));
      if (left + width > this.columns.length) throw new Error(`The block has ${width} columns; from "${this.columns[left].name}" on there are ${this.columns.length - left}.`);
      const rows = this._rows.map((row) => [...row]);
      while (rows.length < top + block.length) rows.push([...(rows.at(-1) ?? this.columns.map(exampleCell))]);
      block.forEach((cells, down) => cells.forEach((cell, across) => (rows[top + down][left + across] = this._converted(cell, down, left + across))));
      return rows;
    });
  }

  _isHeader(row) {
    const names = new Set(this.columns.map(({ name }) => name));
    return row.length > 0 && row.every((cell) => names.has(cell.trim()));
  }

  _drop(event) {
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    if (file) this._load(file);
  }

  async _load(file) {
    if (!file) return;
    this._file.value = ""; // the same file can be chosen again
    await this._replacing(async () => {
      const [header, ...others] = await readCsv(file);
      if (header === undefined) throw new Error(`${file.name} is empty.`);
      const [places, rows] = this._placesOf(header, others, file.name);
      if (rows.length === 0) throw new Error(`${file.name} has a header and no rows.`);
      const found = await mapInTurns(rows, (row, at) => {
        if (row.length !== header.length) throw new Error(`Row ${at + 1} of ${file.name} has ${row.length} cells, and the header has ${header.length}.`);
        return places.map((place, index) => this._converted(place < 0 ? "" : row[place], at, index, ` of ${file.name}`));
      });
      const left = [...header.keys()].filter((place) => !places.includes(place));
      const names = left.map((place) => header[place]);
      this.others = { names, rows: rows.map((row) => left.map((place) => row[place])) };
      this._notice = `Loaded from ${file.name}.${names.length ? ` Not sent, because the model has no such column: ${names.slice(0, 8).join(", ")}${names.length > 8 ? ", …" : ""}.` : ""}`;
      this._replaced();
      return found;
    }, file.name);
  }

  /** The place of each column in the rows of a file, and these rows. The file of a matrix needs no header. */
  _placesOf(header, others, name) {
    const titles = header.map((cell) => cell.trim());
    const places = this.columns.map((column) => titles.indexOf(column.name));
    const missing = this.columns.find(({ optional }, index) => places[index] < 0 && !optional);
    if (missing === undefined) return [places, others];
    if (this.columns[0].matrix && header.length === this.columns.length) {
      const numbers = titles.every((cell) => cell === "" || !Number.isNaN(Number(cell)));
      return [this.columns.map((_, index) => index), numbers ? [header, ...others] : others];
    }
    throw new Error(`${name} has no column "${missing.name}"; its columns are ${titles.slice(0, 12).join(", ")}${titles.length > 12 ? ", …" : ""}.`);
  }

  _converted(text, at, index, where = "") {
    try {
      return cellOf(this.columns[index], text);
    } catch (error) {
      throw new Error(`Row ${at + 1}${where}, column "${this.columns[index].name}": ${error.message}.`);
    }
  }

  /** Use the rows that `make` returns. After an error, the table stays as it was. It does not run after that of a `file`. */
  async _replacing(make, file = "") {
    this._clear();
    this.element.setAttribute("aria-busy", "true");
    try {
      this._rows = await make();
      this._draw();
      announce(`${this._rows.length} rows`);
    } catch (error) {
      this._refused = file && `${error.message.replace(/\.$/, "")}, so ${file} was not loaded. To run the rows that were there before, edit one.`;
      this.fail(this._refused || error.message);
    }
    this.element.setAttribute("aria-busy", "false");
    this._changed();
  }
}
