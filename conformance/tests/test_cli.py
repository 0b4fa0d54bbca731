"""The command: what it prints, and with which code it exits."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from oip_conformance.cli import main
from serving import addresses


def _exit(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert isinstance(exit.value.code, int)
    return exit.value.code


def test_passed_cases_exit_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with addresses() as (url, grpc):
        assert _exit(url, "--grpc", grpc, "-k", "health.", "-k", "rpc_core.") == 0
    assert capsys.readouterr().out.endswith("passed, 0 failed, 0 skipped\n")


def test_difference_exits_with_1_and_prints_rule_and_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with addresses("id-changed") as (url, _):
        assert _exit(url, "-k", "inference.id_comes_back") == 1
    printed = capsys.readouterr().out
    assert "FAILED inference.id_comes_back: `id`: expected 'case-42', got 'x'" in printed
    assert "The identifier of a request is returned in the response." in printed
    assert "inference_rest.md#inference-request-json-object" in printed


def test_json_and_junit_reports_agree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with addresses("id-changed") as (url, _):
        junit = tmp_path / "results.xml"
        assert _exit(url, "--json", "--junit", str(junit), "-k", "id_comes_back", "-k", "id_is_optional") == 1
    document = json.loads(capsys.readouterr().out)
    skipped = "no address of gRPC was given (--grpc)"
    assert document == {
        "schema": "inferstream.oip-conformance/1",
        "passed": 1,
        "failed": 1,
        "skipped": [{"name": "rpc_inference.id_comes_back", "reason": skipped}],
        "cases": [
            {
                "name": "inference.id_comes_back",
                "status": "failed",
                "detail": "`id`: expected 'case-42', got 'x'",
            },
            {"name": "inference.id_is_optional", "status": "passed", "detail": ""},
            {"name": "rpc_inference.id_comes_back", "status": "skipped", "detail": skipped},
        ],
    }
    suite = ElementTree.parse(junit).getroot()
    assert {key: suite.get(key) for key in ("tests", "failures", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "skipped": "1",
    }
    marks = [(case.get("classname"), [child.tag for child in case]) for case in suite]
    assert marks == [("inference", ["failure"]), ("inference", []), ("rpc_inference", ["skipped"])]


def test_models_with_other_names_get_their_role(capsys: pytest.CaptureFixture[str]) -> None:
    with addresses() as (url, _):
        assert _exit(url, "--model", "identity=oip-stream", "-k", "health.model_ready_names_the_model") == 0
        assert _exit(url, "--model", "identity=elsewhere", "-k", "health.model_ready_names_the_model") == 1


def test_unreachable_server_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit("http://127.0.0.1:1") == 1
    assert "no response" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["localhost:8080"], ["http://x", "--no-such"], ["http://x", "-k", "none"]]
)
def test_a_wrong_flag_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit(*arguments) == 2


@pytest.mark.parametrize("server", ["inferstream", "mlserver", "kserve"])
def test_models_are_written_for_each_server(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "models"
    assert _exit("--models-for", server, str(folder)) == 0
    assert str(folder) in capsys.readouterr().out
    assert list(folder.glob("**/*.py"))
    assert _exit("--models-for", server, str(folder)) == 1
