"""`GenerateFormat`: another format of `generate` requests, which a plug-in adds to models."""

from typing import Any

from ....dataplane.admission import Admission
from ....dataplane.call import Operation
from .base import ParsedRequest


class GenerateFormat:
    """A facet of models whose `generate` and `generate_stream` accept another format next to V2 and flat JSON.

    A model has at most one. Requests that name their format in the dialect header do not use it.
    """

    def parse(
        self, admission: Admission, operation: Operation, document: Any, body: bytes, limit: int
    ) -> ParsedRequest | None:
        """Parse a request, or return None if it is not in this format. Raises InferstreamError.

        `document` is the JSON value in `body`. `limit` is the maximum size in bytes of a collected response.
        """
        raise NotImplementedError
