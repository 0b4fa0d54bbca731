"""Every route answers byte for byte what was recorded; `python -m tests.wire.record` records anew."""

import base64
import difflib
import json
import re
from pathlib import Path

import pytest

from .corpus import FACES, SETUPS, Responses, ask, read

PROTO = Path(__file__).parents[2] / "inferstream" / "protos" / "dataplane.proto"
BASE64 = re.compile(r'\{\s*"base64": "([^"]*)"\s*\}')


@pytest.mark.parametrize("name", SETUPS)
def test_wire_format_matches_the_recording(name: str, tmp_path: Path) -> None:
    setup = SETUPS[name]
    found = ask(setup, tmp_path / "models")
    differences: list[str] = []
    for face, file in setup.faces.items():
        recorded = read(file)
        if setup.without:
            asked = {case.name for case in setup.cases(face)}
            recorded = {name: response for name, response in recorded.items() if name in asked}
        differences += _differences(file, recorded, found[file])
    assert not differences, "\n".join(differences)


def test_case_names_are_unique() -> None:
    for cases in FACES.values():
        names = [case.name for case in cases]
        assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


def test_every_rpc_is_called() -> None:
    declared = set(re.findall(r"^  rpc (\w+)", PROTO.read_text(), re.M))
    assert declared
    assert declared <= {case.method for case in FACES["grpc"]}


def test_every_documented_route_is_requested() -> None:
    documented = read("resources")["document"]["body"]["paths"]
    cases = (*FACES["inference"], *FACES["streams"], *FACES["resources"], *FACES["texts"])
    asked = {request.partition(b" HTTP/")[0].decode("latin-1") for case in cases for request in case.requests}
    for path, methods in documented.items():
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))
        for method in methods:
            assert any(re.fullmatch(f"{method.upper()} {pattern}", target) for target in asked), path


def _differences(file: str, recorded: Responses, found: Responses) -> list[str]:
    lines = []
    for name in recorded | found:
        before, after = _shown(recorded.get(name)), _shown(found.get(name))
        if before != after:
            lines.append(f"{file}: {name}")
            lines += difflib.unified_diff(before, after, "recorded", "found", lineterm="")
    return lines


def _shown(response: object) -> list[str]:
    """A response in lines, base64 as the bytes it stands for."""
    text = json.dumps(response, indent=1)
    return BASE64.sub(lambda found: repr(base64.b64decode(found[1])), text).splitlines()
