"""Document ranking: the `rerank` routes of Cohere, Jina and TEI, and the `score` route of vLLM.

A ranking model takes a query and documents and returns a score for each document:
`(query: str, documents: list[str]) -> list[float]`.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from time import time
from typing import Any, NamedTuple

import orjson

from inferstream.errors import InferstreamError, InvalidRequest
from inferstream.ext.calls import Admission, Caller, Operation
from inferstream.ext.http import JSON_HEADER, Exchange, RawHeaders, Route, UnaryRequest, describe_post
from inferstream.ext.runtimes import Signature
from inferstream.ext.values import OPTIONAL, parameter_of
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    TensorData,
)

from .fields import Fields
from .generation import RESERVED
from .interface import FLOATS, holds_text
from .schemas import OBJECT_OR_LIST, STRING, STRINGS, object_schema
from .text_dialect import TextDialect, ensure_id
from .tgi.errors import TYPES
from .token_counts import count_prompt_tokens

RERANKS = ("/rerank", "/v1/rerank", "/v2/rerank", "/openai/v1/rerank")
SCORES = ("/score", "/v1/score")

MAX_DOCUMENTS = 2048

KNOWN = RESERVED | {
    *("model", "query", "documents", "texts", "text_1", "text_2", "top_n", "return_documents", "return_text"),
    *("max_tokens_per_doc", "max_chunks_per_doc", "encoding_format", "user"),
}
"""Fields that never become parameters of the model request."""

DECLARATION = "(query: str, documents: list[str]) -> list[float], or declares such inputs and outputs"


class Rerank(TextDialect):
    """Ranks documents by relevance, and scores pairs of strings."""

    name = "rerank"
    title = "Rerank"
    inferences = dict.fromkeys((*RERANKS, *SCORES), Operation.INFER)

    def described(self) -> Mapping[str, Any]:
        documents = {"model": STRING, "query": STRING, "documents": STRINGS}
        pair = {"model": STRING, "text_1": STRING, "text_2": STRINGS}
        example = {"model": "model", "query": "text", "documents": ["text"]}
        rerank = describe_post(
            "Documents ranked by relevance",
            object_schema((*documents,), **documents),
            example,
            None,
            OBJECT_OR_LIST,
        )
        score = describe_post(
            "Scores for text pairs",
            object_schema((*pair,), **pair),
            {"model": "model", "text_1": "text", "text_2": ["text"]},
            None,
        )
        return dict.fromkeys(RERANKS, rerank) | dict.fromkeys(SCORES, score)

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> UnaryRequest:
        fields = Fields.read(body)
        does = "rank", "ranks"
        name, admission, ranking = self._admit_fitting(fields, caller, find_ranking, does, DECLARATION)
        if route.template in SCORES:
            return ScoreRequest(admission, name, ranking, fields)
        if ("texts" in fields.names()) == ("documents" in fields.names()):
            raise InvalidRequest("The body needs documents, as for Cohere and Jina, or texts, as for TEI.")
        if "texts" in fields.names():
            return TeiRequest(admission, name, ranking, fields)
        return RerankRequest(admission, name, ranking, fields)

    def error_object(self, error: InferstreamError) -> dict[str, Any]:
        """Return one object for all clients.

        Cohere clients read `message`. TEI clients read `error` and `error_type`.
        """
        kind = TYPES.get(error.code, "backend")
        return {"message": error.message, "error": error.message, "error_type": kind}


class Ranking(NamedTuple):
    """The inputs of a ranking model."""

    query: MetadataTensor
    documents: MetadataTensor

    def build_request(
        self, query: str, documents: Sequence[str], parameters: dict[str, Any]
    ) -> InferenceRequest:
        """Build the request that scores these documents."""
        inputs = [_tensor(self.query, [query]), _tensor(self.documents, documents)]
        return InferenceRequest.of(inputs, None, Parameters.of({**parameters}))


def find_ranking(signature: Signature) -> Ranking | None:
    """Return the inputs of a ranking model, or None for other models.

    A ranking model requires a single string and a list of strings, and returns floats.
    """
    inputs, outputs = signature.inputs or (), signature.outputs or ()
    needed = [tensor for tensor in inputs if not parameter_of(tensor, OPTIONAL)]
    if len(needed) != 2 or not outputs or not all(map(holds_text, needed)):
        return None
    query, documents = needed
    if query.shape[:1] != [1] or documents.shape[:1] != [-1]:
        return None
    return Ranking(query, documents) if all(tensor.datatype in FLOATS for tensor in outputs) else None


def _tensor(declared: MetadataTensor, values: Sequence[str]) -> RequestInput:
    shape = [len(values)] + [1] * (len(declared.shape) - 1)
    return RequestInput.of(declared.name, shape, "BYTES", TensorData([*values]))


def _scores(of: UnaryRequest, request: InferenceRequest, response: InferenceResponse) -> list[float]:
    """Return the score of each document. Raises InvalidOutput if a score is missing or not finite."""
    count = len(request.inputs[1].data.flat())
    floats = next((tensor for tensor in response.outputs if tensor.datatype in FLOATS), None)
    scores = [] if floats is None else [float(score) for score in floats.data.flat()]
    if len(scores) != count:
        raise of.wrong_output(
            f"Model {response.model_name} answered {len(scores)} scores for {count} documents"
        )
    if not all(map(isfinite, scores)):
        raise of.wrong_output(f"Model {response.model_name} answered a score that is not finite")
    return scores


class RerankRequest(UnaryRequest):
    """A request with `documents`, as Cohere and Jina clients send it."""

    __slots__ = ("_documents", "_most", "_name", "_returned")

    documents_field, returning_field = "documents", "return_documents"

    def __init__(self, admission: Admission, name: str, ranking: Ranking, fields: Fields) -> None:
        """Raises InvalidRequest naming the invalid field."""
        self._name = name
        self._documents = self._read(fields)
        self._most = fields.integer("top_n", 1)
        self._returned = fields.flag(self.returning_field)
        if fields.get("rank_fields") is not None:
            raise fields.wrong("rank_fields", "is not taken; a document is its text")
        query = fields.require_text("query")
        texts = [document if isinstance(document, str) else document["text"] for document in self._documents]
        super().__init__(admission, [ranking.build_request(query, texts, fields.other_parameters(KNOWN))])

    def _read(self, fields: Fields) -> list[Any]:
        name = self.documents_field
        documents = fields.require_items(name, "texts", MAX_DOCUMENTS)
        for index, document in enumerate(documents):
            if not isinstance(document, str):
                Fields(document, f"{name}[{index}]").require_text("text")
        return documents

    def written(self, responses: Sequence[InferenceResponse]) -> tuple[RawHeaders, bytes]:
        results = [
            {"index": index, "relevance_score": score, **self._document(index)}
            for index, score in self._rank(responses[0])
        ]
        tokens = count_prompt_tokens(responses)
        document = {
            "id": str(responses[0].id),
            "model": self._name,
            "results": results,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
        }
        return [JSON_HEADER], orjson.dumps(document)

    def _rank(self, response: InferenceResponse) -> list[tuple[int, float]]:
        """Return the indices of the documents and their scores, highest first, at most `top_n`."""
        scores = [*enumerate(_scores(self, self.request, response))]
        scores.sort(key=lambda each: -each[1])
        return scores[: self._most]

    def _document(self, index: int) -> dict[str, Any]:
        document = self._documents[index]
        if not self._returned:
            return {}
        return {"document": {"text": document} if isinstance(document, str) else document}


class TeiRequest(RerankRequest):
    """A request with `texts`, as TEI clients send it."""

    __slots__ = ()

    documents_field, returning_field = "texts", "return_text"

    def written(self, responses: Sequence[InferenceResponse]) -> tuple[RawHeaders, bytes]:
        ranked = self._rank(responses[0])
        results = [
            {"index": index, "score": score, **({"text": self._documents[index]} if self._returned else {})}
            for index, score in ranked
        ]
        return [JSON_HEADER], orjson.dumps(results)


class ScoreRequest(UnaryRequest):
    """A request to score one string against others, or pairs. Each pair is a separate model request."""

    __slots__ = ("_id", "_name")

    def __init__(self, admission: Admission, name: str, ranking: Ranking, fields: Fields) -> None:
        """Raises InvalidRequest naming the invalid field."""
        queries = fields.require_texts("text_1", MAX_DOCUMENTS)
        others = fields.require_texts("text_2", MAX_DOCUMENTS)
        if len(queries) not in (1, len(others)):
            sentence = f"holds {len(others)} texts, and text_1 {len(queries)}; it may hold one, or as many"
            raise fields.wrong("text_2", sentence)
        parameters = fields.other_parameters(KNOWN)
        pairs = (
            [(query, [other]) for query, other in zip(queries, others, strict=True)]
            if len(queries) > 1
            else [(queries[0], others)]
        )
        requests = [ranking.build_request(query, documents, parameters) for query, documents in pairs]
        super().__init__(admission, requests)
        self._name = name
        self._id = ensure_id(requests)

    def written(self, responses: Sequence[InferenceResponse]) -> tuple[RawHeaders, bytes]:
        scores = [
            score
            for request, response in zip(self.requests, responses, strict=True)
            for score in _scores(self, request, response)
        ]
        tokens = count_prompt_tokens(responses)
        document = {
            "id": f"score-{self._id}",
            "object": "list",
            "created": int(time()),
            "model": self._name,
            "data": [
                {"index": index, "object": "score", "score": score} for index, score in enumerate(scores)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
        return [JSON_HEADER], orjson.dumps(document)
