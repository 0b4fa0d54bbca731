"""The page of a server with keys: it asks for one, sends it with every call, and stores it nowhere."""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.serving import Running, eventually

from .conftest import address, run, write_models
from .test_accessibility import sound

KEY = f"ifs_page_{secrets.token_urlsafe(32)}"

OPERATOR = f"ifs_operator_{secrets.token_urlsafe(32)}"

MISSING, WRONG = "This server needs a key.", "The server does not accept this key."

STORED = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    entry = {"id": "page", "principal": "reader", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}
    rights = {"scopes": ["infer", "stream", "docs"], "models": ["*"]}
    other = {"id": "operator", "principal": "ops", "sha256": hashlib.sha256(OPERATOR.encode()).hexdigest()}
    limits = {"requests_per_second": 0.01, "burst": 5}
    more = {"scopes": ["infer", "metrics", "repository"], "models": ["*"], "limits": limits}
    folder = write_models(tmp_path_factory.mktemp("page") / "models")
    keys = json.dumps({"version": 1, "keys": [entry | rights, other | more]})
    running = Running(folder, INFERSTREAM_KEYS=keys)
    yield running
    assert running.stop() == 0, running.text()


def use(page: Any, key: str) -> None:
    page.get_by_label("Value").fill(key)
    page.get_by_role("button", name="Use").click()


def test_page_asks_for_key_and_sends_it_with_every_call(locked: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(locked, "add"))
    page.get_by_role("dialog").get_by_text(MISSING).wait_for()
    use(page, KEY)
    for model, fields, kind in (
        ("add", {"a": "2", "b": "3"}, "fetch"),
        ("numbers", {}, "server-sent events"),
        ("total", {"numbers": "1\n2"}, "WebSocket"),
    ):
        page.locator(".sidebar").get_by_role("link", name=model).first.click()
        page.get_by_role("heading", name=model).wait_for()
        for name, value in fields.items():
            page.get_by_label(name, exact=True).fill(value)
        run(page)
        assert page.locator(".card.result .note[data-state=done]").count() == 1, kind
    assert KEY not in page.evaluate(STORED)
    page.reload()
    page.get_by_role("dialog").get_by_text(MISSING).wait_for()


def test_page_asks_again_after_wrong_key(locked: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(locked, "add"))
    page.get_by_role("dialog").get_by_text(MISSING).wait_for()
    assert page.get_by_text("no models").count() == 0
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text(f"{MISSING} Without one, it does not show its models.").wait_for()
    sound(page)
    page.get_by_role("button", name="Set a key").click()
    use(page, "wrong")
    page.get_by_role("dialog").get_by_text(WRONG).wait_for()
    assert page.get_by_role("dialog").get_by_text(MISSING).count() == 0
    use(page, KEY)
    page.locator(".sidebar").get_by_role("link", name="add").first.wait_for()


def test_late_refusal_does_not_discard_new_key(locked: Running, visit: Callable[..., Any]) -> None:
    page = visit("about:blank")
    held: list[Any] = []

    def hold(route: Any) -> None:
        route.continue_() if "authorization" in route.request.headers else held.append(route)

    page.route(re.compile(r"/v2(/models)?$"), hold)
    page.goto(address(locked, "add"))
    page.get_by_role("button", name="API key").click()
    eventually(lambda: held)
    use(page, KEY)
    page.get_by_label("a", exact=True).fill("2")
    with page.expect_response(lambda response: response.status == 401):
        for route in held:
            route.continue_()
    page.evaluate("new Promise(requestAnimationFrame)")
    assert page.get_by_role("dialog").count() == 0
    run(page)
    assert page.locator(".outputs").inner_text() == "3"


def test_live_view_names_missing_scope_and_shows_limits(locked: Running, visit: Callable[..., Any]) -> None:
    page = visit(f"{locked.url}/?view=server")
    use(page, KEY)
    page.get_by_text("This key lacks the scope metrics, which the charts need.").wait_for()
    page.get_by_text("To load and unload models, use a key with the scope repository.").wait_for()
    assert page.get_by_role("button", name="Unload add").count() == 0
    sound(page)
    page.get_by_role("button", name="Set a key").click()
    use(page, OPERATOR)
    page.get_by_role("button", name="Unload add").wait_for()
    page.get_by_role("heading", name="Requests per second").wait_for()
    page.get_by_role("link", name="Models", exact=True).click()
    page.locator(".sidebar").get_by_role("link", name="add").first.click()
    page.get_by_label("a", exact=True).fill("2")
    run(page)
    page.locator(".outputs").get_by_text(
        "3", exact=True
    ).first.wait_for()  # leaving the model cancels the call
    page.get_by_role("link", name="Server", exact=True).click()
    # A request comes back after 100 s, which a slow machine may need.
    page.get_by_text(re.compile(r"Left of the limits of your key: [45] of 5 requests\.")).wait_for()


def test_live_view_lists_keys_with_what_is_left(locked: Running, visit: Callable[..., Any]) -> None:
    page = visit(f"{locked.url}/?view=server")
    use(page, OPERATOR)
    table = page.get_by_role("region", name="Keys")
    table.wait_for()
    rows = {line.split()[0]: line for line in table.locator("tbody tr").all_inner_texts()}
    assert rows.keys() == {"page", "operator"}
    assert "reader" in rows["page"]
    assert "unlimited" in rows["page"]
    assert re.search(r"\d of 5", rows["operator"])
    assert OPERATOR not in page.content()
    sound(page)
