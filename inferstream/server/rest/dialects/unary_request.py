"""Requests with one complete response, which may consist of several model requests."""

from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Any

from ....dataplane.admission import Admission
from ....dataplane.call import Operation
from ....dataplane.reply import Reply
from ....errors import InvalidOutput
from ....protos.json_responses import json_values
from ....protos.unwritable_outputs import log_wrong_output
from ....types import InferenceRequest, InferenceResponse, ResponseOutput
from ..messages import RawHeaders
from .base import GatheringRequest


class UnaryRequest(GatheringRequest):
    """A request that becomes several `requests` to the model. Their responses are combined into one."""

    __slots__ = ("_responses", "requests")

    compressible = True

    def __init__(self, admission: Admission, requests: Sequence[InferenceRequest]) -> None:
        self.admission = admission
        self.request = requests[0]
        self.requests = requests
        self._responses: dict[str, InferenceResponse] = {}
        self.operation = Operation.INFER if len(requests) == 1 else Operation.STREAM

    @abstractmethod
    def written(self, responses: Sequence[InferenceResponse]) -> tuple[RawHeaders, bytes]:
        """Return the headers and body of the combined response. `responses` are in request order."""

    def wrong_output(self, sentence: str) -> InvalidOutput:
        """Return the error for a response that `written` rejects. Logs it, because the call has ended."""
        return log_wrong_output(sentence)

    @staticmethod
    def json_values(output: ResponseOutput) -> Any:
        """Convert the values of an output for JSON: a flat array or a nested list.

        Bytes that are not UTF-8 become base64.
        """
        values, _ = json_values(output.data, output.datatype)
        return values

    def open(self) -> Awaitable[Reply]:
        if len(self.requests) == 1:
            return self.admission.open(self.operation, self.request)
        return self.admission.group().open(Operation.INFER, self.requests)

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        return self.written([response])

    def add(self, response: InferenceResponse) -> bool:
        self._responses[str(response.id)] = response
        return True

    def end(self) -> tuple[RawHeaders, bytes]:
        return self.written([self._responses[str(request.id)] for request in self.requests])
