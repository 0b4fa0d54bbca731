"""Each case on a connection of its own, against the gRPC port of a server."""

import json
from collections.abc import Iterator

import pytest

from tests.serving import Running, write_model

from .case import Case
from .cases import CASES
from .conversation import Conversation

STREAMS = 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("conformance") / "models"
    write_model(folder, "echo", "faulty_models.Echo", name="echo")
    limits = {"_custom_grpc_server_settings": {"grpc.max_concurrent_streams": STREAMS}}
    (folder / "settings.json").write_text(json.dumps(limits))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def name(case: Case) -> str:
    return f"{case.section} {case.what}"


def test_the_table_has_every_case_once() -> None:
    names = [name(case) for case in CASES]
    assert len(names) == len(set(names))
    assert len(names) >= 200


@pytest.mark.parametrize("case", CASES, ids=name)
def test_conformance(server: Running, case: Case) -> None:
    with Conversation(("127.0.0.1", server.grpc_port)) as conversation:
        case.run(conversation)
