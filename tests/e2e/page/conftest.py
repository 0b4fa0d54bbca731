"""A browser without a screen, and a server with models of every kind."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Running, eventually, write_model

HERE = Path(__file__).parent
MODELS = ("ticks", "numbers", "total", "add", "scale", "picture", "greet", "people", "refuse", "hostile")
ODD = "odd/\"name' <b>"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

WATCH = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`);
});
"""


def executable() -> str | None:
    """The browser of this machine: CHROMIUM, else Debian's or Google's."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra `test`")
    if executable() is None:
        pytest.skip("needs Chromium: install it, or name it in CHROMIUM")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        yield running
        running.close()


def write_models(root: Path) -> Path:
    code = (HERE / "page_models.py").read_text()
    for name in MODELS:
        write_model(root, name, f"page_models.{name}", code, name=name)
    write_model(root, "odd", "page_models.hostile", code, name=ODD)
    write_model(root, "undeclared", "page_models.Undeclared", code, name="undeclared")
    rows = [{"name": "rows", "datatype": "FP64", "shape": [-1, 3]}]
    sums = [{"name": "sums", "datatype": "FP64", "shape": [-1]}]
    write_model(root, "rows", "page_models.Rows", code, name="rows", inputs=rows, outputs=sums)
    write_model(root, "broken", "page_models.Missing", code, name="broken")
    for version in ("1", "2"):
        write_model(
            root,
            f"versions/{version}",
            "page_models.add",
            code,
            name="versions",
            parameters={"version": version},
        )
    return root


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(write_models(tmp_path_factory.mktemp("page") / "models"))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def resumable(tmp_path: Path) -> Iterator[Running]:
    """A server whose streams are all resumable, and wait long for their clients."""
    environment = {"INFERSTREAM_RESUMABLE_STREAMS": "true", "INFERSTREAM_RESUME_TIMEOUT": "600"}
    running = Running(write_models(tmp_path / "models"), **environment)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open addresses, each in a new window. No visit may end with an error in the console."""
    contexts = []
    faults: list[str] = []

    def visit(address: str, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        context.add_init_script(WATCH)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: _judge(message, faults))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(address)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert faults == []


def _judge(message: Any, faults: list[str]) -> None:
    # Chromium logs each response with an error, which some tests ask for.
    if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
        faults.append(message.text)


def run(page: Any) -> None:
    """Press Run, and wait for the end."""
    button = page.get_by_role("button", name="Run", exact=True)
    button.wait_for()
    # The end of the run before is none of this one.
    page.evaluate("delete document.querySelector('.card.result .note').dataset.state")
    button.click()
    ended(page)


def fill_rows(page: Any, rows: list[list[float]]) -> None:
    """Type rows into the table of a matrix, which has one row."""
    for number, row in enumerate(rows, 1):
        if number > 1:
            page.get_by_role("button", name="Add a row").click()
        for index, value in enumerate(row):
            page.get_by_label(f"{index}, row {number}", exact=True).fill(str(value))


def ended(page: Any) -> None:
    page.locator(".card.result .note:is([data-state=done], [data-state=failed])").wait_for()


def until(page: Any, condition: str, *given: Any) -> None:
    """Wait for a condition in the page. Its policy forbids the `eval` by which `wait_for_function` asks again."""
    eventually(lambda: page.evaluate(condition, *given))


def focus_is(page: Any, condition: str) -> None:
    """Wait for the focus: the page may be drawing what has it anew."""
    until(page, f"() => {{ const each = document.activeElement; return each !== null && ({condition}); }}")


def address(served: Running, model: str, **more: str) -> str:
    from urllib.parse import urlencode

    return f"{served.url}/?{urlencode({'model': model, **more})}"


__all__ = ["ODD", "address", "ended", "eventually", "fill_rows", "focus_is", "run", "until"]
