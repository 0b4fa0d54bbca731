"""`server check` finds a fault in each model that has one, by its name, and none in the others."""

import json
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from inferstream.cli.main import app
from inferstream.plugins.tools.check.contracts import CONTRACTS
from tests.serving import SERVER

FAULTY = Path(__file__).with_name("faulty.py")
NUMBERS = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}],
}
TEXTS = {
    "inputs": [{"name": "prompt", "datatype": "BYTES", "shape": [1], "parameters": {"content_type": "str"}}],
    "outputs": [{"name": "text", "datatype": "BYTES", "shape": [1, 1]}],
}
PLANTED = {
    "OtherRows": ("batch-invariant", "rows are answered"),
    "KeepsState": ("keeps no state", "the same request is answered"),
    "SharesABuffer": ("concurrent calls", "among others"),
    "BreaksInAWorker": (
        "same in a worker",
        "it fails in a worker process: RuntimeError: no device in this process",
    ),
    "OtherDatatype": ("returns declared outputs", "it declares y as FP32 [-1], and answers FP64"),
    "OtherShape": ("returns declared outputs", "it declares y as FP32 [-1], and answers FP32 [1, "),
    "OtherName": ("returns declared outputs", "it declares the output y, and answers z="),
    "Leaks": ("no memory growth", "faulty_leaks.py:"),
    "FailsForSome": (
        "accepts declared inputs",
        "it fails for inputs that it declares: IndexError: no such row; with x=[",
    ),
    "ReadsTheForm": ("JSON matches binary", "over REST binary"),
    "ReadsTheFace": ("transports match", "over gRPC typed"),
    "StreamsOtherText": ("stream matches predict", "it streams text="),
    "IgnoresCancel": ("stops on cancel", "1 generator of a stream had not ended 0.3 s after its caller left"),
}


def _write(root: Path, name: str) -> None:
    folder = root / name
    folder.mkdir(parents=True)
    shutil.copy(FAULTY, folder / f"faulty_{name.lower()}.py")
    declared = TEXTS if name in ("Speaks", "StreamsOtherText", "IgnoresCancel") else NUMBERS
    settings = {
        "name": name,
        "implementation": f"faulty_{name.lower()}.{name}",
        "input_validation": "declared",
    }
    (folder / "model-settings.json").write_text(json.dumps(settings | declared))


def _check(*arguments: str) -> Result:
    flags = ["--examples", "6", "--calls", "50", "--ending", "0.3"]
    return CliRunner().invoke(app, ["check", *arguments, *flags])


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The case of each contract of each model, by model and contract, of one run over all."""
    root = tmp_path_factory.mktemp("models")
    for name in ("Doubles", "Speaks", *PLANTED):
        _write(root, name)
    result = _check(str(root), "--json", "--junit", str(root / "results.xml"))
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["schema"] == "inferstream.check/1"
    assert len(ElementTree.parse(root / "results.xml").getroot()) == len(document["cases"])
    cases: dict[str, dict[str, str]] = {}
    for case in document["cases"]:
        model, contract = case["name"].split(": ")
        cases.setdefault(model, {})[contract] = f"{case['status']} {case['detail']}"
    return cases


@pytest.mark.parametrize("name", PLANTED)
def test_injected_fault_is_reported_under_its_rule(name: str, checked: dict[str, dict[str, str]]) -> None:
    contract, detail = PLANTED[name]
    assert checked[name][contract].startswith("failed ")
    assert detail in checked[name][contract]


def test_correct_models_pass(checked: dict[str, dict[str, str]]) -> None:
    doubles = {contract: text for contract, text in checked["Doubles"].items() if text != "passed "}
    assert doubles == {
        "stream matches predict": "skipped it does not both predict and stream",
        "stops on cancel": "skipped it does not stream",
    }
    speaks = {contract: text for contract, text in checked["Speaks"].items() if text != "passed "}
    assert speaks == {
        "batch-invariant": "skipped it does not declare a variable first dimension of all tensors"
    }


def test_each_rule_detects_a_fault() -> None:
    assert {contract for contract, _ in PLANTED.values()} == {contract.name for contract in CONTRACTS}


def test_on_demand_model_is_checked(tmp_path: Path) -> None:
    _write(tmp_path, "Doubles")
    path = tmp_path / "Doubles" / "model-settings.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"load": "demand"}))
    assert _check(str(tmp_path)).exit_code == 0


def test_single_model_as_table(tmp_path: Path) -> None:
    _write(tmp_path, "Doubles")
    _write(tmp_path, "OtherShape")
    result = _check(str(tmp_path), "--model", "Doubles")
    assert result.exit_code == 0
    assert "9 passed, 0 failed, 2 skipped" in result.stdout
    assert "OtherShape" not in result.stdout
    unknown = _check(str(tmp_path), "--model", "none")
    assert (unknown.exit_code, "no model none" in unknown.stderr) == (1, True)


def test_load_failure_is_reported(tmp_path: Path) -> None:
    _write(tmp_path, "Doubles")
    settings = tmp_path / "Doubles/model-settings.json"
    settings.write_text(settings.read_text().replace("faulty_doubles.Doubles", "faulty_doubles.Missing"))
    result = _check(str(tmp_path), "--json")
    assert result.exit_code == 1
    (case,) = json.loads(result.stdout)["cases"]
    assert case["name"] == "Doubles: loads"
    assert "has no class Missing" in case["detail"]


def test_a_wrong_flag_exits_with_2(tmp_path: Path) -> None:
    assert _check(str(tmp_path), "--no-such").exit_code == 2


BLOCKS = """
import threading
from inferstream import App

app = App()

@app.model
{kind} waits(x: int) -> int:
    threading.Event().wait()
    return x

@app.model
def twice(x: int) -> int:
    return 2 * x
"""


@pytest.mark.parametrize(("kind", "others"), [("def", 1), ("async def", 0)], ids=["a thread", "the loop"])
def test_blocking_model_is_reported_and_command_ends(kind: str, others: int, tmp_path: Path) -> None:
    """A model that holds the event loop ends the check: what comes after it is not tried."""
    (tmp_path / "app.py").write_text(BLOCKS.format(kind=kind))
    flags = ["--seconds", "5", "--examples", "3", "--calls", "10", "--json"]
    models = ["--model", "waits", "--model", "twice"]
    ran = subprocess.run(
        [*SERVER, "check", str(tmp_path / "app.py"), *models, *flags],
        capture_output=True,
        text=True,
        timeout=240,
    )
    cases = {case["name"]: case for case in json.loads(ran.stdout)["cases"]}
    blocked = cases["waits: accepts declared inputs"]
    assert (ran.returncode, blocked["status"]) == (1, "failed")
    assert "it had not ended 10 s after its call, at " in blocked["detail"]
    assert "app.py:9; with x=" in blocked["detail"]
    assert sum(name.startswith("twice: ") for name in cases) >= others
