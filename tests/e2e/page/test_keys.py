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

KEY = f"ifs_page_{secrets.token_urlsafe(32)}"

STORED = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    entry = {"id": "page", "principal": "reader", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}
    rights = {"scopes": ["infer", "stream", "docs"], "models": ["*"]}
    folder = write_models(tmp_path_factory.mktemp("page") / "models")
    keys = json.dumps({"version": 1, "keys": [entry | rights]})
    running = Running(folder, INFERSTREAM_KEYS=keys)
    yield running
    assert running.stop() == 0, running.text()


def use(page: Any, key: str) -> None:
    page.get_by_label("Value").fill(key)
    page.get_by_role("button", name="Use").click()


def test_the_page_asks_for_a_key_and_sends_it_with_each_kind_of_call(
    locked: Running, visit: Callable[..., Any]
) -> None:
    page = visit(address(locked, "add"))
    page.get_by_role("dialog").get_by_text("needs a valid key").wait_for()
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
    page.get_by_role("dialog").get_by_text("needs a valid key").wait_for()


def test_a_wrong_key_is_asked_for_again(locked: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(locked, "add"))
    page.get_by_role("dialog").get_by_text("needs a valid key").wait_for()
    use(page, "wrong")
    page.get_by_role("dialog").get_by_text("needs a valid key").wait_for()
    use(page, KEY)
    page.locator(".sidebar").get_by_role("link", name="add").first.wait_for()


def test_a_refusal_that_comes_late_is_not_of_the_new_key(locked: Running, visit: Callable[..., Any]) -> None:
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
