"""The context of a handler: its model, and the request and response headers of a call."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .names import VERSION

logger = logging.getLogger("inferstream.torchserve")


class LeftMetrics:
    """Accepts and discards handler metrics. Logs a warning for the first metric of a model."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._told = False

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("add_"):
            raise AttributeError(name)
        return self._discard

    def _discard(self, *_: Any, **__: Any) -> None:
        if not self._told:
            self._told = True
            logger.warning(
                "model %s: metrics of the handler are dropped; use inferstream.register and inferstream.log",
                self._model,
            )


class RequestProcessor:
    """The request headers, and the response headers and status that the handler sets."""

    def __init__(self, request_header: Mapping[str, str]) -> None:
        self._request = request_header
        self.response: dict[str, str] = {}
        self.status: tuple[int, str | None] = (200, None)

    def get_request_property(self, key: str) -> str | None:
        return self._request.get(key.lower())

    def get_request_properties(self) -> dict[str, str]:
        return dict(self._request)

    def report_status(self, code: int, reason_phrase: str | None = None) -> None:
        self.status = (code, reason_phrase)

    def add_response_property(self, key: str, value: str) -> None:
        self.response[key.lower()] = str(value)

    def get_response_headers(self) -> dict[str, str]:
        return self.response


class HandlerContext:
    """The model of a handler and the current call. Only one call runs at a time."""

    def __init__(
        self,
        model_name: str,
        model_dir: str,
        manifest: Mapping[str, Any],
        batch_size: int,
        gpu: int | None,
        model_yaml_config: Mapping[str, Any],
    ) -> None:
        self.model_name = model_name
        self.manifest = manifest
        self.model_yaml_config = model_yaml_config
        self.system_properties: dict[str, Any] = {
            "model_dir": model_dir,
            "gpu_id": gpu,
            "batch_size": batch_size,
            "server_name": "MMS",
            "server_version": VERSION,
            "limit_max_image_pixels": True,
        }
        self.request_ids: dict[int, str] | None = None
        self.metrics: Any = LeftMetrics(model_name)
        self.send: Callable[[Any], None] | None = None
        """Sends a part of the response. None if the call does not support partial responses."""
        self.request_processor: Sequence[RequestProcessor] = ()

    def begin(self, ids: Sequence[str], headers: Sequence[Mapping[str, str]]) -> None:
        """Set the request ids and headers of the current call, one per row."""
        self.request_ids = dict(enumerate(ids))
        self.request_processor = [RequestProcessor(each) for each in headers]

    def get_request_id(self, idx: int = 0) -> str | None:
        return None if self.request_ids is None else self.request_ids.get(idx)

    def get_request_header(self, idx: int, key: str) -> str | None:
        return self.request_processor[idx].get_request_property(key)

    def get_all_request_header(self, idx: int) -> dict[str, str]:
        return self.request_processor[idx].get_request_properties()

    def set_response_content_type(self, idx: int, value: str) -> None:
        self.set_response_header(idx, "content-type", value)

    def get_response_content_type(self, idx: int) -> str | None:
        return self.get_response_headers(idx).get("content-type")

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        self.request_processor[idx].report_status(code, phrase)

    def set_all_response_status(self, code: int = 200, phrase: str = "") -> None:
        for each in self.request_processor:
            each.report_status(code, phrase)

    def get_response_status(self, idx: int) -> tuple[int, str | None]:
        return self.request_processor[idx].status

    def get_response_headers(self, idx: int) -> dict[str, str]:
        return self.request_processor[idx].response

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        self.request_processor[idx].add_response_property(key, value)
