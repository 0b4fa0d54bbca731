"""Apps that cannot be served, apps that change while they are served, and functions in folders of models."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.serving import SERVER, Running, eventually, write_model

HEAD = "from inferstream import App\napp = App()\n"
MODEL = HEAD + "@app.model\ndef f(a: int) -> int:\n    return a\n"

BROKEN = {
    "unannotated": (
        HEAD + "@app.model\ndef f(a): ...\n",
        'app.py, line 3, function f: parameter "a": it has no',
    ),
    "unknown": (
        HEAD + "class X: ...\n@app.model\ndef f(b: X) -> int: ...\n",
        'app.py, line 4, function f: parameter "b": X is not a type that can be sent',
    ),
    "twice": (
        MODEL + "@app.model('f')\ndef g() -> int: ...\n",
        'app.py, line 6, function g: a model "f" is there already: app.py, line 3, function f',
    ),
    "syntax": (MODEL + "def g(:\n", 'app "app:app": app.py, line 6: SyntaxError: invalid syntax'),
    "raises": (
        MODEL + "def g():\n    raise OSError('one\\ntwo')\ng()\n",
        'app "app:app": app.py, line 7: OSError: one',
    ),
    "exits": ("raise SystemExit(3)", 'app "app:app": app.py, line 1: SystemExit: 3'),
    "package": (
        "import no_such_package",
        "app.py, line 1: ModuleNotFoundError: No module named 'no_such_package'",
    ),
    "empty": (HEAD, 'app "app:app" has no models; mark functions with @app.model'),
    "nothing": ("", "app.py has no App and no class of models; to serve functions, write"),
    "not an app": ("app = 3", 'app "app:app" is a int, not an App'),
    "setting": (
        HEAD + "@app.model(max_qeue=3)\ndef f() -> int: ...\n",
        'function f: field "max_qeue" is unknown',
    ),
    "name": (HEAD + "@app.model('../f')\ndef f() -> int: ...\n", "'../f' is not a usable model name"),
}


def refused(folder: Path, target: str) -> str:
    """The error of a server that does not start, which may have a hint on a second line."""
    ran = subprocess.run([*SERVER, "start", target], cwd=folder, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1, ran.stderr
    line, *hint = ran.stderr.splitlines()
    assert ran.stdout == ""
    assert line.startswith("error: ")
    assert len(hint) <= 1
    assert all(each.startswith("hint: ") for each in hint)
    return line


@pytest.mark.parametrize("case", BROKEN)
def test_invalid_app_is_one_line_and_code_1(case: str, tmp_path: Path) -> None:
    code, message = BROKEN[case]
    (tmp_path / "app.py").write_text(code)
    assert message in refused(tmp_path, "app.py" if len(case) % 2 else "app:app")


def test_missing_target_is_one_line_and_code_1(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    for name in ("my-app.py", "json.py", "good.py"):
        (code / name).write_text(MODEL)
    for target, message in {
        "code/other.py": "there is no file code/other.py",
        "code/my-app.py": "code/my-app.py: Python cannot import a file of this name",
        "code/json.py": "json.py: Python has another module of the name json; give the file another name",
        "code/good.py:other": 'app "good:other": module good has no other',
        "code/good.py:a b": '"code/good.py:a b" is not of the form code/good.py:app',
        "nowhere:app": 'app "nowhere:app": there is no module nowhere',
        "nowhere": "there is no file or folder nowhere",
        "./code/good:app": '"./code/good:app": a module has no slash; write ./code/good.py:app',
        "no where:app": '"no where:app" is not of the form module:app',
    }.items():
        assert message in refused(tmp_path, target)


def ask(server: Running, model: str, **arguments: object) -> object:
    response = server.infer(model, arguments, "generate")
    return response.json()["output"] if response.status_code == 200 else response.status_code


def reasons(server: Running) -> dict[str, tuple[str, str]]:
    index = httpx.post(f"{server.url}/v2/repository/index", timeout=10).json()
    return {item["name"]: (item["state"], item["reason"]) for item in index}


def two(first: str, second: str = "") -> str:
    code = HEAD + f"from helper import factor\n@app.model\ndef first(a: int) -> int:\n    return {first}\n"
    return code + (f"@app.model\ndef second(a: int) -> int:\n    return {second}\n" if second else "")


def test_changed_app_is_reloaded_and_broken_one_keeps_old_code(
    serve: Callable[..., Running], workers: int, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "helper.py").write_text("factor = 1\n")
    (code / "app.py").write_text(two("a * factor", "-a * factor"))
    server = serve(code / "app.py", "--reload")
    assert (ask(server, "first", a=2), ask(server, "second", a=2)) == (2, -2)

    (code / "app.py").write_text(two("a * factor + 100", "-a * factor"))
    eventually(lambda: ask(server, "first", a=2) == 102, 20)
    (code / "helper.py").write_text("factor = 10\n")
    eventually(lambda: (ask(server, "first", a=2), ask(server, "second", a=2)) == (120, -20), 20)

    (code / "app.py").write_text(two("a * factor", "-a * factor") + "def broken(:\n")
    eventually(lambda: "SyntaxError" in reasons(server)["first"][1], 20)
    state, reason = reasons(server)["first"]
    assert state == "READY"
    assert "app.py, line 10: SyntaxError: invalid syntax; the old version goes on serving" in reason
    assert str(tmp_path) not in reason
    assert (ask(server, "first", a=2), ask(server, "second", a=2)) == (120, -20)
    assert (
        workers or "Traceback" not in server.text()
    )  # a worker may import the broken file for the reload before

    (code / "app.py").write_text(two("a * factor", "-a * factor") + "@app.model\ndef third(a) -> int: ...\n")
    eventually(lambda: 'parameter "a": it has no annotation' in reasons(server)["first"][1], 20)
    assert ask(server, "first", a=2) == 120

    # A model that is gone serves on, as one whose folder is gone does; a new one is loaded.
    (code / "app.py").write_text(two("a") + "@app.model\ndef third(a: int) -> str:\n    return str(a)\n")
    eventually(lambda: ask(server, "third", a=2) == "2", 20)
    eventually(lambda: ask(server, "first", a=2) == 2, 20)
    assert ask(server, "second", a=2) == -20
    assert "no longer in the repository" in reasons(server)["second"][1]


FUNCTIONS = """
import asyncio
import time
from collections.abc import AsyncIterator, Iterator

from inferstream import App, Finished, MLModel
from inferstream.codecs import decode_args


def add(a: int, b: int = 1) -> int:
    return a + b


async def words(text: str) -> AsyncIterator[str]:
    for word in text.split():
        await asyncio.sleep(0)
        yield word


def wrong(a) -> int:
    return a


app = App()


@app.steps
def counting(states: list[list[int]]) -> list[int | Finished]:
    return [state.pop() if state else Finished() for state in states]


@counting.admit
def admit(n: int) -> list[int]:
    return [*range(n)]


class Adds(MLModel):
    @decode_args
    def predict(self, a: int, b: float = 1.0) -> float:
        return a + b
"""


def test_settings_can_name_a_function(serve: Callable[..., Running], tmp_path: Path) -> None:
    root = tmp_path / "models"
    for name in ("add", "words", "wrong", "counting", "Adds"):
        write_model(root, name.lower(), f"code_{name}.{name}", FUNCTIONS, name=name.lower())
    write_model(root, "summed", "code_add2.add", FUNCTIONS, parameters={"version": "3"})
    server = serve(root, INFERSTREAM_STRICT="false")
    assert ask(server, "add", a=2) == 3
    assert ask(server, "summed", a=2, b=2) == 4
    state, reason = reasons(server)["wrong"]
    assert state == "UNAVAILABLE"
    assert reason == (
        'Model wrong did not load: code_wrong.py, line 20, function wrong: parameter "a": it has no annotation'
    )
    answered = httpx.post(f"{server.url}/v2/models/add/generate", json={"a": "x"}, timeout=10)
    assert (answered.status_code, answered.json()["error"]) == (
        400,
        "argument \"a\" takes an integer, got 'x'",
    )
    events = httpx.post(
        f"{server.url}/v2/models/words/generate_stream", json={"text": "a b"}, timeout=10
    ).text
    assert [json.loads(line[6:])["output"] for line in events.splitlines() if line.startswith("data: ")] == [
        "a",
        "b",
    ]
    events = httpx.post(f"{server.url}/v2/models/counting/generate_stream", json={"n": 2}, timeout=10).text
    assert [json.loads(line[6:])["output"] for line in events.splitlines() if line.startswith("data: ")] == [
        1,
        0,
    ]
    adds = httpx.post(f"{server.url}/v2/models/adds/generate", json={"a": 2}, timeout=10).json()
    assert adds["output-0"] == 3.0
    metadata = httpx.get(f"{server.url}/v2/models/adds", timeout=10).json()
    assert [(t["name"], t["datatype"], t["shape"]) for t in metadata["inputs"]] == [
        ("a", "INT64", [1]),
        ("b", "FP64", [1]),
    ]
