"""Files of weights that a client names or sends. Those of the model folder are trusted, as its code is."""

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import RepositoryModelLoadRequest
from tests.cve.audited import Audited, Target
from tests.grpc_web import SERVICE, call

CVES = ("CVE-2026-53923",)


@pytest.fixture
def target():
    made = Target()
    yield made
    made.close()


@pytest.mark.parametrize(
    "scheme", ["http://{}/m.gguf", "file:///etc/passwd", "s3://{}/m", "hf://{}/m", "../../m.gguf"]
)
def test_client_cannot_name_loaded_files(watched: Audited, target: Target, scheme: str) -> None:
    uri = scheme.format(target.address)
    for parameters in (
        {"uri": uri},
        {"config": f'{{"parameters": {{"uri": "{uri}"}}}}'},
        {"file:1/model.gguf": "R0dVRg=="},
    ):
        body = {"parameters": parameters, "model_name": uri, "uri": uri}
        for path in (
            "/v2/repository/models/echo/load",
            f"/v2/repository/models/{uri.replace('/', '%2f')}/load",
        ):
            assert httpx.post(f"{watched.url}{path}", json=body, timeout=20).status_code in (400, 404)
    sent = RepositoryModelLoadRequest(model_name=uri).SerializeToString()
    with grpc.insecure_channel(watched.grpc) as channel:
        for service in (SERVICE, "inference.model_repository.ModelRepositoryService"):
            with pytest.raises(grpc.RpcError) as failed:
                channel.unary_unary(f"/{service}/RepositoryModelLoad")(sent, timeout=20)
            assert failed.value.code().name in ("NOT_FOUND", "INVALID_ARGUMENT", "UNIMPLEMENTED")
    assert call(watched.url, "RepositoryModelLoad", sent).status in (3, 5)
    assert target.reached == 0
    assert watched.done("socket.", "urllib.") == []
