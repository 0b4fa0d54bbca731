"""Embedding requests."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import orjson

from inferstream.ext.calls import Admission
from inferstream.ext.http import UnaryRequest
from inferstream.types import InferenceResponse, ResponseOutput

from .fields import Fields, wrong_field
from .generation import RESERVED, read_texts
from .interface import FLOATS, UNDECLARED
from .text_models import find_text_interface
from .token_counts import count_prompt_tokens

MAX_TEXTS = 2048

DECLARATION = (
    'a model of embeddings declares what it takes and returns, in model-settings.json as "inputs": [{"name": '
    '"text", "datatype": "BYTES", "shape": [-1]}], "outputs": [{"name": "embedding", "datatype": "FP32", '
    '"shape": [-1, -1]}] with the names that it uses'
)
"""Advice in errors, for authors of models that were written for a server without this route."""

KNOWN = RESERVED | {"model", "input", "encoding_format", "dimensions", "user", "options"}


class VectorsRequest(UnaryRequest):
    """A request for text embeddings.

    All texts are sent in one model request, or in one request each if the model takes a single string.
    """

    __slots__ = ("_dimensions", "_name")

    def __init__(
        self, admission: Admission, name: str, fields: Fields, texts_field: str, known: frozenset[str] = KNOWN
    ) -> None:
        """Read a request. Fields that are not in `known` become parameters. Raises InvalidRequest."""
        interface = find_text_interface(admission)
        if interface is None:
            raise wrong_field("model", f"{name} does not take text and return vectors; {DECLARATION}")
        if not interface.embeds:
            advice = f"; {DECLARATION}" if interface.prompt is UNDECLARED else ""
            raise wrong_field("model", f"{name} returns texts, not vectors{advice}")
        texts, parameters = read_texts(fields, texts_field, interface, MAX_TEXTS)
        self._name = name
        self._dimensions = fields.integer("dimensions", 1) or 0
        single = interface.prompt is not None and interface.prompt.shape[:1] == [1]
        parts = [[text] for text in texts] if single else [texts]
        options = fields.object("options") or Fields({})  # the name of the field in Ollama
        parameters |= options.other_parameters(known) | fields.other_parameters(known)
        super().__init__(admission, [interface.build_request(part, {}, parameters) for part in parts])

    def vectors(self, responses: Sequence[InferenceResponse]) -> tuple[list[npt.NDArray[np.float32]], int]:
        """Return the embedding of each text, and the number of tokens that the models reported."""
        vectors: list[npt.NDArray[np.float32]] = []
        for request, response in zip(self.requests, responses, strict=True):
            vectors.extend(self._vectors(response, len(request.inputs[0].data.flat())))
        return vectors, count_prompt_tokens(responses)

    def _vectors(self, response: InferenceResponse, count: int) -> npt.NDArray[np.float32]:
        """Return a matrix with one row per text."""
        array = next((floats for each in response.outputs if (floats := _floats(each)) is not None), None)
        if array is None or len(array) != count or not array.size:
            raise self.wrong_output(f"Model {self._name} answered no vector for each of {count} texts")
        if not np.isfinite(array).all():
            raise self.wrong_output(f"Model {self._name} answered a vector that is not finite")
        vectors = np.ascontiguousarray(array.reshape(count, -1))
        if not self._dimensions:
            return vectors
        if self._dimensions > vectors.shape[1]:
            raise wrong_field("dimensions", f"must be at most {vectors.shape[1]}, got {self._dimensions}")
        cut = vectors[:, : self._dimensions]
        norms = np.linalg.norm(cut, axis=1, keepdims=True)
        return np.ascontiguousarray(cut / np.where(norms > 0, norms, 1))


def _floats(tensor: ResponseOutput) -> npt.NDArray[np.float32] | None:
    """Return the rows of a float output or of JSON lists, or None for other outputs."""
    if tensor.datatype in FLOATS and tensor.shape:
        return np.atleast_2d(tensor.data.to_numpy(tensor.datatype, tensor.shape).astype(np.float32))
    if tensor.parameters is None or tensor.parameters.content_type != "json":
        return None
    try:
        vectors = np.array([orjson.loads(each) for each in tensor.data.flat()], np.float32)
        return vectors[0] if vectors.ndim == 3 and len(vectors) == 1 else vectors
    except (ValueError, TypeError):  # includes vectors of different lengths
        return None
