"""`server infer` against real servers that answer, refuse, are busy, and die."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inferstream import compat
from inferstream.cli.main import app
from tests.serving import SERVER, Running, eventually, tensor

MODELS = Path(__file__).with_name("batch_models.py")


def write_models(root: Path) -> Path:
    for name in ("Double", "Total", "Picky", "Slow"):
        folder = root / name.lower()
        folder.mkdir(parents=True)
        shutil.copy(MODELS, folder)
        (folder / "model-settings.json").write_text(json.dumps({"implementation": f"batch_models.{name}"}))
    return root


@pytest.fixture(scope="module")
def batched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(write_models(tmp_path_factory.mktemp("batched") / "models"))
    yield running
    assert running.stop() == 0, running.text()


class Work:
    """An input file, an output file, and runs over them."""

    def __init__(self, folder: Path, requests: list[dict | str]) -> None:
        self.input, self.output = folder / "in.jsonl", folder / "out.jsonl"
        lines = [request if isinstance(request, str) else json.dumps(request) for request in requests]
        self.input.write_text("\n".join(lines) + "\n")

    def command(self, model: str, url: str, *flags: str) -> list[str]:
        files = ["-i", str(self.input), "-o", str(self.output)]
        return [*SERVER, "infer", "-u", url, "-m", model, *files, *flags]

    def run(self, model: str, url: str, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(model, url, *flags),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, **variables},
        )

    def start(self, model: str, url: str, *flags: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command(model, url, *flags), stderr=subprocess.PIPE, text=True)

    def answers(self) -> dict[int, dict]:
        """Lines by index; each is whole, and no index has two."""
        text = self.output.read_text()
        assert not text or text.endswith("\n")
        found = [json.loads(line) for line in text.splitlines()]
        by_index = {line["parameters"]["batch_index"]: line for line in found}
        assert len(by_index) == len(found)
        return by_index

    def lines(self) -> int:
        return self.output.read_text().count("\n") if self.output.exists() else 0


def fp32(*values: float, **more: object) -> dict:
    return {"inputs": [tensor("x", "FP32", list(values))], **more}


def address(server: Running, transport: str) -> str:
    return server.grpc if transport == "grpc" else server.url


def test_mlserver_infer_runs_batch(batched: Running, tmp_path) -> None:
    compat.install()
    from mlserver.batch_processing import process_batch  # type: ignore[import-not-found]

    work = Work(tmp_path, [{"inputs": [tensor("x", "FP32", [value])]} for value in (1, 2)])
    asyncio.run(
        process_batch(
            model_name="double",
            url=batched.url,
            workers=1,
            retries=0,
            batch_size=1,
            input_data_path=str(work.input),
            output_data_path=str(work.output),
            binary_data=False,
            transport="rest",
            request_headers=[],
            timeout=20,
            batch_interval=0,
            batch_jitter=0,
            use_ssl=False,
            insecure=False,
            verbose=False,
            extra_verbose=False,
        )
    )
    answers = [json.loads(line) for line in work.output.read_text().splitlines()]
    assert sorted(answer["outputs"][0]["data"] for answer in answers) == [[2.0], [4.0]]


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_every_line_gets_its_result(
    batched: Running, tmp_path: Path, transport: str, binary: bool, batch_size: int
) -> None:
    requests: list[dict | str] = [
        {
            "id": f"line-{i}",
            "inputs": [tensor("x", "INT64", [[i, i + 1]], [1, 2]), tensor("s", "BYTES", [f"ü{i}"])],
        }
        for i in range(10)
    ]
    del requests[3]["id"]
    work = Work(tmp_path, requests)
    flags = ["-t", transport, "-s", str(batch_size), *(["-b"] if binary else [])]
    ran = work.run("double", address(batched, transport), *flags)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    assert ran.stderr.startswith("10 answered, 0 failed in"), "no bar where there is no terminal"
    answers = work.answers()
    assert sorted(answers) == list(range(10))
    for i, answer in answers.items():
        numbers, texts = answer["outputs"]
        assert (numbers["data"], numbers["shape"], numbers["datatype"]) == (
            [2 * i, 2 * i + 2],
            [1, 2],
            "INT64",
        )
        assert (texts["data"], texts["shape"][0]) == ([f"ü{i}ü{i}"], 1)
        assert answer["model_name"] == "double"
        if i != 3:
            assert answer["id"] == f"line-{i}"
    shared = len({answer["parameters"]["inference_id"] for answer in answers.values()})
    assert shared == (10 if batch_size == 1 else 3)
    if batch_size == 1:
        assert answers[0]["parameters"]["inference_id"] == "line-0"


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_failures_are_recorded_line_by_line(batched: Running, tmp_path: Path, transport: str) -> None:
    broken = [
        "{",
        "[]",
        '{"inputs": [{"name": "x"}]}',
        fp32(1, 2) | {"inputs": [tensor("x", "FP32", [1, 2], [3])]},
    ]
    work = Work(tmp_path, [fp32(1), *broken, "", fp32(-1, id=f"negative-{transport}"), fp32(2)])
    ran = work.run("picky", address(batched, transport), "-t", transport)
    assert ran.returncode == 1
    assert "2 answered, 5 failed" in ran.stderr
    said = [int(line.split()[1]) for line in ran.stderr.splitlines() if line.startswith("batch_index ")]
    assert sorted(said) == [1, 2, 3, 4, 6]
    assert "batch_index 6 failed: " in ran.stderr
    assert "it is negative" in ran.stderr
    answers = work.answers()
    assert sorted(answers) == [0, 1, 2, 3, 4, 6, 7]
    for i in (1, 2, 3, 4, 6):
        assert set(answers[i]) == {"parameters", "error"}
        assert answers[i]["parameters"] == {"batch_index": i}
        assert answers[i]["error"]["status"] == "preprocessing error"
    assert "not valid JSON" in answers[1]["error"]["msg"]
    assert 'input "x": shape [3] needs 3 values, got 2' in answers[4]["error"]["msg"]
    assert "it is negative" in answers[6]["error"]["msg"]
    assert batched.log.read_text().count(f"asked negative-{transport}\n") == 1, "a refusal is not asked again"


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_busy_server_is_retried(batched: Running, tmp_path: Path, transport: str) -> None:
    work = Work(tmp_path, [fp32(101, id=f"busy-{transport}"), fp32(1)])
    ran = work.run("picky", address(batched, transport), "-t", transport, "-v")
    assert ran.returncode == 0, ran.stderr
    assert "retrying in" in ran.stderr
    assert batched.log.read_text().count(f"asked busy-{transport}\n") == 2
    work = Work(tmp_path, [fp32(101, id=f"never-{transport}")])
    ran = work.run("picky", address(batched, transport), "-t", transport, "--retries", "0")
    assert ran.returncode == 1
    assert "busy" in work.answers()[0]["error"]["msg"]


def test_compatible_lines_are_batched(batched: Running, tmp_path: Path) -> None:
    batched.log.write_text("")
    work = Work(tmp_path, [fp32(1), fp32(2, 3), {"inputs": [tensor("y", "FP32", [4])]}, fp32(5)])
    assert work.run("double", batched.url, "-s", "4", "-w", "1").returncode == 0
    rows = [line for line in batched.log.read_text().splitlines() if line.startswith("rows")]
    assert rows == ["rows 4", "rows 1"]
    assert [answer["outputs"][0]["data"] for _, answer in sorted(work.answers().items())] == [
        [2],
        [4, 6],
        [8],
        [10],
    ]


def test_bad_line_fails_alone_in_its_batch(batched: Running, tmp_path: Path) -> None:
    work = Work(tmp_path, [fp32(-1), fp32(1), fp32(2)])
    assert work.run("picky", batched.url, "-s", "3").returncode == 1
    assert ["error" in answer for _, answer in sorted(work.answers().items())] == [True, False, False]


def test_model_without_row_results_is_called_per_line(batched: Running, tmp_path: Path) -> None:
    work = Work(tmp_path, [fp32(1), fp32(2), fp32(3), fp32(4)])
    ran = work.run("total", batched.url, "-s", "2")
    assert ran.returncode == 0, ran.stderr
    assert "no lines are merged" in ran.stderr
    assert [answer["outputs"][0]["data"] for _, answer in sorted(work.answers().items())] == [
        [1],
        [2],
        [3],
        [4],
    ]


@pytest.mark.parametrize("transport", ["rest", "grpc"])
@pytest.mark.parametrize("prefix", ["INFERSTREAM_INFER", "MLSERVER_INFER"])
def test_variables_replace_flags_and_headers_are_sent(
    batched: Running, tmp_path: Path, prefix: str, transport: str
) -> None:
    work = Work(tmp_path, [fp32(1, id=f"{prefix}-{transport}")])
    variables = {
        "URL": address(batched, transport).removeprefix("http://"),
        "MODEL_NAME": "double",
        "INPUT_DATA_PATH": str(work.input),
        "OUTPUT_DATA_PATH": str(work.output),
        "TRANSPORT": transport,
        "REQUEST_HEADERS": "X-Mine:yes X-Other:no",
        "CONNECTION_TIMEOUT": "20",
        "VERBOSE": "true",
        "WORKERS": "2",
    }
    ran = subprocess.run(
        [*SERVER, "infer"],
        env={**os.environ, **{f"{prefix}_{name}": value for name, value in variables.items()}},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    name = f"{prefix}-{transport}"
    assert batched.noted(f"headers {name} {name} yes")


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_ctrl_c_loses_nothing_and_resume_finishes(batched: Running, tmp_path: Path, transport: str) -> None:
    work = Work(tmp_path, [fp32(i % 100) for i in range(120)])
    process = work.start("slow", address(batched, transport), "-t", transport, "-w", "2")
    eventually(lambda: work.lines() >= 3, 30)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130, said
    assert "--resume" in said
    assert "Traceback" not in said
    before = work.answers()
    assert 3 <= len(before) < 120
    ran = work.run("slow", address(batched, transport), "-t", transport, "-w", "20", "--resume")
    assert ran.returncode == 0, ran.stderr
    assert f"{len(before)} answered before" in ran.stderr
    after = work.answers()
    assert sorted(after) == list(range(120))
    assert all(after[i] == answer for i, answer in before.items())


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_server_crash_ends_run_and_resume_finishes(tmp_path: Path, transport: str) -> None:
    folder = write_models(tmp_path / "models")
    work = Work(tmp_path, [fp32(i % 100) for i in range(200)])
    dying = Running(folder)
    process = work.start("slow", address(dying, transport), "-t", transport, "-w", "4", "-r", "1")
    eventually(lambda: work.lines() >= 5, 30)
    dying.process.kill()
    dying.process.wait(30)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert "cannot be reached any more" in said
    answers = work.answers()
    assert 5 <= sum("error" not in answer for answer in answers.values()) < 200
    assert len(answers) < 200, "the rest of the file is not burnt on a server that is gone"
    successor = Running(folder)
    try:
        ran = work.run("slow", address(successor, transport), "-t", transport, "-w", "20", "--resume")
    finally:
        successor.stop()
    assert ran.returncode == 0, ran.stderr
    finished = work.answers()
    assert sorted(finished) == list(range(200))
    assert not any("error" in answer for answer in finished.values())


def test_full_disk_ends_run_after_complete_line(batched: Running, tmp_path: Path) -> None:
    work = Work(tmp_path, [fp32(i) for i in range(50)])
    limited = ["sh", "-c", 'ulimit -f 2; exec "$@"', "sh", *work.command("double", batched.url)]
    ran = subprocess.run(limited, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert f"error: {work.output}: File too large" in ran.stderr
    assert 0 < len(work.answers()) < 50
    assert work.run("double", batched.url, "--resume").returncode == 0
    assert sorted(work.answers()) == list(range(50))


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_unreachable_server_is_reported_at_once(tmp_path: Path, transport: str) -> None:
    work = Work(tmp_path, [fp32(1) for _ in range(100)])
    ran = work.run("any", "127.0.0.1:1", "-t", transport, "-r", "1", "-w", "2")
    assert ran.returncode == 1
    assert "127.0.0.1:1 cannot be reached any more: " in ran.stderr
    assert "connect" in ran.stderr
    assert len(work.answers()) <= 4


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["-H", "nonsense"], "Name: value"),
        (["-i", "/nowhere"], "is not a file"),
        (["-o", "/nowhere/x"], "No such file"),
        (["-w", "0"], "Invalid value"),
        (["-t", "carrier-pigeon"], "Invalid value"),
    ],
)
def test_invalid_flags_are_reported_before_first_request(tmp_path: Path, flags: list[str], said: str) -> None:
    _, _, *command = Work(tmp_path, [fp32(1)]).command("any", "127.0.0.1:1", *flags)[1:]
    ran = CliRunner().invoke(app, command)
    assert ran.exit_code in (1, 2)
    assert isinstance(ran.exception, SystemExit)
    assert said in ran.stderr


def test_output_must_differ_from_input(tmp_path: Path) -> None:
    work = Work(tmp_path, [fp32(1)])
    work.output.symlink_to(work.input)
    ran = work.run("any", "127.0.0.1:1")
    assert ran.returncode == 1
    assert work.input.read_text() == json.dumps(fp32(1)) + "\n"
