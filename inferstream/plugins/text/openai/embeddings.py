"""`/v1/embeddings`."""

import base64
from collections.abc import Sequence

import orjson

from inferstream.ext.calls import Admission
from inferstream.ext.http import JSON_HEADER, RawHeaders
from inferstream.types import InferenceResponse

from ..fields import Fields
from ..vectors import VectorsRequest


class EmbeddingRequest(VectorsRequest):
    """A request for embeddings in the OpenAI format."""

    __slots__ = ("_base64",)

    def __init__(self, fields: Fields, admission: Admission, name: str) -> None:
        """Parse a request. Raises InvalidRequest naming the invalid field."""
        super().__init__(admission, name, fields, "input")
        self._base64 = fields.choice("encoding_format", ("float", "base64")) == "base64"

    def written(self, responses: Sequence[InferenceResponse]) -> tuple[RawHeaders, bytes]:
        vectors, tokens = self.vectors(responses)
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()
                if self._base64
                else vector,
            }
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        document = {"object": "list", "data": data, "model": self._name, "usage": usage}
        return [JSON_HEADER], orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
