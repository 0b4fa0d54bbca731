"""The code that the page shows is run as it is: with curl, our client, OpenAI's, Triton's, and under Node."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Running, eventually

from .conftest import ODD, address, fill_rows, write_models
from .test_page import png

ROOT = Path(__file__).parents[3]
COMMANDS = {
    "curl": ["bash", "-c"],
    "Python": [sys.executable, "-c"],
    "Python: openai": [sys.executable, "-c"],
    "Python: tritonclient": [sys.executable, "-c"],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose gRPC port is one that the settings name, as the page needs it for Triton's streams."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    folder = write_models(tmp_path_factory.mktemp("snippets") / "models")
    running = Running(folder, "--grpc-port", str(port))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the code runs: with the JavaScript client installed, and a file."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "inferstream").symlink_to(ROOT / "inferstream" / "plugins" / "page" / "client")
    (folder / "it's a file.png").write_bytes(png())
    return folder


def snippets(page: Any) -> dict[str, str]:
    """The code of each client, by the name of its tab."""
    page.locator(".code-card[aria-busy=false]").wait_for()  # the code follows the form after a pause
    found = {}
    for tab in page.get_by_role("tablist", name="Clients").get_by_role("tab").all():
        panel = page.locator(f"#{tab.get_attribute('aria-controls')}")
        found[tab.inner_text()] = panel.locator("code").text_content()
    return found


def printed(title: str, code: str, folder: Path) -> str:
    if title == "JavaScript":
        (folder / "call.mjs").write_text(code)
        command = ["node", "call.mjs"]
    else:
        command = [*COMMANDS[title], code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, f"{title}:\n{code}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def check(page: Any, folder: Path, expected: str | dict[str, str], titles: set[str]) -> None:
    """Run the code of each client; each prints what is expected, of all or by the name of the client."""
    found = snippets(page)
    assert set(found) == titles
    for title, code in found.items():
        if title == "JavaScript" and shutil.which("node") is None:
            continue
        wanted = expected if isinstance(expected, str) else expected.get(title, expected["all"])
        output = printed(title, code, folder)
        assert wanted in output, f"{title}:\n{code}\n{output}"


ALL = {"curl", "Python", "Python: tritonclient", "JavaScript"}
WEIRD = 'it\'s "quoted", $HOME `id` \\n €\n<b>'


def test_a_prediction(served: Running, visit: Callable[..., Any], folder: Path) -> None:
    page = visit(address(served, "add"))
    page.get_by_label("a", exact=True).fill("41")
    check(page, folder, "42", ALL)


def test_text_stream(served: Running, visit: Callable[..., Any], folder: Path) -> None:
    page = visit(address(served, "ticks"))
    page.get_by_label("prompt", exact=True).fill(WEIRD)
    page.get_by_label("count").fill("3")
    expected = {
        "all": f"{WEIRD} 0 {WEIRD} 1 {WEIRD} 2",
        "curl": r"it's \"quoted\", $HOME `id` \\n €\n<b> 2",
        "Python: openai": f"{WEIRD} 0 {WEIRD} 1",
        "Python: tritonclient": "output [b'it\\'s \"quoted\", $HOME `id` \\\\n \\xe2\\x82\\xac\\n<b> 2 ']",
        "JavaScript": "<b> 2 ",
    }
    check(page, folder, expected, ALL | {"Python: openai"})


def test_a_chat(served: Running, visit: Callable[..., Any], folder: Path) -> None:
    page = visit(address(served, "ticks", tab="chat"))
    page.get_by_role("textbox", name="Message").fill("hey")
    page.get_by_text("Options", exact=True).click()
    page.get_by_label("Max tokens").fill("2")
    expected = {"all": "hey 0 hey 1", "curl": '"hey 1 "', "JavaScript": "hey 1"}
    check(page, folder, expected, {"curl", "Python: openai", "JavaScript"})


def test_arrays_by_name_and_as_tensors(served: Running, visit: Callable[..., Any], folder: Path) -> None:
    page = visit(address(served, "scale"))
    page.get_by_label("x", exact=True).fill("[[1, 2, 3, 4], [5, 6, 7, 8]]")
    expected = {"all": "16.", "JavaScript": "16", "curl": "16.0"}
    check(page, folder, expected, ALL)
    page = visit(address(served, "rows"))
    fill_rows(page, [[1, 2, 3], [4, 5, 6]])
    check(page, folder, "15", ALL)


def test_tensor_request(served: Running, visit: Callable[..., Any], folder: Path) -> None:
    page = visit(address(served, "undeclared"))
    page.get_by_label("Request").wait_for()
    expected = {"all": "[2. 4. 6.]", "curl": "[2.0,4.0,6.0]", "JavaScript": "[ 2, 4, 6 ]"}
    check(page, folder, expected, ALL)


def test_value_stream_to_model(served: Running, visit: Callable[..., Any], folder: Path) -> None:
    page = visit(address(served, "total"))
    page.get_by_label("numbers").fill("1\n2.5\n4")
    check(page, folder, "1.0\n3.5\n7.5", {"Python"})


def test_json_and_choices(served: Running, visit: Callable[..., Any], folder: Path) -> None:
    page = visit(address(served, "greet"))
    page.get_by_label("name", exact=True).fill('Ada\'s "friend"')
    page.get_by_label("age", exact=True).fill("36")
    page.get_by_label("language").select_option(label="fr")
    page.get_by_label("loud").check()
    check(page, folder, "(36)!", ALL)


def test_a_file(served: Running, visit: Callable[..., Any], folder: Path) -> None:
    page = visit(address(served, "picture"))
    page.get_by_label("image").set_input_files(folder / "it's a file.png")
    eventually(lambda: page.locator(".preview img").count() == 1)
    expected = {"all": "PNG", "curl": "iVBORw0KGgo", "JavaScript": "iVBORw0KGgo"}
    check(page, folder, expected, ALL)


def test_names_and_versions_are_quoted(served: Running, visit: Callable[..., Any], folder: Path) -> None:
    page = visit(address(served, ODD, tab="form"))
    page.get_by_label("word").fill("here")
    expected = {"all": "here", "JavaScript": "here"}
    check(page, folder, expected, ALL | {"Python: openai"})
    page = visit(address(served, "versions", version="1"))
    page.get_by_label("a", exact=True).fill("7")
    check(page, folder, "8", ALL)


def test_key_is_sent_and_not_shown(served: Running, visit: Callable[..., Any]) -> None:
    page = visit(address(served, "add"))
    page.get_by_role("button", name="API key").click()
    page.get_by_label("Value").fill("secret")
    page.get_by_role("button", name="Use").click()
    with page.expect_request("**/generate") as sent:
        page.get_by_role("button", name="Run", exact=True).click()
    assert sent.value.headers["authorization"] == "Bearer secret"
    page.get_by_label("a", exact=True).fill("3")
    eventually(lambda: all("YOUR_KEY" in code and "secret" not in code for code in snippets(page).values()))
