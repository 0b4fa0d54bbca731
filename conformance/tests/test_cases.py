"""Each case is passed by the reference server, and failed by one that is wrong in what the case is about."""

import tomllib
from pathlib import Path

from oip_conformance import cases
from oip_conformance.case import CASES
from oip_conformance.report import Result, run
from oip_conformance.sentences import sentences
from serving import reference

PLANTED: dict[str, list[str]] = tomllib.loads((Path(__file__).parent / "planted.toml").read_text())

assert cases.__all__


def test_reference_server_passes_every_case() -> None:
    with reference() as server:
        results = run(CASES, server)
    assert [result for result in results if result.status != "passed"] == []
    assert results == [Result(case.name, case.function, "passed") for case in CASES]


def test_faulty_server_fails_its_case() -> None:
    failed: set[str] = set()
    for mutation, functions in PLANTED.items():
        with reference(mutation) as server:
            results = run([case for case in CASES if case.function in functions], server)
        differences = [result for result in results if result.status == "failed"]
        assert {result.function for result in differences} == set(functions), mutation
        failed |= {result.name for result in differences if "could not be read" not in result.detail}
    assert [case.name for case in CASES if case.name not in failed] == []


def test_each_rule_has_cases_or_a_reason() -> None:
    named = {name for sentence in sentences() for name in sentence.cases}
    assert named == {case.function for case in CASES}
    assert [sentence.id for sentence in sentences() if bool(sentence.cases) == bool(sentence.untested)] == []
    ids = [sentence.id for sentence in sentences()]
    assert len(ids) == len(set(ids))
    assert all(sentence.source.startswith("https://") for sentence in sentences())
