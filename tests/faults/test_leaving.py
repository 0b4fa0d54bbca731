"""Clients that leave while a model loads or unloads, and models that end badly as they go."""

import shutil

import grpc
import httpx

from inferstream.protos.dataplane_pb2 import RepositoryModelLoadRequest, RepositoryModelUnloadRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.engines import EVERY_ENGINE
from tests.serving import Running, eventually, write_model

LEAVING = """
import asyncio
from faulty_models import note
from inferstream import MLModel
class Lingers(MLModel):
    async def load(self):
        note("loading")
        await asyncio.sleep(self.settings.parameters.seconds)
    async def unload(self):
        note("unloading")
        await asyncio.sleep(1)
        note("unloaded")
class Exits(MLModel):
    def unload(self):
        raise SystemExit(3)
"""


def write_leaving(folder, name: str, implementation: str, seconds: float = 0) -> None:
    at = write_model(
        folder, name, f"leaving.{implementation}", LEAVING, name=name, parameters={"seconds": seconds}
    )
    write_model(folder, "echo", "faulty_models.Echo")
    shutil.copy(folder / "echo" / "faulty_models.py", at)


def state(server: Running) -> str:
    items = httpx.post(f"{server.url}/v2/repository/index", timeout=10).json()
    return next(item["state"] for item in items if item["name"] == "lingers")


def leave(server: Running, action: str, message, when: str) -> None:
    """Ask over gRPC, and cancel once the model has left the line `when`."""
    with grpc.insecure_channel(server.grpc) as channel:
        call = getattr(GRPCInferenceServiceStub(channel), action).future(message)
        eventually(lambda: server.noted(when))
        call.cancel()


@EVERY_ENGINE
def test_unload_finishes_after_client_disconnects(serve, tmp_path) -> None:
    folder = tmp_path / "models"
    write_leaving(folder, "lingers", "Lingers")
    server = serve(folder)

    leave(server, "RepositoryModelUnload", RepositoryModelUnloadRequest(model_name="lingers"), "unloading")

    eventually(lambda: server.noted("unloaded"))
    assert state(server) == "UNAVAILABLE"
    server.probe()


@EVERY_ENGINE
def test_abandoned_load_does_not_stay_in_progress(serve, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    server = serve(folder)
    write_leaving(folder, "lingers", "Lingers", seconds=60)

    leave(server, "RepositoryModelLoad", RepositoryModelLoadRequest(model_name="lingers"), "loading")

    eventually(lambda: state(server) == "UNAVAILABLE")
    server.probe()


def test_model_exit_during_unload_is_isolated(serve, tmp_path) -> None:
    folder = tmp_path / "models"
    write_leaving(folder, "exits", "Exits")
    server = serve(folder)

    assert httpx.post(f"{server.url}/v2/repository/models/exits/unload", timeout=20).status_code == 200

    server.probe()
