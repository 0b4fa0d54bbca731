"""Whether everybody can use the page: names of controls, contrast, headings, landmarks and announcements."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.serving import Running, eventually

from .conftest import address, ended, focus_is, run

UNNAMED = """() => {
  const named = (each) => {
    const by = (each.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("");
    const label = [...(each.labels ?? [])].map((found) => found.textContent).join("");
    const text = each.matches("input, select, textarea") ? "" : each.textContent;
    const picture = each.matches("img") ? each.getAttribute("alt") : "";
    return (each.getAttribute("aria-label") || by || label || text || picture || "").trim() !== "";
  };
  const shown = (each) => each.checkVisibility({ visibilityProperty: true });
  const controls = document.querySelectorAll("button, input, select, textarea, a, summary, [tabindex='0'], [role=img], audio, video, dialog[open], nav");
  return [...controls].filter((each) => shown(each) && !named(each)).map((each) => each.outerHTML.slice(0, 120));
}"""

PALE = """() => {
  const rgba = (text) => {
    const found = text.match(/-?[\\d.]+(e-?\\d+)?/g).map(Number);
    const [r, g, b, a = 1] = text.startsWith("color(") ? [...found.slice(0, 3).map((each) => each * 255), found[3]] : found;
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((each, index) => each * a + under[index] * (1 - a));
  const ground = (element) => {
    const colours = [];
    for (let each = element; each; each = each.parentElement) colours.push(rgba(getComputedStyle(each).backgroundColor));
    return colours.reverse().reduce((under, colour) => over(colour, under), [255, 255, 255]);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((each) => each / 255).map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faults = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !element.checkVisibility({ visibilityProperty: true }) || element.closest(".unseen, .skip, noscript, option, title")) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    if (size === 0) continue;
    const under = ground(element);
    const [a, b] = [luminance(over(rgba(style.color), under)), luminance(under)].sort((x, y) => y - x);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const found = (a + 0.05) / (b + 0.05);
    if (found < (large ? 3 : 4.5)) faults.push(`${found.toFixed(2)}: ${text.slice(0, 40)}`);
  }
  return faults;
}"""

STRUCTURE = """() => {
  const faults = [];
  if (document.documentElement.lang !== "en") faults.push("no language");
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  for (const id of new Set(ids.filter((each, index) => ids.indexOf(each) !== index))) faults.push(`twice: ${id}`);
  for (const each of document.querySelectorAll("[aria-controls], [aria-describedby], [aria-labelledby], label[for]")) {
    for (const name of ["aria-controls", "aria-describedby", "aria-labelledby", "for"]) {
      for (const id of (each.getAttribute(name) ?? "").split(" ").filter(Boolean)) {
        if (!document.getElementById(id)) faults.push(`${name} of nothing: ${id}`);
      }
    }
  }
  const headings = [...document.querySelectorAll("h1, h2, h3, h4")].filter((each) => each.checkVisibility()).map((each) => Number(each.tagName[1]));
  if (headings.some((level, index) => level - (headings[index - 1] ?? 0) > 1)) faults.push(`order of headings: ${headings}`);
  if (headings.filter((level) => level === 1).length !== 1) faults.push(`headings: ${headings}`);
  if (document.querySelectorAll("main").length !== 1) faults.push("no main");
  if (!document.title) faults.push("no title");
  return faults;
}"""


def sound(page: Any) -> None:
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate(STRUCTURE) == []
    assert page.evaluate(PALE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_view_has_names_contrast_and_structure(
    served: Running, visit: Callable[..., Any], scheme: str
) -> None:
    for model in ("ticks", "scale", "greet", "refuse", "undeclared", "picture", "people", "versions"):
        page = visit(address(served, model), color_scheme=scheme)
        page.locator(".card.result").wait_for()
        if model == "picture":
            page.get_by_role("button", name="Run", exact=True).click()  # a file is missing
            page.locator(".fault:not(:empty)").wait_for()
        else:
            run(page)
        sound(page)
        page.context.close()
    page = visit(address(served, "broken"), color_scheme=scheme)
    page.locator(".reason").wait_for()
    sound(page)
    page.get_by_role("button", name="API key").click()
    sound(page)
    page = visit(address(served, "ticks", tab="chat"), color_scheme=scheme)
    page.get_by_role("textbox", name="Message").fill("hello")
    page.keyboard.press("Enter")
    page.locator(".message.assistant .note[data-state=done]").wait_for()
    sound(page)
    page = visit(f"{served.url}/docs", color_scheme=scheme)
    summaries = page.locator("details.operation summary")
    summaries.first.wait_for()
    for summary in summaries.all()[:6]:
        summary.click()
    page.get_by_label("model_name", exact=True).first.wait_for()
    sound(page)


def test_stream_is_announced_and_focus_stays_on_stop(served: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(served, "ticks"))
    status = page.locator("div[role=status].unseen")
    page.get_by_label("prompt", exact=True).fill("la")
    page.get_by_label("count").fill("5000")
    page.get_by_role("button", name="Run", exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop").wait_for()
    focus_is(page, "each.textContent === 'Stop'")
    eventually(lambda: status.count() and "la" in status.inner_text(), 20)
    page.evaluate(
        """() => {
          window.said = 0;
          const status = document.querySelector("div[role=status].unseen");
          new MutationObserver(() => (window.said += 1)).observe(status, { childList: true });
        }"""
    )
    page.keyboard.press("Enter")
    ended(page)
    focus_is(page, "each.textContent === 'Run'")
    eventually(lambda: status.inner_text().startswith("Stopped: "), 20)
    assert page.evaluate("window.said") <= 8
