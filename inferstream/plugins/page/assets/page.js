// The page: the list of models, the model that the address names, the reference, the key and the theme.

import { announce, h, icon, labelled, newId } from "./dom.js";
import { ModelView, stateOf } from "./model.js";
import { ROOT, Server } from "./server.js";

const THEMES = ["auto", "light", "dark"];

/** `<server-page>`: the whole page. */
class ServerPage extends HTMLElement {
  connectedCallback() {
    this._server = new Server();
    this._main = h("main", { id: "main", tabindex: -1 });
    this._list = h("ul", {});
    this._filter = h("input", { type: "search", placeholder: "Filter models", "aria-label": "Filter models", hidden: true, oninput: () => this._drawList() });
    this._name = h("span", { class: "server-name" }, "inferstream");
    this._health = h("span", { class: "health", role: "status" });
    const reference = referencePath();
    this.append(this._bar(reference), reference === null ? this._models() : this._reference(reference), this._keyDialog());
    this._useTheme(stored((storage) => storage.getItem("theme")) ?? "auto");
    this._server.addEventListener("models", () => this._drawAll());
    this._server.addEventListener("refused", (event) => this._askKey(event.detail));
    this._server.watch();
  }

  _bar(reference) {
    this._theme = h("button", { type: "button", class: "icon-button", onclick: () => this._turnTheme() }, icon("theme"));
    const key = h("button", { type: "button", class: "icon-button", "aria-label": "API key", title: "API key", onclick: () => this._askKey("") }, icon("key"));
    // The reference is another document, which has neither the key nor the form.
    const link = (href, text, here) => h("a", { href: ROOT + href, target: reference === null && href === "/docs" ? "_blank" : null, "aria-current": here ? "page" : null, onclick: (event) => this._openPage(event) }, text);
    this._links = [link("/", "Models", reference === null), link("/?view=server", "Server", false), link("/docs", "API", reference !== null)];
    return h(
      "header",
      { class: "bar" },
      h("a", { class: "brand", href: `${ROOT}/` }, h("img", { src: `${ROOT}/page/icon.svg`, alt: "", width: 28, height: 28 }), this._name),
      h("nav", { "aria-label": "Pages" }, this._links),
      this._health,
      h("div", { class: "tools" }, key, this._theme),
    );
  }

  _models() {
    this._toggle = h("button", { type: "button", class: "list-toggle", "aria-expanded": "false", onclick: () => this._openList() }, h("span", {}, "Models"), icon("chevron"));
    this._sidebar = h("nav", { class: "sidebar", id: newId("models"), "aria-label": "Models" }, this._filter, this._list);
    this._toggle.setAttribute("aria-controls", this._sidebar.id);
    this._view = new ModelView();
    this._view.append(h("p", { class: "quiet" }, "Looking for models …"));
    this._main.append(this._view);
    addEventListener("popstate", () => this._follow());
    this._server.addEventListener("tick", ({ detail }) => detail.changed || this._view.look());
    return h("div", { class: "layout" }, this._toggle, this._sidebar, this._main);
  }

  _reference(path) {
    const view = h("api-reference");
    this._main.append(view);
    const show = () => import("./reference.js").then(() => view.show(this._server, path));
    this._server.addEventListener("key", show);
    show();
    return h("div", { class: "layout one" }, this._main);
  }

  _openList(open = this._toggle.getAttribute("aria-expanded") !== "true") {
    this._toggle.setAttribute("aria-expanded", String(open));
    this._sidebar.classList.toggle("open", open);
  }

  _drawAll() {
    const { about, complete, reachable, ready, refusal, models } = this._server;
    this._name.textContent = about.name;
    const failed = models.filter((model) => stateOf(model) === "failed").length;
    // Until the index arrives, models that failed are unknown.
    const calm = !complete ? "" : models.some((model) => model.state === "LOADING") ? "loading" : ready ? "ready" : "not ready";
    const word = !reachable ? "not reachable" : refusal ? "needs a key" : failed ? `${failed} failed` : calm;
    this._health.dataset.state = reachable ? (failed ? "failed" : word) : "failed";
    this._health.textContent = word;
    this._health.title = about.version ? `${about.name} ${about.version}` : "";
    if (!this._view) return;
    this._drawList();
    this._follow();
  }

  _drawList() {
    const { complete, models, reachable, refusal } = this._server;
    this._filter.hidden = models.length < 8;
    const wanted = this._filter.value.toLowerCase();
    const shown = models.filter(({ name }) => name.toLowerCase().includes(wanted));
    const current = isLive() ? null : (chosen().name ?? this._chosen?.name);
    const items = shown.map((model) => {
      const word = reachable === false ? "not reachable" : stateOf(model);
      const href = addressOf({ name: model.name });
      const open = (event) => opensHere(event) && this._go({ name: model.name });
      const dot = h("span", { class: "dot", "data-state": reachable === false ? "failed" : word });
      const state = h("span", { class: word === "ready" ? "unseen" : "quiet" }, word);
      const here = model.name === current ? "page" : null;
      return h("li", {}, h("a", { href, onclick: open, "aria-current": here }, dot, h("span", { class: "name" }, model.name), " ", state));
    });
    const none = h("li", { class: "quiet" }, models.length ? "No model has this in its name." : refusal || (complete ? "This server has no models." : ""));
    const focused = this._list.contains(document.activeElement) ? document.activeElement.href : null;
    this._list.replaceChildren(...(items.length ? items : [none]));
    if (focused) [...this._list.querySelectorAll("a")].find(({ href }) => href === focused)?.focus({ preventScroll: true });
  }

  /** Scroll only the list to the model that is shown. */
  _showChosen() {
    const link = this._list.querySelector("[aria-current]");
    if (link === null) return;
    const box = this._sidebar.getBoundingClientRect();
    const { top, bottom } = link.getBoundingClientRect();
    if (top < box.top || bottom > box.bottom) this._sidebar.scrollTop += (top + bottom - box.top - box.bottom) / 2;
  }

  /** Show the model that the address names, or else the first model that is ready. */
  _follow() {
    this._switch(isLive());
    if (isLive()) return;
    const asked = chosen();
    const { models, refusal } = this._server;
    const first = models.find((model) => model.state === "READY") ?? models[0];
    if (refusal && models.length === 0) {
      const button = h("button", { type: "button", onclick: () => this._askKey(refusal) }, icon("key"), "Set a key");
      this._view.replaceChildren(h("header", { class: "model-head" }, h("h1", {}, "API key"), h("p", { class: "quiet" }, `${refusal} Without one, it does not show its models.`), h("div", { class: "actions" }, button)));
      return;
    }
    const wanted = asked.name ? asked : (this._chosen ?? (first ? { name: first.name } : null));
    if (wanted === null) {
      if (this._server.complete) this._view.replaceChildren(h("p", { class: "quiet" }, "No models are here yet. This page shows them when they load."));
      return;
    }
    const was = this._chosen;
    this._chosen = wanted;
    this._toggle.firstChild.textContent = wanted.name;
    document.title = `${wanted.name} · ${this._server.about.name}`;
    if (was && was.name === wanted.name && was.version === wanted.version) {
      this._view.look();
      return;
    }
    this._view.leave();
    this._drawList();
    this._showChosen();
    this._view.show(this._server, wanted, (next, quiet) => this._go(next, quiet));
  }

  /** Show or leave the live view. A model continues to run behind it. */
  async _switch(on) {
    if (on) document.title = `Server · ${this._server.about.name}`;
    if (on === this._view.hidden) return;
    this._view.hidden = on;
    this._links.slice(0, 2).forEach((link, index) => (Boolean(index) === on ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current")));
    if (on) this._toggle.firstChild.textContent = "Models";
    this._drawList();
    if (on && !this._live) {
      await import("./live.js");
      this._live = h("server-view", {});
      this._main.append(this._live);
      this._live.show(this._server);
    }
    if (!this._live) return;
    this._live.hidden = !this._view.hidden;
    this._live.poll();
  }

  /** Follow a link of the bar without a new page, which would have no key. */
  _openPage(event) {
    if (!this._view || event.target.pathname.endsWith("/docs") || !opensHere(event)) return;
    history.pushState(null, "", event.target.href);
    this._openList(false);
    this._follow();
    announce(event.target.textContent);
  }

  _go(next, quiet = false) {
    history[quiet ? "replaceState" : "pushState"](null, "", addressOf(next));
    if (quiet) {
      this._chosen = next;
      return;
    }
    this._openList(false);
    this._follow();
    scrollTo({ top: 0 });
    announce(`Model ${next.name}`);
  }

  _turnTheme() {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    stored((storage) => storage.setItem("theme", next));
    this._useTheme(next);
    announce(this._theme.title);
  }

  _useTheme(theme) {
    document.documentElement.dataset.theme = theme;
    this._theme.title = this._theme.ariaLabel = `Theme: ${theme}`;
  }

  _keyDialog() {
    const header = h("input", { id: "key-header", value: "Authorization", autocomplete: "off", spellcheck: false });
    const value = h("input", { id: "key-value", type: "password", autocomplete: "off", placeholder: "Bearer …" });
    const why = h("p", { class: "fault" });
    const close = () => dialog.close();
    const use = (event) => {
      event.preventDefault();
      const text = value.value.trim();
      const bare = header.value.toLowerCase() === "authorization" && text && !text.includes(" ");
      this._server.useKey(header.value.trim(), bare ? `Bearer ${text}` : text);
      close();
      this._server.refresh();
    };
    const dialog = h(
      "dialog",
      { "aria-labelledby": "key-title" },
      h(
        "form",
        { onsubmit: use },
        h("h2", { id: "key-title" }, "API key"),
        why,
        h("p", { class: "help" }, "A header that is sent with every call. It is kept in this page alone, and is gone when you leave it."),
        labelled(header, "Header"),
        labelled(value, "Value"),
        h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Use"), h("button", { type: "button", onclick: close }, "Cancel")),
      ),
    );
    this._askKey = (message) => {
      why.textContent = message;
      why.hidden = !message;
      if (!dialog.open) dialog.showModal();
      value.focus();
    };
    return dialog;
  }
}

/** The model that the address names. */
function chosen() {
  const query = new URLSearchParams(location.search);
  return { name: query.get("model") ?? undefined, version: query.get("version") ?? undefined, tab: query.get("tab") ?? undefined };
}

const isLive = () => new URLSearchParams(location.search).get("view") === "server";

function addressOf({ name, version, tab }) {
  const query = new URLSearchParams({ model: name });
  if (version) query.set("version", version);
  if (tab) query.set("tab", tab);
  return `?${query}`;
}

/** The path of the OpenAPI document of this address; null at the root. */
function referencePath() {
  const path = location.pathname.slice(new URL(ROOT).pathname.replace(/\/$/, "").length);
  if (!path.endsWith("/docs")) return null;
  return path.startsWith("/v2/models/") ? `${path}/dataplane.json` : "/v2/docs/dataplane.json";
}

/** Whether a click opens its link in this page, instead of a new tab or window. */
function opensHere(event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return false;
  event.preventDefault();
  return true;
}

/** Use the storage of the browser, which may refuse it. */
function stored(use) {
  try {
    return use(localStorage);
  } catch {
    return null;
  }
}

customElements.define("server-page", ServerPage);
