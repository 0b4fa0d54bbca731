"""Takes the screenshots of docs/images/ from the examples, with a server of its own and Chromium without a screen."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from scripts import screenshot_models

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
LARGEST = 150_000
NAMES = ("chromium", "chromium-browser", "google-chrome")

DESKTOP: dict[str, Any] = {"viewport": {"width": 1200, "height": 760}, "device_scale_factor": 1.25}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 1.5,
    "has_touch": True,
}

PROMPT = (
    "A server that streams lets you read the first words while the model is still thinking of the last. "
    "Each word arrives as soon as it is there, and the plot shows how long it took. "
    "Press Stop, and the model stops too."
)


@contextmanager
def server(target: Path) -> Iterator[str]:
    """The address of a server of this target, on free ports."""
    with tempfile.TemporaryFile("w+") as output:
        ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
        process = subprocess.Popen(
            [sys.executable, "-m", "inferstream", "start", str(target), *ports], stdout=output, stderr=output
        )
        try:
            while True:
                output.seek(0)
                if process.poll() is not None:
                    raise SystemExit(output.read())
                found = re.search(r"^REST +(http://\S+:\d+)", output.read(), re.M)
                if found:
                    break
                time.sleep(0.1)
            yield found[1]
        finally:
            process.terminate()
            process.wait(30)


def stream(page: Page, url: str) -> None:
    page.goto(f"{url}/?model=words")
    page.get_by_label("prompt", exact=True).fill(PROMPT)
    page.get_by_label("pause").fill("0.1")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".stream-text", has_text="how long").wait_for()


def values(page: Page, url: str) -> None:
    page.goto(f"{url}/?model=scale")
    page.get_by_label("x", exact=True).fill("[\n  [1, 4, 2, 8],\n  [5, 7, 1, 4],\n  [2, 8, 5, 7]\n]")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".outputs td").first.wait_for()
    page.get_by_role("tab", name="Python", exact=True).click()
    page.get_by_role("tabpanel", name="Python").get_by_text("[5, 7, 1, 4]").wait_for()
    page.evaluate("document.activeElement.blur()")


def table(page: Page, url: str) -> None:
    page.goto(f"{url}/?model=churn")
    rows = "age,balance,city,active\n64,410,Oslo,no\n23,1980,Paris,yes\n58,1105,Rome,yes\n31,760,Oslo,no\n"
    page.get_by_label("CSV file").set_input_files(
        {"name": "customers.csv", "mimeType": "text/csv", "buffer": rows.encode()}
    )
    page.get_by_label("age, row 4").wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator("td.outcome").first.wait_for()
    page.evaluate("document.activeElement.blur(); scrollTo(0, 175)")


def tools(page: Page, url: str) -> None:
    page.goto(f"{url}/?model=assistant")
    page.get_by_text("Options", exact=True).click()
    page.get_by_label("Tools (JSON)").fill('[{"type": "function", "function": {"name": "weather"}}]')
    page.get_by_text("Options", exact=True).click()
    page.get_by_role("textbox", name="Message", exact=True).fill("Do I need a jacket in Oslo today?")
    page.keyboard.press("Enter")
    page.get_by_label("Result of weather").fill('{"celsius": 4, "sky": "light rain"}')
    page.get_by_role("button", name="Send the result").click()
    page.locator(".message.assistant .note[data-state=done]").nth(1).wait_for()
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")


def comparison(page: Page, url: str) -> None:
    page.goto(f"{url}/?model=assistant")
    page.get_by_role("button", name="Compare").click()
    page.get_by_label("Second model").select_option("terse")
    page.get_by_role("textbox", name="Message", exact=True).fill("Do I need a jacket in Oslo today?")
    page.keyboard.press("Enter")
    page.locator(".message.assistant .note[data-state=done]").nth(1).wait_for()
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")


def live(page: Page, url: str) -> None:
    """Call the models for a while, some of them with errors."""
    page.goto(f"{url}/?view=server")
    page.evaluate(
        """async (seconds) => {
          const post = (prompt) => ({ method: "POST", body: JSON.stringify({ prompt }) });
          const call = (model, prompt) => fetch(`/v2/models/${model}/generate`, post(prompt));
          const end = performance.now() + seconds * 1000;
          let count = 0;
          while (performance.now() < end) {
            const calls = [call("strict", "a".repeat(++count % 5)), call("terse", "hello")];
            if (count % 4 === 0) calls.push(call("slow", "x"));
            await Promise.all(calls.slice(0, 2));
            await new Promise((resolve) => setTimeout(resolve, 20 + 60 * Math.abs(Math.sin(count / 40))));
          }
        }""",
        90,
    )


SHOTS = (
    ("page-table", "pipeline", table, DESKTOP, "light"),
    ("page-tools", "scripts/screenshot_models.py", tools, DESKTOP, "light"),
    ("page-compare", "scripts/screenshot_models.py", comparison, DESKTOP, "dark"),
    ("page-live", "scripts/screenshot_models.py", live, DESKTOP, "light"),
    ("page-stream", "examples/functions/app.py", stream, DESKTOP, "light"),
    ("page-values", "examples/functions/app.py", values, DESKTOP, "dark"),
    ("page-phone", "examples/functions/app.py", stream, PHONE, "light"),
)
"""Name, what is served (`pipeline` is the trained one), what is done on the page, the window, and the theme."""


def main() -> None:
    executable = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        raise SystemExit("Chromium is needed: install it, or name it in CHROMIUM")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as trained:
        screenshot_models.train(Path(trained))
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for name, target, act, window, scheme in SHOTS:
            with server(Path(trained) if target == "pipeline" else ROOT / target) as url:
                page = browser.new_context(color_scheme=scheme, **window).new_page()
                act(page, url)
                file = IMAGES / f"{name}.png"
                page.screenshot(path=file)
                page.context.close()
            print(f"{file.relative_to(ROOT)}: {file.stat().st_size // 1024} KB")
            if file.stat().st_size > LARGEST:
                raise SystemExit(f"{file.name} is larger than {LARGEST} bytes")
        browser.close()


if __name__ == "__main__":
    main()
