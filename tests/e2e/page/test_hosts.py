"""The page wherever it is served: below prefixes, behind a proxy, by several front ends, over TLS, and off."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.certificates import Authority
from tests.mounted import COMMANDS, host, write_host
from tests.serving import Running, eventually, write_model

from .conftest import address, run

Visit = Callable[..., Any]
HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
HERE = Path(__file__).parent


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    write_model(folder, "add", "page_models.add", (HERE / "page_models.py").read_text(), name="add")
    return folder


def add(page: Any) -> str:
    page.get_by_label("a", exact=True).fill("41")
    run(page)
    return page.locator(".outputs").inner_text()


@pytest.mark.parametrize("server", COMMANDS)
def test_page_works_below_prefix(server: str, tmp_path: Path, visit: Visit) -> None:
    running = host(server, "app", write_host(tmp_path), 0)
    try:
        page = visit("about:blank")
        refused: list[str] = []
        page.on("response", lambda response: refused.append(response.url) if response.status >= 400 else None)
        page.goto(f"{running.url}/?model=streaming")
        page.get_by_role("heading", name="streaming", exact=True).wait_for()
        eventually(lambda: page.locator(".health").text_content() == "ready")
        with page.expect_response("**/v2/models"):
            page.evaluate(
                "dispatchEvent(new Event('focus'))"
            )  # it looks again, and asks nothing that is closed
        assert refused == []
        page.get_by_label("Request").fill(
            json.dumps(
                {
                    "inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["x"]}],
                    "parameters": {"items": 3},
                }
            )
        )
        run(page)
        assert page.locator(".stream-text").inner_text() == "item 0item 1item 2"
        page = visit(f"{running.url}/docs")
        page.locator("details.operation").first.wait_for()
    finally:
        running.stop()


@pytest.mark.parametrize("strips", [True, False])
def test_page_works_behind_proxy_path(
    models: Path, start: Callable[..., Running], visit: Visit, strips: bool
) -> None:
    served = start(models, INFERSTREAM_ROOT_PATH="/ml")
    page = visit("about:blank")
    if strips:
        page.route("**/ml/**", lambda route: route.continue_(url=route.request.url.replace("/ml/", "/", 1)))
    page.goto(f"{served.url}/ml/?model=add")
    assert add(page) == "42"
    assert f"{served.url}/ml/v2/models/add/generate" in page.locator(".snippet").inner_text()
    page.goto(f"{served.url}/ml/v2/models/add/docs")
    page.locator("details.operation").first.wait_for()


def test_several_front_ends(models: Path, start: Callable[..., Running], visit: Visit) -> None:
    served = start(models, "--frontends", "2")
    for _ in range(3):
        assert add(visit(address(served, "add"))) == "42"
    tags = {httpx.get(f"{served.url}/", headers=HTML).headers["etag"] for _ in range(6)}
    assert len(tags) == 1


def test_page_works_over_tls(
    models: Path, tmp_path: Path, start: Callable[..., Running], visit: Visit
) -> None:
    options = Authority(tmp_path / "keys").issue("server")
    (models / "settings.json").write_text(json.dumps({"_custom_rest_server_settings": options}))
    served = start(models)
    page = visit(f"https://127.0.0.1:{served.http_port}/?model=add", ignore_https_errors=True)
    assert add(page) == "42"


def test_closed_repository_still_lists_models(
    models: Path, start: Callable[..., Running], visit: Visit
) -> None:
    served = start(models, "--host", "0.0.0.0")
    assert add(visit(address(served, "add"))) == "42"


def test_page_follows_reload(models: Path, start: Callable[..., Running], visit: Visit) -> None:
    served = start(models, "--reload")
    page = visit(address(served, "add"))
    page.get_by_label("a", exact=True).fill("41")
    code = models / "add" / "page_models.py"
    code.write_text(
        code.read_text().replace(
            "def add(a: int, b: int = 1) -> int:", "def add(a: int, b: int = 1, c: int = 0) -> int:"
        )
    )

    def shown() -> bool:
        page.evaluate("dispatchEvent(new Event('focus'))")
        return page.get_by_label("c", exact=True).count() == 1

    eventually(shown, 30)
    assert page.get_by_label("a", exact=True).input_value() == "41"


def test_page_authenticates_with_key(tmp_path: Path, start: Callable[..., Running], visit: Visit) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "app.py").write_text(
        "from inferstream import App, Headers\n"
        "from inferstream.errors import PermissionDenied\n"
        "app = App()\n"
        "@app.model\n"
        "def open(headers: Headers) -> str:\n"
        "    if headers.get('authorization') != 'Bearer sesame':\n"
        "        raise PermissionDenied('a key is wanted')\n"
        "    return 'open'\n"
    )
    served = start(tmp_path / "app")
    page = visit(address(served, "open"))
    run(page)
    assert page.locator(".error").inner_text().startswith("Error 403\n")
    page.get_by_role("button", name="Set a key").click()
    assert page.get_by_role("dialog").get_by_text("a key is wanted").is_visible()
    page.get_by_label("Value").fill("sesame")
    page.get_by_label("Value").press("Enter")
    run(page)
    assert page.locator(".outputs").inner_text() == "open"


def test_page_is_served_only_to_browsers(models: Path, start: Callable[..., Running]) -> None:
    served = start(models)
    for accept in ("*/*", "application/json", ""):
        found = httpx.get(f"{served.url}/", headers={"accept": accept})
        assert (found.content, found.headers["content-type"]) == (b'{"status":"alive"}', "application/json")
        assert "etag" not in found.headers
    page = httpx.get(f"{served.url}/", headers=HTML)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in page.headers["content-security-policy"]
    for name, value in (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")):
        assert page.headers[name] == value
    again = httpx.get(f"{served.url}/", headers={**HTML, "if-none-match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    style = httpx.get(f"{served.url}/page/page.css")
    assert style.headers["content-encoding"] == "gzip"
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert httpx.get(f"{served.url}/page/nothing.js").status_code == 404


def test_page_can_be_disabled(models: Path, start: Callable[..., Running]) -> None:
    served = start(models, INFERSTREAM_PAGE="false")
    assert httpx.get(f"{served.url}/", headers=HTML).json() == {"status": "alive"}
    for path in ("/docs", "/v2/docs", "/page/page.js", "/v2/models/add/docs"):
        assert httpx.get(served.url + path, headers=HTML).status_code == 404, path
    assert httpx.get(f"{served.url}/v2/docs/dataplane.json").status_code == 200
