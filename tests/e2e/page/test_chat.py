"""The chat: options, thinking, tool calls, images, edited and repeated messages, two models, and a model that goes away."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving import Running, eventually

from .conftest import address, focus_is, until
from .test_accessibility import sound
from .test_page import png
from .test_snippets import check, snippets
from .test_snippets import folder as folder

Visit = Callable[..., Any]
APP = Path(__file__).with_name("chat_models.py")
TOOLS = [{"type": "function", "function": {"name": "weather"}}]
DONE = ".message.assistant .note:is([data-state=done], [data-state=failed])"
CLIENTS = {"curl", "Python: openai", "JavaScript"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("chat"), target=str(APP), INFERSTREAM_SHUTDOWN_GRACE="1")
    yield running
    assert running.stop() == 0, running.text()


def box(page: Any) -> Any:
    return page.get_by_role("textbox", name="Message", exact=True)


def ask(page: Any, text: str) -> Any:
    """Send a message. Returns the body of the request."""
    count = page.locator(DONE).count()
    box(page).fill(text)
    with page.expect_request("**/v1/chat/completions") as sent:
        box(page).press("Enter")
    page.locator(DONE).nth(count).wait_for()
    return sent.value.post_data_json


def said(page: Any) -> str:
    """The text of the last response."""
    text: str = page.locator(".message.assistant .bubble").last.text_content()
    return text


def option(page: Any, name: str) -> Any:
    page.locator("details.options").wait_for()
    if page.locator("details.options:not([open])").count():
        page.get_by_text("Options", exact=True).click()
    return page.get_by_label(name, exact=True)


@pytest.mark.parametrize(("model", "tab"), [("echo", ""), ("echo", "form"), ("words", ""), ("words", "chat")])
def test_language_model_opens_on_chat(served: Running, visit: Visit, model: str, tab: str) -> None:
    chosen = tab.title() or {"echo": "Chat", "words": "Form"}[model]  # a chat cannot fill `pause` of `words`
    page = visit(address(served, model, **({"tab": tab} if tab else {})))
    tabs = page.get_by_role("tablist", name="Ways to call this model")
    assert tabs.get_by_role("tab", selected=True).inner_text() == chosen
    other = tabs.get_by_role("tab", selected=False)
    word = other.inner_text().lower()
    other.click()
    page.wait_for_url("**/?model=*" if tab else f"**/?model={model}&tab={word}")


def test_options_are_sent_and_invalid_json_is_not(served: Running, visit: Visit) -> None:
    page = visit(address(served, "agent"))
    option(page, "System prompt").fill("Be brief.")
    for name, value in (
        ("Temperature", "0.5"),
        ("Max tokens", "30"),
        ("Seed", "7"),
        ("Stop strings", "END\nSTOP"),
    ):
        option(page, name).fill(value)
    schema, tools = option(page, "Structured output (JSON schema)"), option(page, "Tools (JSON)")
    requests: list[Any] = []
    page.on("request", lambda request: requests.append(request) if "completions" in request.url else None)
    for field, wrong, error in (
        (tools, "[{]", "not JSON"),
        (tools, '{"a": 1}', "a list of objects"),
        (schema, "[]", "an object"),
    ):
        field.fill(wrong)
        box(page).fill("Hello")
        box(page).press("Enter")
        focus_is(page, "each.getAttribute('aria-invalid') === 'true'")
        assert error in page.locator(".options .fault:not(:empty)").inner_text()
        assert box(page).input_value() == "Hello"
        field.fill("")
    assert requests == []
    schema.fill('{"type": "object"}')
    assert ask(page, "Hello") == {
        "model": "agent",
        "stream": True,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "temperature": 0.5,
        "max_tokens": 30,
        "seed": 7,
        "stop": ["END", "STOP"],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "response", "schema": {"type": "object"}},
        },
    }
    assert '"json_schema"' in said(page)


def test_model_without_tools_has_no_field_for_them(served: Running, visit: Visit) -> None:
    page = visit(address(served, "echo"))
    option(page, "Seed").wait_for()
    assert page.locator(".option-grid textarea.code, .chat-files input").count() == 0


def test_thinking_is_folded_and_tool_results_continue(served: Running, visit: Visit) -> None:
    page = visit(address(served, "agent"))
    option(page, "Tools (JSON)").fill(json.dumps(TOOLS))
    assert ask(page, "How is it?")["tools"] == TOOLS
    thinking = page.locator("details.thinking")
    assert thinking.locator(".stream-text").is_hidden()
    thinking.locator("summary").click()
    assert thinking.locator(".stream-text").inner_text() == "The user says How is it?."
    weather = page.get_by_role("heading", name="Tool call: weather")
    card = page.locator(".tool-call").filter(has=weather)
    assert json.loads(card.get_by_role("region", name="Arguments").inner_text()) == {"city": "Oslo"}
    page.get_by_label("Result of weather").fill("rain")
    page.get_by_label("Result of clock").fill("noon")
    sound(page)
    with page.expect_request("**/v1/chat/completions") as sent:
        page.get_by_role("button", name="Send the results").click()
    page.locator(DONE).nth(1).wait_for()
    assert said(page) == "rain and noon"
    assistant, *results = sent.value.post_data_json["messages"][1:]
    assert [call["id"] for call in assistant["tool_calls"]] == ["call_0", "call_1"]
    assert assistant["reasoning_content"] == "The user says How is it?."
    assert results == [
        {"role": "tool", "tool_call_id": "call_0", "content": "rain"},
        {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
    ]
    assert page.get_by_role("button", name="Send the results").count() == 0
    ask(page, "again")
    roles = [message["role"] for message in ask(page, "last")["messages"]]
    assert roles[-5:] == ["user", "assistant", "tool", "tool", "user"]  # this message has sent the results


def test_response_is_regenerated_and_message_edited(served: Running, visit: Visit) -> None:
    page = visit(address(served, "echo"))
    ask(page, "one")
    ask(page, "two")
    with page.expect_request("**/v1/chat/completions") as sent:
        page.get_by_role("button", name="Regenerate").click()
    page.locator(DONE).nth(1).wait_for()
    assert [each["role"] for each in sent.value.post_data_json["messages"]] == ["user", "assistant", "user"]
    edit = page.get_by_role("button", name="Edit this message").first
    edit.click()
    edited = page.get_by_role("textbox", name="Edited message")
    edited.press("Escape")
    focus_is(page, "each.textContent === 'Edit'")
    edit.click()
    edited.fill("three")
    edited.press("Enter")
    page.locator(DONE).wait_for()
    until(page, "document.querySelectorAll('.message').length === 2")
    assert json.loads(said(page)) == [{"role": "user", "content": "three"}]


def test_images_are_sent_as_data_urls(served: Running, visit: Visit, folder: Path) -> None:
    page = visit(address(served, "sight"))
    page.get_by_label("Images", exact=True).set_input_files(folder / "it's a file.png")
    box(page).fill("Look")
    eventually(lambda: "it's a file.png" in snippets(page)["Python: openai"])
    check(page, folder, f"[{len(png())}]", CLIENTS)
    text, image = ask(page, "Look")["messages"][0]["content"]
    assert text == {"type": "text", "text": "Look"}
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert said(page) == f"[{len(png())}]"
    assert page.locator(".message.user img").get_attribute("src") == image["image_url"]["url"]
    assert page.get_by_label("Images", exact=True).evaluate("each => each.files.length") == 0


def test_code_has_options_and_tools(served: Running, visit: Visit, folder: Path) -> None:
    page = visit(address(served, "agent"))
    option(page, "Tools (JSON)").fill(json.dumps(TOOLS))
    option(page, "Stop strings").fill("it's")
    box(page).fill("Hello")
    check(page, folder, {"all": "weather", "curl": '"name":"weather"'}, CLIENTS)


def test_conversation_is_exported_as_request(served: Running, visit: Visit) -> None:
    page = visit(address(served, "agent"))
    export = page.get_by_role("button", name="Export JSON")
    option(page, "System prompt").fill("Be brief.")
    option(page, "Seed").fill("7")
    ask(page, "Hello")
    with page.expect_download() as started:
        export.click()
    assert started.value.suggested_filename == "agent-chat.json"
    body = json.loads(Path(started.value.path()).read_text())
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant"]
    assert (body["model"], body["seed"]) == ("agent", 7)
    assert httpx.post(f"{served.url}/v1/chat/completions", json=body).status_code == 200


def test_two_models_are_compared_and_stopped_together(served: Running, visit: Visit) -> None:
    page = visit(address(served, "slow"))
    page.get_by_role("button", name="Compare").click()
    second = page.get_by_label("Second model")
    second.wait_for()
    assert second.locator("option").all_inner_texts() == ["agent", "broken", "echo", "sight", "words"]
    second.select_option("echo")
    box(page).fill("Hello")
    box(page).press("Enter")
    slow, echo = page.locator(".pair .message").all()
    echo.locator(".note[data-state=done]").wait_for()
    eventually(lambda: "tokens/s" in slow.locator(".note").inner_text())
    assert "first token" in echo.locator(".note").inner_text()
    left, right = slow.bounding_box(), echo.bounding_box()
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    page.get_by_role("button", name="Stop").click()
    slow.locator(".note[data-state=done]", has_text="stopped").wait_for()
    box(page).fill("Again")
    with page.expect_request(lambda request: '"echo"' in (request.post_data or "")) as sent:
        box(page).press("Enter")
    messages = sent.value.post_data_json["messages"]  # each model continues its own conversation
    assert json.loads(messages[1]["content"]) == [{"role": "user", "content": "Hello"}]
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop").wait_for(state="hidden")
    sound(page)


def test_both_models_of_comparison_stop(served: Running, visit: Visit) -> None:
    page = visit(address(served, "echo"))
    page.get_by_role("button", name="Compare").click()
    page.get_by_label("Second model").select_option("slow")
    box(page).fill("Hello")
    box(page).press("Enter")
    page.locator(".pair .note[data-state=done]").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.locator(".pair .note[data-state=done]", has_text="stopped").wait_for()
    page.get_by_role("button", name="Compare").click()
    ask(page, "alone")
    assert page.locator(".pair").count() == 1


@pytest.mark.parametrize("tab", ["chat", "form"])
def test_output_stays_when_model_goes_away(served: Running, visit: Visit, tab: str) -> None:
    page = visit(address(served, "slow", tab=tab))
    if tab == "chat":
        box(page).fill("Hello")
        box(page).press("Enter")
    else:
        page.get_by_role("button", name="Run", exact=True).click()
    text = page.locator(".stream-text")
    eventually(lambda: "3 " in (text.text_content() or ""))
    httpx.post(f"{served.url}/v2/repository/models/slow/unload", timeout=60).raise_for_status()
    page.locator(".error", has_text="Model slow is being unloaded.").wait_for()
    page.evaluate("dispatchEvent(new Event('focus'))")  # it looks again
    page.locator(".warning", has_text="no longer ready (not loaded)").wait_for()
    assert text.text_content().startswith("0 1 2 3 ")
    httpx.post(f"{served.url}/v2/repository/models/slow/load", timeout=60).raise_for_status()
    page.evaluate("dispatchEvent(new Event('focus'))")
    page.locator(".warning").wait_for(state="detached")
    assert text.text_content().startswith("0 1 2 3 ")


def test_failure_keeps_text_and_can_be_repeated(served: Running, visit: Visit) -> None:
    page = visit(address(served, "broken"))
    ask(page, "Hello")
    assert said(page) == "so far"
    assert "went away" in page.locator(".message .error").inner_text()
    page.get_by_role("button", name="Regenerate").click()
    page.locator(".message .error").wait_for()
    assert page.locator(".message").count() == 2


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_options_fit_the_screen(served: Running, visit: Visit, width: int, scheme: str) -> None:
    page = visit(address(served, "agent"), viewport={"width": width, "height": 844}, color_scheme=scheme)
    option(page, "Tools (JSON)").fill("[1]")
    option(page, "Seed").focus()
    page.locator(".options .fault:not(:empty)").wait_for()
    page.get_by_role("button", name="Compare").click()
    page.get_by_label("Second model").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    gaps = page.evaluate("""() => {
        const boxes = [...document.querySelectorAll(".option-grid .field")].map((each) => each.getBoundingClientRect());
        const apart = (a, b) => Math.max(b.left - a.right, a.left - b.right, b.top - a.bottom, a.top - b.bottom);
        return boxes.flatMap((a, index) => boxes.slice(index + 1).map((b) => apart(a, b)));
    }""")
    assert min(gaps) >= 12
    assert page.get_by_role("alert").filter(has_text="list of objects").is_visible()
    sound(page)
