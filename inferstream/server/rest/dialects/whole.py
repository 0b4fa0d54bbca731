"""Requests whose response is whole, and which may be several requests to the model."""

from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Any

from ....dataplane.admission import Admission
from ....dataplane.call import Operation
from ....dataplane.reply import Reply
from ....errors import InvalidOutput
from ....protos.json_responses import json_values
from ....protos.unwritable_outputs import wrong_output
from ....types import InferenceRequest, InferenceResponse, ResponseOutput
from ..messages import RawHeaders
from .base import GatheringRequest


class WholeRequest(GatheringRequest):
    """A request that becomes `requests` to the model, of which the responses are written as one."""

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
        """The headers and the body of the response, of the model's responses in the order of the requests."""

    def wrong_output(self, sentence: str) -> InvalidOutput:
        """The error of a response that `written` finds wrong, to raise. Logs it, because the call is over."""
        return wrong_output(sentence)

    @staticmethod
    def json_values(output: ResponseOutput) -> Any:
        """The values of an output in JSON, flat in an array or nested in a list; bytes that are no text in base64."""
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
