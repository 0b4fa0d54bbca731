"""What one does on the page: run, stream, stop, upload, chat, fail; with the keyboard, on a phone, in the dark."""

import json
import re
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.serving import Running, eventually

from .conftest import ODD, address, ended, fill_rows, focus_is, run, until

Visit = Callable[..., Any]


def png(width: int = 8, height: int = 6) -> bytes:
    rows = b"".join(
        b"\0" + bytes((x * 30, y * 40, 120)[i] for x in range(width) for i in range(3)) for y in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def test_root_lists_models_with_state(served: Running, visit: Visit) -> None:
    page = visit(f"{served.url}/")
    models = page.get_by_role("navigation", name="Models")
    models.get_by_role("link", name="add ready").wait_for()
    models.get_by_role(
        "link", name="broken failed"
    ).wait_for()  # the index has it, which comes a little later
    assert models.get_by_role("link").count() == 15
    assert page.locator(".health").text_content() == "1 failed"


def test_document_names_every_script_that_the_page_loads(served: Running, visit: Visit) -> None:
    page = visit(f"{served.url}/?model=add")
    page.get_by_role("button", name="Run", exact=True).wait_for()
    loaded = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    named = page.evaluate("[...document.querySelectorAll('link[rel=modulepreload]')].map(({ href }) => href)")
    scripts = [address for address in loaded if address.endswith(".js")]
    assert sorted(scripts) == sorted([*named, f"{served.url}/page/page.js"])


def test_model_shows_signature_description_and_form(served: Running, visit: Visit) -> None:
    page = visit(address(served, "ticks"))
    page.get_by_role("heading", name="ticks", exact=True).wait_for()
    assert (
        page.locator(".signature").inner_text() == "ticks(prompt: text, count: integer = 40) → stream of text"
    )
    assert page.locator(".description p").first.inner_text() == "The prompt again and again."
    count = page.get_by_label("count")
    assert [count.get_attribute(name) for name in ("type", "min", "max", "placeholder")] == [
        "number",
        "1",
        "5000",
        "40",
    ]
    assert page.get_by_text("How often.", exact=True).is_visible()
    assert page.get_by_label("prompt", exact=True).evaluate("each => each.tagName") == "TEXTAREA"


def test_a_prediction_is_run(served: Running, visit: Visit) -> None:
    page = visit(address(served, "add"))
    page.get_by_label("a", exact=True).fill("41")
    run(page)
    assert page.locator(".outputs").inner_text() == "42"


def test_choices_booleans_and_json_have_matching_fields(served: Running, visit: Visit) -> None:
    page = visit(address(served, "greet"))
    person = page.get_by_role("group", name="person")
    person.get_by_label("name", exact=True).fill("Ada")
    person.get_by_label("age", exact=True).fill("36")
    page.get_by_label("language").select_option(label="fr")
    page.get_by_label("loud").check()
    run(page)
    assert page.locator(".outputs").inner_text() == "Bonjour, Ada (36)!"


def test_stream_is_rendered_live_with_timings(served: Running, visit: Visit) -> None:
    page = visit(address(served, "ticks"))
    page.get_by_label("count").fill("60")
    page.evaluate(
        """() => {
          window.paints = 0;
          const look = new MutationObserver((records) => {
            if (records.some(({ target }) => target.parentElement?.matches(".stream-text"))) window.paints += 1;
          });
          look.observe(document.body, { subtree: true, characterData: true });
        }"""
    )
    page.get_by_label("prompt", exact=True).fill("la")
    run(page)
    text = page.locator(".stream-text").inner_text()
    assert text.split() == " ".join(f"la {number}" for number in range(60)).split()
    figures = dict(
        zip(
            page.locator(".figures dt").all_inner_texts(),
            page.locator(".figures dd").all_inner_texts(),
            strict=True,
        )
    )
    assert figures["tokens"] == "60"
    assert figures["first token"].endswith("s")
    assert float(figures["tokens/s"]) > 1
    assert page.locator(".plot .bars").get_attribute("d").count("M") == 59
    assert "median" in page.locator(".gaps figcaption").inner_text()
    page.evaluate("window.paints = 0")
    page.get_by_label("count").fill("5000")
    page.get_by_role("button", name="Run", exact=True).click()
    until(page, "window.paints >= 20")
    page.get_by_role("button", name="Stop").click()
    ended(page)


def test_stop_ends_stream_and_runs_finally(served: Running, visit: Visit) -> None:
    served.log.write_text("")
    page = visit(address(served, "ticks"))
    page.get_by_label("count").fill("5000")
    page.get_by_role("button", name="Run", exact=True).click()
    until(page, "document.querySelector('.stream-text')?.textContent.length > 20")
    page.get_by_role("button", name="Stop").click()
    ended(page)
    assert page.locator(".card.result .note").inner_text() == "Stopped"
    eventually(lambda: served.noted("closed"))
    assert page.get_by_role("button", name="Run", exact=True).is_enabled()


def test_stop_ends_resumable_stream(resumable: Running, visit: Visit) -> None:
    page = visit(address(resumable, "ticks"))
    page.get_by_label("count").fill("2")
    run(page)
    assert page.locator(".card.result .note[data-state=done]").count() == 1
    resumable.log.write_text("")
    page.get_by_label("count").fill("5000")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".stream-text").get_by_text("5", exact=False).wait_for()
    page.get_by_role("button", name="Stop").click()
    ended(page)
    eventually(lambda: resumable.noted("closed"))


def test_number_stream_is_list_and_line_chart(served: Running, visit: Visit) -> None:
    page = visit(address(served, "numbers"))
    run(page)
    assert page.locator(".items li").count() == 30
    assert page.locator(".items li").last.inner_text().endswith("14.5")
    assert page.locator(".chart svg").get_attribute("aria-label") == "values: 30 values from 0 to 14.5"


def test_values_are_streamed_to_model(served: Running, visit: Visit) -> None:
    page = visit(address(served, "total"))
    page.get_by_label("numbers").fill("1\n2.5\n4")
    page.get_by_label("start").fill("10")
    run(page)
    assert [line.split()[-1] for line in page.locator(".items li").all_inner_texts()] == [
        "11",
        "13.5",
        "17.5",
    ]
    page.get_by_label("numbers").fill("1\ntwo")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("A line is not JSON").wait_for()


def test_image_is_uploaded_and_returned(served: Running, visit: Visit) -> None:
    page = visit(address(served, "picture"))
    chooser = page.get_by_label("image")
    assert chooser.get_attribute("accept") == "image/*"
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Choose a file.").wait_for()
    chooser.set_input_files([{"name": "tiny.png", "mimeType": "image/png", "buffer": png()}])
    run(page)
    shown = page.get_by_role("img", name="Output image").or_(page.get_by_role("img", name="Output output"))
    eventually(lambda: shown.evaluate("each => [each.naturalWidth, each.naturalHeight]") == [8, 6])
    assert page.locator("figure.media figcaption").inner_text().startswith("image/png")


def test_new_run_releases_previous_files(served: Running, visit: Visit) -> None:
    page = visit(address(served, "picture"))
    page.evaluate(
        """() => {
            window.freed = [];
            const free = URL.revokeObjectURL.bind(URL);
            URL.revokeObjectURL = (url) => { window.freed.push(url); free(url); };
        }"""
    )
    page.get_by_label("image").set_input_files([{"name": "a.png", "mimeType": "image/png", "buffer": png()}])
    run(page)
    first = page.locator("figure.media a[download]").get_attribute("href")
    run(page)
    until(page, "first => document.querySelector('figure.media a[download]')?.href !== first", first)
    assert first in page.evaluate("window.freed")


def test_arrays_are_charts_and_rows_are_tables(served: Running, visit: Visit) -> None:
    page = visit(address(served, "scale"))
    assert page.get_by_label("x", exact=True).input_value().count(",") == 3  # an example of the right shape
    page.get_by_label("x", exact=True).fill("[[1, 2, 3, 4], [5, 6, 7, 8]]")
    run(page)
    assert page.locator(".outputs td").all_inner_texts() == ["2", "4", "6", "8", "10", "12", "14", "16"]
    page = visit(address(served, "people"))
    run(page)
    assert page.locator(".outputs th").all_inner_texts() == ["number", "square"]
    assert page.locator(".outputs td").all_inner_texts() == ["0", "0", "1", "1", "2", "4"]


def test_tensor_and_undeclared_models_get_v2_requests(served: Running, visit: Visit) -> None:
    page = visit(address(served, "rows"))
    fill_rows(page, [[1, 2, 3], [4, 5, 6]])
    run(page)
    assert page.locator("td.outcome").all_inner_texts() == ["6", "15"]
    page = visit(address(served, "undeclared"))
    request = json.loads(page.get_by_label("Request").input_value())
    assert request["inputs"][0]["shape"] == [1, 3]
    run(page)
    assert page.locator(".outputs td").all_inner_texts() == ["2", "4", "6"]
    page.get_by_label("Request").fill("{")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("JSON at position").or_(page.get_by_text("Expected property name")).first.wait_for()


def test_error_is_shown_at_its_field_with_status(served: Running, visit: Visit) -> None:
    page = visit(address(served, "greet"))
    page.route("**/generate", lambda route: route.continue_(post_data='{"person": {"name": "Ada"}}'))
    run(page)
    assert page.locator(".error strong").inner_text() == "Error 400"
    assert "person" in page.locator(".error p").inner_text()
    focus_is(page, "each.matches('[name=\"person.age\"][aria-invalid=true]')")
    page = visit(address(served, "refuse"))
    run(page)
    assert page.locator(".error strong").inner_text() == "Error 500"
    assert page.locator(".card.result .note").inner_text().startswith("Failed")


def test_invalid_values_are_refused_by_the_form(served: Running, visit: Visit) -> None:
    page = visit(address(served, "ticks"))
    page.get_by_label("count").fill("9999")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".fault:not(:empty)").wait_for()
    assert page.locator(".figures").count() == 0


def test_failed_model_shows_reason(served: Running, visit: Visit) -> None:
    page = visit(address(served, "broken"))
    page.get_by_text("it failed to load").wait_for()
    assert "Missing" in page.locator(".reason").inner_text()


def test_chat_with_two_messages(served: Running, visit: Visit) -> None:
    page = visit(address(served, "ticks", tab="chat"))
    message = page.get_by_role("textbox", name="Message")
    message.fill("one")
    message.press("Enter")
    page.locator(".message.assistant .note[data-state=done]").nth(0).wait_for()
    message.fill("two")
    with page.expect_request("**/v1/chat/completions") as asked:
        message.press("Enter")
    sent = asked.value.post_data_json["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"].startswith("one 0 one 1")
    page.locator(".message.assistant .note[data-state=done]").nth(1).wait_for()
    assert "tokens/s" in page.locator(".message .note").last.inner_text()
    page.get_by_role("button", name="New chat").click()
    assert page.locator(".message").count() == 0


def test_stopped_chat_keeps_its_text(served: Running, visit: Visit) -> None:
    served.log.write_text("")
    page = visit(address(served, "ticks", tab="chat"))
    message = page.get_by_role("textbox", name="Message")
    message.fill("go on")
    message.press("Enter")
    page.get_by_role("button", name="Stop").click()
    page.locator(".message.assistant .note[data-state=done]").wait_for()
    eventually(lambda: served.noted("closed"))


def test_model_output_is_escaped(served: Running, visit: Visit) -> None:
    for name in ("hostile", ODD):
        page = visit(address(served, name, tab="form"))
        page.get_by_role("heading", name=name, exact=True).wait_for()
        assert "<img src=x" in page.locator(".description").inner_text()
        run(page)
        assert "<script>document.title=1</script>" in page.locator(".stream-text").inner_text()
        assert page.locator("main img[src=x], main script").count() == 0
        assert page.title() != "1"


def test_version_can_be_selected(served: Running, visit: Visit) -> None:
    page = visit(address(served, "versions"))
    page.get_by_label("Version", exact=True).select_option("1")
    page.wait_for_url("**/?model=versions&version=1")
    with page.expect_request("**/v2/models/versions/versions/1/generate"):
        page.get_by_role("button", name="Run", exact=True).click()
    ended(page)


def test_everything_works_with_keyboard(served: Running, visit: Visit) -> None:
    page = visit(address(served, "add"))
    page.get_by_label("a", exact=True).wait_for()
    page.get_by_role("link", name="broken failed").wait_for()  # after this the head is not drawn again
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    focus_is(page, "each.textContent === 'Skip to the model'")
    page.keyboard.press("Enter")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "a":
            break
    focus_is(page, "each.name === 'a' && getComputedStyle(each).outlineStyle === 'solid'")
    page.keyboard.type("5")
    page.keyboard.press("Control+Enter")
    ended(page)
    assert page.locator(".outputs").inner_text() in ("6", "52", "16")
    tab = page.get_by_role("tab", name="curl")
    tab.focus()
    page.keyboard.press("ArrowRight")
    focus_is(page, "each.textContent === 'Python'")
    assert page.get_by_role("tabpanel", name="Python", exact=True).is_visible()


@pytest.mark.parametrize("model", ["ticks", "scale", "greet", "broken", "undeclared", ODD])
def test_phone_layout_does_not_scroll_sideways(served: Running, visit: Visit, model: str) -> None:
    page = visit(address(served, model, tab="form"), viewport={"width": 360, "height": 740}, has_touch=True)
    page.locator(".model-head").wait_for()
    if model not in ("broken",):
        run(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.get_by_role("button", name=model, exact=True).click()
    page.get_by_role("navigation", name="Models").get_by_role("link", name="add ready").click()
    page.get_by_role("heading", name="add", exact=True).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_colour_scheme_follows_system_until_changed(served: Running, visit: Visit) -> None:
    def ground(page: Any) -> int:
        return sum(
            json.loads(
                page.evaluate(
                    "JSON.stringify(getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number))"
                )
            )[:3]
        )

    page = visit(f"{served.url}/", color_scheme="dark")
    assert ground(page) < 120
    page.get_by_role("button", name="Theme: auto").click()
    eventually(lambda: ground(page) > 650)
    page.get_by_role("button", name="Theme: light").click()
    eventually(lambda: ground(page) < 120)
    assert (
        visit(f"{served.url}/", color_scheme="light").evaluate("document.documentElement.dataset.theme")
        == "auto"
    )


def test_api_reference_calls_route_of_real_model(served: Running, visit: Visit) -> None:
    page = visit(f"{served.url}/docs")
    box = page.locator("details.operation", has_text="/v2/models/{model_name}/generate").first
    box.locator("summary").click()
    box.get_by_label("model_name", exact=True).select_option("add")
    eventually(lambda: '"a"' in box.get_by_label("Body", exact=True).input_value())
    with page.expect_response("**/generate") as answered:
        box.get_by_role("button", name="Send").click()
    assert "model_name" not in answered.value.url
    assert answered.value.status == 200
    eventually(lambda: '"output": 1' in box.get_by_role("region", name="Response").inner_text())
    one = visit(f"{served.url}/v2/models/add/docs")
    one.locator("details.operation code", has_text="/v2/models/add/infer").first.wait_for()


def test_api_reference_resumes_ends_and_cancels_streams(served: Running, visit: Visit) -> None:
    page = visit(f"{served.url}/docs")

    def opened(method: str, path: str) -> Any:
        exactly = page.locator("summary code", has_text=re.compile(f"^{re.escape(path)}$"))
        box = page.locator("details.operation").filter(has=exactly)
        box = box.filter(has=page.locator("span.method", has_text=re.compile(f"^{method}$")))
        box.locator("summary").click()
        return box

    path = "/v2/models/{model_name}/generate_stream"
    stream = opened("POST", path)
    stream.get_by_label("model_name", exact=True).select_option("add")
    stream.get_by_label("Prefer", exact=True).fill("resumable")
    eventually(lambda: "-H 'Prefer: resumable'" in stream.get_by_role("region", name="Command").inner_text())
    stream.get_by_role("button", name="Send").click()
    response = stream.get_by_role("region", name="Response")
    eventually(lambda: "event: end" in response.inner_text())
    first = re.search(r"^id: (\S+)", response.inner_text(), re.MULTILINE)
    assert first is not None
    stream.get_by_label("Last-Event-ID", exact=True).fill(first[1])
    with page.expect_response("**/generate_stream") as resumed:
        stream.get_by_role("button", name="Send").click()
    assert resumed.value.request.headers["last-event-id"] == first[1]
    eventually(
        lambda: "event: end" in response.inner_text() and f"id: {first[1]}\n" not in response.inner_text()
    )

    leave = opened("DELETE", path)
    leave.get_by_label("model_name", exact=True).select_option("add")
    leave.get_by_label("Last-Event-ID", exact=True).fill(first[1])
    with page.expect_response("**/generate_stream") as left:
        leave.get_by_role("button", name="Send").click()
    assert left.value.ok
    cancel = opened("DELETE", "/v2/requests/{id}")
    cancel.get_by_label("id", exact=True).fill("nobody")
    cancel.get_by_role("button", name="Send").click()
    eventually(lambda: "nobody" in cancel.get_by_role("region", name="Response").inner_text())
