"""What plug-ins add to a model object, and what they make of the outputs that a client asks for."""

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from inferstream import MLModel, ModelSettings
from inferstream.dataplane.execution.local import Local
from inferstream.extensions import discovery
from inferstream.extensions.entries import ADAPTERS, OUTPUTS, Plugin
from inferstream.types import InferenceRequest, InferenceResponse, RequestOutput, ResponseOutput


def output(value: int) -> ResponseOutput:
    return ResponseOutput(name="y", shape=[1], datatype="INT64", data=[value])


class Two(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return InferenceResponse(model_name=self.name, outputs=[output(2)])


def add_shout(model: MLModel) -> bool:
    model.shout = True
    return True


@pytest.fixture(autouse=True)
def brought(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets the package `other` bring an adapter that adds, one that does not, and a rewriter of outputs."""
    module = ModuleType("brought_adapters")
    negate = lambda settings: lambda outputs, wanted: [output(-2)]  # noqa: E731
    vars(module).update(shout=add_shout, whisper=lambda model: False, negate=negate)
    monkeypatch.setitem(sys.modules, "brought_adapters", module)
    entries = tuple(
        Plugin("other", group, name, f"brought_adapters:{name}", "other")
        for group, name in ((ADAPTERS, "shout"), (ADAPTERS, "whisper"), (OUTPUTS, "negate"))
    )
    monkeypatch.setattr(discovery, "list_entries", lambda: entries)
    discovery.plugins.cache_clear()
    yield
    discovery.plugins.cache_clear()


def test_adapter_extends_the_model_and_is_listed_in_capabilities() -> None:
    model = Two(ModelSettings(implementation=Two, name="m"))
    assert Local(model).capabilities.adapted == {"shout"}
    assert model.shout


@pytest.mark.parametrize(("wanted", "value"), [(None, 2), ([RequestOutput(name="y")], -2)])
async def test_outputs_are_rewritten_if_requested(wanted, value) -> None:
    model = Two(ModelSettings(implementation=Two, name="m"))
    request = InferenceRequest(inputs=[], outputs=wanted)
    response = Local(model)._finish(await model.predict(request), request)
    assert response.outputs[0].data.flat() == [value]
