"""`/v1/embeddings`."""

import base64
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt
import orjson

from .....dataplane.admission import Admission
from .....dataplane.call import Operation, new_id
from .....errors import InferstreamError, InvalidOutput
from .....text.fields import Fields, wrong_field
from .....text.generation import RESERVED
from .....text.interface import FLOATS, TextInterface
from .....types import InferenceRequest, InferenceResponse
from ...messages import JSON, RawHeaders
from ..base import ParsedRequest

MOST_TEXTS = 2048

KNOWN = RESERVED | {"model", "input", "encoding_format", "dimensions", "user"}


class EmbeddingRequest(ParsedRequest):
    """Texts, for each of which the client wants a vector."""

    __slots__ = ("_base64", "_count", "_dimensions", "_name")

    operation = Operation.INFER
    compressible = True

    def __init__(
        self,
        admission: Admission,
        request: InferenceRequest,
        name: str,
        count: int,
        encoded: bool,
        dimensions: int,
    ) -> None:
        self.admission = admission
        self.request = request
        self._name = name
        self._count = count
        self._base64 = encoded
        self._dimensions = dimensions

    @classmethod
    def read(cls, fields: Fields, admission: Admission, interface: TextInterface, name: str) -> Self:
        """Read a request. Raises InvalidRequest that names the wrong field."""
        if not interface.embeds:
            raise wrong_field("model", f"{name} returns texts, not vectors")
        texts = _texts(fields)
        encoded = fields.choice("encoding_format", ("float", "base64")) == "base64"
        dimensions = fields.integer("dimensions", 1) or 0
        request = interface.request(texts, {}, fields.scalars(KNOWN))
        request.__dict__["id"] = new_id()
        return cls(admission, request, name, len(texts), encoded, dimensions)

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        vectors = self._vectors(response)
        data = [
            {"object": "embedding", "index": index, "embedding": self._written(vector)}
            for index, vector in enumerate(vectors)
        ]
        parameters = response.parameters
        tokens = 0 if parameters is None else int(parameters.get("prompt_tokens", 0))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        document = {"object": "list", "data": data, "model": self._name, "usage": usage}
        return [JSON], orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)

    def _vectors(self, response: InferenceResponse) -> npt.NDArray[np.float32]:
        """A matrix with one row for each text."""
        tensor = next((each for each in response.outputs if each.datatype in FLOATS), None)
        if tensor is None or not tensor.shape or tensor.data.to_numpy(tensor.datatype).size % self._count:
            raise InvalidOutput(f"Model {self._name} answered no vector for each of {self._count} texts.")
        array = tensor.data.to_numpy(tensor.datatype).astype(np.float32)
        vectors = np.ascontiguousarray(array.reshape(self._count, -1))
        if not self._dimensions:
            return vectors
        if self._dimensions > vectors.shape[1]:
            raise wrong_field("dimensions", f"must be at most {vectors.shape[1]}, got {self._dimensions}")
        cut = vectors[:, : self._dimensions]
        norms = np.linalg.norm(cut, axis=1, keepdims=True)
        return np.ascontiguousarray(cut / np.where(norms > 0, norms, 1))

    def _written(self, vector: npt.NDArray[np.float32]) -> Any:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode() if self._base64 else vector

    def events(self) -> NoReturn:
        """Vectors are not streamed."""
        raise NotImplementedError

    def failure(self, error: InferstreamError) -> NoReturn:
        """Vectors are not streamed."""
        raise NotImplementedError


def _texts(fields: Fields) -> list[str]:
    found = fields.get("input")
    if found is None:
        raise fields.wrong("input", "is missing")
    texts = [found] if isinstance(found, str) else found
    if not isinstance(texts, list) or not texts:
        raise fields.wrong("input", "must be a string or a list of strings")
    if len(texts) > MOST_TEXTS:
        raise fields.wrong("input", f"holds {len(texts)} texts, at most {MOST_TEXTS} are allowed")
    if not all(isinstance(each, str) for each in texts):
        raise fields.wrong("input", "must hold strings; token ids are not taken")
    return texts
