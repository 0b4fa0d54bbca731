"""The agent of Seldon Core v2, a container in the pod of the server, manages the models that it has downloaded."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, fp32, write_model

CHART = {
    "MLSERVER_HOST": "0.0.0.0",
    "MLSERVER_LOAD_MODELS_AT_STARTUP": "false",
    "MLSERVER_PARALLEL_WORKERS": "0",
    "MLSERVER_TRACING_SERVER": "127.0.0.1:4317",
}
"""Variables of the chart, or of the image (host)."""

CLOSED = "The repository API is closed"


def load(server: Running, name: str, **metadata: str) -> grpc.StatusCode:
    """Ask for the index and load a model, as the agent does. Returns the first status that is not OK."""
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        try:
            stub.RepositoryIndex(pb.RepositoryIndexRequest(), timeout=20, metadata=(*metadata.items(),))
            request = pb.RepositoryModelLoadRequest(model_name=name)
            stub.RepositoryModelLoad(request, timeout=20, metadata=(*metadata.items(),))
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Running]:
    """A server as the chart starts it, whose folder does not exist yet."""
    running = Running(tmp_path / "models", **CHART)
    yield running
    assert running.stop() == 0, running.text()


def test_agent_loads_models_from_folder_that_it_creates(agent: Running) -> None:
    assert "does not exist yet" in agent.text()
    assert httpx.post(f"{agent.url}/v2/repository/index", json={}).json() == []
    write_model(agent.folder, "echo_1/1", "faulty_models.Echo", name="echo_1", parameters={"version": "1"})
    assert load(agent, "echo_1") is grpc.StatusCode.OK
    assert agent.infer("echo_1", fp32([1.0])).json()["outputs"][0]["data"] == [1.0]
    assert httpx.post(f"{agent.url}/v2/repository/models/echo_1/unload").status_code == 200
    assert agent.infer("echo_1", fp32([1.0])).status_code == 404


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-envoy-decorator-operation"])
def test_clients_behind_proxy_manage_no_models(agent: Running, header: str) -> None:
    write_model(agent.folder, "echo", "faulty_models.Echo", name="echo")
    assert load(agent, "echo", **{header: "for=10.0.0.7"}) is grpc.StatusCode.PERMISSION_DENIED
    refused = httpx.post(f"{agent.url}/v2/repository/models/echo/load", headers={header: "10.0.0.7"})
    assert (refused.status_code, CLOSED in refused.text) == (403, True)


def test_web_pages_manage_no_models(agent: Running) -> None:
    """Neither a page of the server itself, nor one whose domain resolves to this machine."""
    write_model(agent.folder, "echo", "faulty_models.Echo", name="echo")
    for host in (f"127.0.0.1:{agent.http_port}", f"rebound.example:{agent.http_port}"):
        headers = {"Host": host, "Origin": f"http://{host}"}
        refused = httpx.post(f"{agent.url}/v2/repository/models/echo/load", headers=headers)
        assert (refused.status_code, CLOSED in refused.text) == (403, True), refused.text


def test_agent_cannot_read_access_log(agent: Running) -> None:
    assert httpx.get(f"{agent.url}/v2/access").status_code == 403


@pytest.mark.parametrize(
    ("setting", "code"), [(None, grpc.StatusCode.PERMISSION_DENIED), ("local", grpc.StatusCode.OK)]
)
def test_other_servers_need_the_setting(tmp_path: Path, setting: str | None, code: grpc.StatusCode) -> None:
    write_model(tmp_path, "models/echo", "faulty_models.Echo", name="echo")
    variables = {} if setting is None else {"INFERSTREAM_ALLOW_OPEN_REPOSITORY": setting}
    # The image sets the first two variables, and Kubernetes the third, for a Service called mlserver.
    image = {"MLSERVER_HOST": "0.0.0.0", "MLSERVER_MODELS_DIR": "/mnt", "MLSERVER_SERVICE_HOST": "10.0.0.1"}
    server = Running(tmp_path / "models", **image, **variables)
    try:
        assert load(server, "echo") is code
    finally:
        assert server.stop() == 0


def test_variables_of_core_1_describe_the_only_model(tmp_path: Path) -> None:
    """Seldon Core v1 has no settings files: its variables name the model and its folder."""
    write_model(tmp_path, "models", "faulty_models.Echo")
    (tmp_path / "models" / "model-settings.json").unlink()
    server = Running(
        tmp_path / "models",
        MLSERVER_MODEL_NAME="classifier",
        MLSERVER_MODEL_VERSION="v1",
        MLSERVER_MODEL_IMPLEMENTATION="faulty_models.Echo",
        MLSERVER_MODEL_URI=str(tmp_path / "models"),
        MLSERVER_MODEL_EXTRA='{"method": "predict"}',
        MLSERVER_METRICS_ENDPOINT="/prometheus",
    )
    try:
        path = f"{server.url}/v2/models/classifier/versions/v1"
        answer = httpx.post(f"{path}/infer", json=fp32([1.0])).json()
        assert (answer["model_name"], answer["model_version"]) == ("classifier", "v1")
        metrics = httpx.get(f"http://127.0.0.1:{server.metrics_port}/prometheus")
        assert 'model_infer_request_success_total{model="classifier",version="v1"} 1.0' in metrics.text
    finally:
        assert server.stop() == 0


def test_front_ends_know_the_default(tmp_path: Path) -> None:
    write_model(tmp_path, "models/echo", "faulty_models.Echo", name="echo")
    server = Running(tmp_path / "models", "--frontends", "2", **CHART)
    try:
        assert {load(server, "echo") for _ in range(8)} == {grpc.StatusCode.OK}
    finally:
        assert server.stop() == 0


def test_missing_folder_ends_other_starts(tmp_path: Path) -> None:
    server = Running(tmp_path / "models", wait=False, MLSERVER_HOST="127.0.0.1")
    assert server.process.wait(30) == 1
    assert "there is no file or folder" in server.text()
