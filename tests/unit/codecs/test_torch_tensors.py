"""Tensors of torch as results, in objects, and for codecs: as arrays, whatever their layout and gradients."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inferstream import App, testing
from inferstream.codecs import NumpyCodec
from inferstream.errors import CallFailed, CodecError
from inferstream.types import ResponseOutput

torch = pytest.importorskip("torch")

TENSORS: dict[str, tuple[Any, Any]] = {
    "floats": (lambda: torch.tensor([1.5, 2]), [1.5, 2]),
    "bfloat16": (lambda: torch.tensor([1.5, 2], dtype=torch.bfloat16), [1.5, 2]),
    "gradients": (lambda: torch.tensor([1.5, 2], requires_grad=True), [1.5, 2]),
    "of a layer": (lambda: torch.nn.Linear(2, 1, bias=False)(torch.zeros(1, 2)), [[0]]),
    "a parameter": (lambda: torch.nn.Parameter(torch.ones(2)), [1, 1]),
    "not contiguous": (lambda: torch.arange(4.0).reshape(2, 2).T, [[0, 2], [1, 3]]),
    "negated": (lambda: torch.tensor([1 + 2j]).conj().imag, [-2]),
    "expanded": (lambda: torch.ones(1).expand(3), [1, 1, 1]),
    "one value": (lambda: torch.tensor(2.5), 2.5),
}
WITHOUT_VALUES = {
    "sparse": lambda: torch.eye(2).to_sparse(),
    "meta": lambda: torch.ones(1, device="meta"),
}


@pytest.mark.parametrize("name", TENSORS)
async def test_tensors_are_accepted_as_results(name: str) -> None:
    make, right = TENSORS[name]
    app = App()

    @app.model
    def array() -> NDArray[np.float32]:
        return make()

    @app.model
    def anything() -> dict[str, Any]:
        return {"a": make()}

    @app.model
    def number() -> float:
        return make().sum()

    async with testing.run(app) as t:
        assert np.asarray(await t.predict("array")).tolist() == right
        assert await t.predict("anything") == {"a": right}
        assert await t.predict("number") == np.sum(right)


@pytest.mark.parametrize("name", TENSORS)
def test_codecs_accept_tensors(name: str) -> None:
    make, right = TENSORS[name]
    assert NumpyCodec.can_encode(make())
    flat = np.ravel(right).tolist()
    encoded = NumpyCodec.encode_output("o", make())
    assert (encoded.datatype, encoded.data.flat()) == ("FP32", flat)
    direct = ResponseOutput(name="o", datatype="FP32", shape=list(np.shape(right)), data=make())
    assert direct.data.to_numpy("FP32").ravel().tolist() == flat


@pytest.mark.parametrize("name", WITHOUT_VALUES)
def test_meta_tensor_is_named(name: str) -> None:
    with pytest.raises(CodecError, match='output "o"'):
        NumpyCodec.encode_output("o", WITHOUT_VALUES[name]())


@pytest.mark.parametrize("name", WITHOUT_VALUES)
async def test_meta_tensor_inside_an_object_is_named(name: str) -> None:
    app = App()

    @app.model
    def anything() -> dict[str, Any]:
        return {"a": WITHOUT_VALUES[name]()}

    async with testing.run(app) as t:
        with pytest.raises(CallFailed, match='output "output": cannot be written as JSON'):
            await t.predict("anything")
