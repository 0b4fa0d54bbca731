"""The page of an app with many models: their list, pictures in place, long texts, Markdown, defaults and examples."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Running, eventually

from .conftest import address, ended, focus_is, run, until
from .page_app import MARKDOWN

Visit = Callable[..., Any]
APP = Path(__file__).with_name("page_app.py")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("app"), target=str(APP))
    yield running
    assert running.stop() == 0, running.text()


def names(page: Any) -> list[str]:
    return page.locator(".sidebar .name").all_inner_texts()


def test_models_are_sorted_and_selected_one_is_in_view(served: Running, visit: Visit) -> None:
    page = visit(address(served, "model-38"), viewport={"width": 1280, "height": 500})
    page.get_by_role("heading", name="model-38", exact=True).wait_for()
    numbered = [name for name in names(page) if name.startswith("model-")]
    assert numbered == [f"model-{number}" for number in range(1, 41)]
    until(
        page,
        """() => {
        const box = document.querySelector(".sidebar").getBoundingClientRect();
        const link = document.querySelector(".sidebar [aria-current]")?.getBoundingClientRect();
        return link !== undefined && link.top >= box.top && link.bottom <= box.bottom;
    }""",
    )
    assert page.evaluate("scrollY") == 0


def test_model_shows_its_call_graph(served: Running, visit: Visit) -> None:
    page = visit(address(served, "loudest"))
    graph = page.get_by_role("navigation", name="Models that this one calls")
    graph.wait_for()
    assert graph.get_by_role("link").all_inner_texts() == ["louder", "talk", "talk"]
    assert graph.locator("li li").all_inner_texts() == ["talk"]
    graph.get_by_role("link", name="louder").click()
    page.get_by_role("heading", name="louder", exact=True).wait_for()


def test_keyboard_selection_keeps_focus(served: Running, visit: Visit) -> None:
    page = visit(address(served, "plan"))
    link = page.get_by_role("navigation", name="Models").get_by_role("link", name="model-2 ready", exact=True)
    link.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="model-2", exact=True).wait_for()
    focus_is(page, "each.querySelector('.name')?.textContent === 'model-2'")
    page.keyboard.press("Tab")
    focus_is(page, "each.querySelector('.name')?.textContent === 'model-3'")


def test_image_stream_updates_one_image(served: Running, visit: Visit) -> None:
    page = visit(address(served, "frames"))
    page.get_by_label("count").fill("12")
    run(page)
    picture = page.locator(".card.result figure.media img")
    pixel = """picture => {
        const canvas = new OffscreenCanvas(1, 1).getContext("2d");
        canvas.drawImage(picture, 0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    }"""
    eventually(lambda: picture.evaluate(pixel) == [110, 90, 120, 255])
    assert picture.count() == 1
    assert page.locator(".items").count() == 0
    shape = picture.evaluate("({ clientWidth, clientHeight }) => [clientWidth, clientHeight]")
    assert abs(shape[0] / shape[1] - 900 / 700) < 0.02
    hidden = "each => each.scrollHeight > each.clientHeight || each.scrollWidth > each.clientWidth"
    assert not page.locator(".card.result .outputs").first.evaluate(hidden)
    assert page.locator(".figures dd").nth(2).inner_text() == "12"


COUNTING = """() => {
    window.longest = 0;
    const look = new MutationObserver((records) => {
        for (const { target } of records) window.longest = Math.max(window.longest, target.length ?? 0);
    });
    look.observe(document.body, { subtree: true, characterData: true });
    window.turns = 0;
    const turn = () => { window.turns += 1; requestAnimationFrame(turn); };
    turn();
}"""


@pytest.mark.parametrize("tab", ["form", "chat"])
def test_200_000_tokens_are_rendered_in_batches(served: Running, visit: Visit, tab: str) -> None:
    """A text that grows is one node of bounded size: a longer one would be laid out anew for each frame."""
    page = visit(address(served, "flood", tab=tab))
    page.get_by_role("heading", name="flood", exact=True).wait_for()
    page.evaluate(COUNTING)
    if tab == "chat":
        message = page.get_by_role("textbox", name="Message")
        message.fill("go")
        message.press("Enter")
        done = page.locator(".message.assistant .note[data-state=done]")
    else:
        page.get_by_role("button", name="Run", exact=True).click()
        done = page.locator(".card.result .note[data-state=done]")
    done.wait_for(timeout=120_000)
    text = page.locator(".stream-text").text_content()
    assert text.split() == [f"word{number % 97}" for number in range(200_000)]
    blocks = page.locator(".stream-text .block").evaluate_all(
        "all => all.map((each) => each.textContent.length)"
    )
    assert len(blocks) > 100
    assert max(blocks) <= 8000
    assert page.evaluate("window.longest") <= 8000
    assert page.evaluate("document.querySelectorAll('*').length") < 1500
    assert page.evaluate("window.turns") > 10  # the page was alive meanwhile


def test_chat_renders_markdown_without_html(served: Running, visit: Visit) -> None:
    page = visit(address(served, "talk", tab="chat"))
    message = page.get_by_role("textbox", name="Message")
    message.fill("go")
    message.press("Enter")
    page.locator(".message.assistant .note[data-state=done]").wait_for()
    said = page.locator(".message.assistant .markdown")  # blocks out of view have no inner text
    assert said.locator("h3").text_content() == "A title"
    assert [said.locator(tag).first.text_content() for tag in ("strong", "em", "p code", "blockquote")] == [
        "bold",
        "slanted",
        "coded",
        "quoted",
    ]
    assert "a snake_case_name" in said.text_content()
    assert said.locator("ol > li").count() == 2
    assert said.locator("ol ul > li").text_content() == "inner"
    assert said.locator("pre").text_content() == 'print("**no markdown**")\n\nx = 1'
    links = said.get_by_role("link")
    assert [links.nth(at).get_attribute("href") for at in range(links.count())] == ["https://example.org/a"]
    assert links.first.get_attribute("rel") == "noopener noreferrer"
    assert "<img src=x" in said.text_content()
    assert said.locator("img, script").count() == 0
    assert page.title() != "1"


def copied(page: Any) -> str:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return page.evaluate("navigator.clipboard.readText()")


WITHOUT_TLS = """async () => {
    const button = document.querySelector(".message .copy");
    await navigator.clipboard.writeText("nothing yet");
    navigator.clipboard.writeText = () => Promise.reject(new Error("as without TLS"));
    new MutationObserver(() => (window.said ??= button.textContent)).observe(button, {
        childList: true,
        characterData: true,
        subtree: true,
    });
}"""


def test_outputs_and_responses_are_copied_unchanged(served: Running, visit: Visit) -> None:
    page = visit(address(served, "talk", tab="chat"))
    message = page.get_by_role("textbox", name="Message")
    message.fill("go")
    message.press("Enter")
    button = page.get_by_role("button", name="Copy: this response")
    button.click()
    eventually(lambda: copied(page) == MARKDOWN)
    page.evaluate(WITHOUT_TLS)
    button.click()
    eventually(lambda: copied(page) == MARKDOWN)
    until(page, "window.said === 'Copied'")
    focus_is(page, "each.matches('.message .copy')")
    page = visit(address(served, "plan"))
    output = page.get_by_role("button", name="Copy: this output")
    assert output.is_hidden()
    run(page)
    output.click()
    eventually(lambda: copied(page) != MARKDOWN)
    assert json.loads(copied(page)) == {"budget": 2.5, "depth": 3}


def test_pydantic_argument_is_shown_with_defaults(served: Running, visit: Visit) -> None:
    page = visit(address(served, "plan"))
    group = page.get_by_role("group", name="plan")
    goal, budget = group.get_by_label("goal"), group.get_by_label("budget")
    assert goal.get_attribute("required") is not None
    assert budget.get_attribute("placeholder") == "2.5"
    inner = group.get_by_role("group", name="options")
    shown = [inner.get_by_label(name).get_attribute("placeholder") for name in ("style", "depth", "tags")]
    assert shown == ["plain", "3", '["a","b"]']
    assert sent(page) == {"plan": {"goal": "text"}}
    budget.fill("4")
    assert sent(page) == {"plan": {"goal": "text", "budget": 4}}
    ended(page)
    assert json.loads(page.locator(".outputs pre").inner_text()) == {"budget": 4, "depth": 3}
    inner.get_by_label("depth").fill("0")
    page.get_by_role("button", name="Run", exact=True).click()
    focus_is(page, "each.matches('[name=\"plan.options.depth\"][aria-invalid=true]')")


def sent(page: Any) -> Any:
    """The body of the call of the form as it is."""
    with page.expect_request("**/generate") as asked:
        run(page)
    return asked.value.post_data_json


def test_pydantic_fields_have_controls_of_their_type(served: Running, visit: Visit) -> None:
    page = visit(address(served, "parcel"))
    tree = page.get_by_role("group", name="tree")
    tree.get_by_text("In kilograms.").wait_for()
    kinds = """each => Object.fromEntries([...each.elements].map(
        ({ name, type }) => [name.replace("tree.", ""), type]))"""
    form = page.locator("form[aria-label='Input of parcel']")
    found = form.evaluate(kinds)
    wanted = {"weight": "number", "colour": "select-one", "kind": "select-one", "fragile": "checkbox"}
    wanted |= {"insured": "select-one", "where.city": "textarea", "where.zone": "number"}
    json_ones = ("limit", "near", "counts", "options.tags", "inside", "parent")
    wanted |= dict.fromkeys(json_ones, "textarea") | {"where": "checkbox", "options.depth": "number"}
    assert {name: found[name] for name in wanted} == wanted
    assert tree.get_by_label("weight").get_attribute("max") == "30"
    assert sent(page) == {"tree": {"weight": 2}}
    tree.get_by_label("colour").select_option(label="red")
    tree.get_by_label("kind").select_option(label="bag")
    tree.get_by_label("fragile").uncheck()
    tree.get_by_label("insured").select_option(label="false")
    tree.get_by_label("limit").fill("null")
    tree.get_by_label("inside").fill('[{"weight": 1}]')
    assert tree.get_by_label("city").is_hidden()
    tree.get_by_label("where", exact=True).check()
    tree.get_by_label("city").fill("Rome")
    options = tree.get_by_role("group", name="options")
    assert options.get_by_label("depth").get_attribute("placeholder") == "7"
    options.get_by_label("style").fill("fine")
    expected = {
        "weight": 2,
        "colour": "red",
        "kind": "bag",
        "fragile": False,
        "insured": False,
        "limit": None,
        "where": {"city": "Rome"},
        "options": {"style": "fine", "depth": 7, "tags": ["a", "b"]},
        "inside": [{"weight": 1}],
    }
    assert sent(page) == {"tree": expected}
    page.locator(".code-card[aria-busy=false]").wait_for()
    command = page.get_by_role("region", name="Code: curl").text_content()
    assert json.dumps({"tree": expected}, separators=(",", ":")) in command
    page.get_by_role("button", name="Example 2").click()
    second = {"tree": {"weight": 3, "where": {"city": "Bern"}}, "back": {"depth": 2}}
    assert sent(page) == second
    page.get_by_label("back", exact=True).uncheck()
    assert sent(page) == {"tree": second["tree"]}


def test_docstring_examples_fill_the_form(served: Running, visit: Visit) -> None:
    page = visit(address(served, "search"))
    text, limit = page.get_by_label("text", exact=True), page.get_by_label("limit", exact=True)
    assert (text.input_value(), limit.input_value()) == ('a, "quoted" one', "3")
    assert page.get_by_role("button", name="Example").count() == 2  # the third is no value
    page.get_by_role("button", name="Example 2").click()
    assert text.input_value() == "it's"
    run(page)
    assert page.locator(".outputs").inner_text() == "it's 3 True [0.5, -1.0]"


def test_form_keeps_focus_when_stream_ends(served: Running, visit: Visit) -> None:
    page = visit(address(served, "talk", tab="chat"))
    message = page.get_by_role("textbox", name="Message")
    message.fill("go")
    page.get_by_role("button", name="Send").focus()
    page.keyboard.press("Enter")
    page.locator(".message.assistant .note[data-state=done]").wait_for()
    focus_is(page, "each.placeholder === 'Write a message'")


def test_redraw_keeps_focus(served: Running, visit: Visit) -> None:
    def change(route: Any) -> None:
        response = route.fetch()
        document = response.json()
        document["info"]["description"] = "Another text."
        route.fulfill(response=response, json=document)

    page = visit(address(served, "plan"))
    page.get_by_role("group", name="options").get_by_label("depth").focus()
    page.route("**/docs/dataplane.json", change)
    page.evaluate("dispatchEvent(new Event('focus'))")  # it looks again
    page.locator(".description", has_text="Another text.").wait_for()
    focus_is(page, "each.name === 'plan.options.depth'")
    tab = page.get_by_role("tab", name="curl")
    page.locator(".code-card[aria-busy=false]").wait_for()
    tab.focus()
    page.evaluate("""() => {
        const goal = document.querySelector("[name='plan.goal']");
        goal.value = "changed";
        goal.dispatchEvent(new Event("input", { bubbles: true }));
    }""")
    page.get_by_role("region", name="Code: curl").get_by_text("changed").wait_for()
    focus_is(page, "each.textContent === 'curl'")
    page.get_by_role("heading", name="plan", exact=True).focus()
    index = [{"name": "plan", "state": "READY", "reason": "It may fail."}]
    page.route("**/v2/repository/index", lambda route: route.fulfill(json=index))
    page.evaluate("dispatchEvent(new Event('focus'))")
    page.get_by_text("It may fail.").wait_for()
    focus_is(page, "each.localName === 'h1'")


def test_page_waits_for_load_state(served: Running, visit: Visit) -> None:
    page = visit("about:blank")
    held: list[Any] = []
    page.route("**/v2/repository/index", lambda route: held.append(route))
    page.goto(address(served, "plan"))
    page.get_by_role("heading", name="plan", exact=True).wait_for()
    eventually(lambda: held)
    assert page.locator(".health").text_content() == ""
    index = [
        {"name": "plan", "state": "READY"},
        {"name": "gone", "state": "UNAVAILABLE", "reason": "no file"},
    ]
    held[0].fulfill(json=index)
    eventually(lambda: page.locator(".health").text_content() == "1 failed")
