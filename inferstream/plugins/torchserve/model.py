"""The runtime for TorchServe archives. Handlers receive the rows of a request as a list of dictionaries."""

import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from msgspec import structs

from inferstream import ModelSettings, RowErrors
from inferstream.errors import InvalidOutput, InvalidRequest, ModelError
from inferstream.ext.calls import Threads, iterate_in_thread
from inferstream.ext.runtimes import ArtefactModel, Unpacker, UnsafeArchive
from inferstream.ext.values import Description, object_array, to_bytes
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    RequestInput,
    ResponseOutput,
    TensorData,
)

from .context import HandlerContext
from .entry import Entry, load_entry
from .envelope import POSTED, RowAnswer, decode_requests, encode_responses, to_row_answer
from .mar import Manifest, read_manifest

DATA = MetadataTensor(name="data", datatype="BYTES", shape=[-1])
OUTPUT = MetadataTensor(name="output", datatype="BYTES", shape=[-1])

Send = Callable[[Any], None]


class ArchiveModel(ArtefactModel):
    """A model whose handler returns complete responses. Calls run one at a time, as in TorchServe."""

    artefacts = ("model.mar",)

    _entry: Entry
    _context: HandlerContext
    _folder: TemporaryDirectory[str] | None = None

    def __init__(self, settings: ModelSettings) -> None:
        settings.threads = 1  # Handlers keep the state of a call in attributes.
        super().__init__(settings)
        self._description = Description((DATA,), (OUTPUT,))

    def load(self) -> bool:
        self._entry = self._in_thread(self._open_artefact, self._find())
        return True

    def unload(self) -> bool:
        if self.code_thread is not None:
            self.code_thread.close()
        if self._folder is not None:
            self._folder.cleanup()
        return True

    def open(self, path: Path) -> Entry:
        manifest = read_manifest(path)
        self._folder = TemporaryDirectory(prefix="inferstream-mar-")
        folder = Path(self._folder.name).resolve()
        try:
            Unpacker().unpack_zip(path, folder)
        except (UnsafeArchive, zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
            raise self._build_load_error(f"{path.name} cannot be unpacked: {error}") from error
        entry = load_entry(manifest.text("handler"), folder)
        size = max(1, self.settings.max_batch_size)
        self._context = HandlerContext(
            self.name, str(folder), manifest.document, size, _gpu(manifest), manifest.config
        )
        entry.initialize(self._context)
        return entry

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self._response(payload, self._run_handler(payload, None))

    def _run_handler(self, payload: InferenceRequest, send: Send | None) -> list[RowAnswer]:
        """Run the handler and return the last response of each row. `send` receives the earlier parts."""
        rows = self._begin(payload)
        context = self._context
        context.send = None if send is None else lambda values: send(self._convert_results(values))
        try:
            values = self._in_thread(self._entry.handle, rows, context)
        except Exception as error:
            # Set on TorchServe's PredictionException and on its replacement.
            status = getattr(error, "error_code", None)
            if isinstance(status, int):
                raise ModelError(str(getattr(error, "message", error)), status) from error
            raise
        finally:
            context.send = None
        if not isinstance(values, list) or len(values) != len(rows):
            many = f" of {len(values)}" if isinstance(values, list) else ""
            kind = type(values).__name__
            raise InvalidOutput(
                f"The handler of model {self.name} returned a {kind}{many} for {len(rows)} rows."
            )
        return self._convert_results(values)

    def _begin(self, payload: InferenceRequest) -> list[dict[str, Any]]:
        """Convert a request to rows for the handler. Raises InvalidRequest."""
        if [tensor.name for tensor in payload.inputs] == [POSTED]:
            posted = decode_requests(payload.inputs[0])
            self._context.begin([each.id for each in posted], [each.headers for each in posted])
            return [{field.name: field.value for field in each.fields} for each in posted]
        columns = {tensor.name: self._column(tensor) for tensor in payload.inputs}
        count = len(next(iter(columns.values()), ()))
        if not count or any(len(column) != count for column in columns.values()):
            raise InvalidRequest("a handler takes inputs with the same number of rows, one or more")
        headers = None if payload.parameters is None else payload.parameters.headers
        self._context.begin(
            [str(payload.id) if count == 1 else f"{payload.id}-{row}" for row in range(count)],
            [dict(headers or {})] * count,
        )
        return [{name: column[row] for name, column in columns.items()} for row in range(count)]

    def _column(self, tensor: RequestInput) -> list[Any]:
        values = self.decode(tensor)
        if isinstance(values, TensorData):
            if tensor.datatype == "BYTES":
                values = object_array(to_bytes(values.flat())).reshape(tensor.shape)
            else:
                values = values.to_numpy(tensor.datatype).reshape(tensor.shape)
        if isinstance(values, np.ndarray):
            values = values.tolist()
        if not isinstance(values, list):
            raise InvalidRequest(f'input "{tensor.name}" has no rows')
        return values

    def _convert_results(self, values: Any) -> list[RowAnswer]:
        """Convert the result of each row. `values` is a list, or a dictionary by row index."""
        context = self._context
        return [
            to_row_answer(values[row], context.get_response_status(row)[0], context.get_response_headers(row))
            for row in range(len(context.request_ids or ()))
        ]

    def _response(self, payload: InferenceRequest, rows: Sequence[RowAnswer]) -> InferenceResponse:
        """Build the response from the results of all rows. Raises RowErrors if rows have an error status."""
        if payload.inputs[0].name == POSTED:
            return InferenceResponse.of(self.name, [encode_responses(rows)], self.version)
        data = TensorData([each.content for each in rows])
        output = ResponseOutput.of(OUTPUT.name, [len(rows)], "BYTES", data)
        response = InferenceResponse.of(self.name, [output], self.version)
        if failed := {row: _failure(each) for row, each in enumerate(rows) if each.status >= 400}:
            raise RowErrors(failed, response)
        return response


class StreamingArchiveModel(ArchiveModel):
    """A model whose handler can send partial responses.

    One thread runs its code, and other threads read the parts.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self.code_thread = Threads(settings.name, 1)

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Return all parts joined in one response."""
        pieces: list[list[RowAnswer]] = []
        pieces.append(self._run_handler(payload, pieces.append))
        whole = [
            structs.replace(row[-1], content=b"".join(piece.content for piece in row))
            for row in zip(*pieces, strict=True)
        ]
        return self._response(payload, whole)

    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[InferenceResponse]:
        for payload in payloads:
            for piece in iterate_in_thread(partial(self._send_answers, payload)):
                yield self._response(payload, piece)

    def _send_answers(self, payload: InferenceRequest, send: Send) -> None:
        send(self._run_handler(payload, send))


def _failure(answer: RowAnswer) -> ModelError:
    return ModelError(answer.content.decode(errors="replace"), answer.status)


def _gpu(manifest: Manifest) -> int | None:
    """Return GPU 0 if the code uses PyTorch with CUDA and the archive does not select the CPU, else None."""
    torch = sys.modules.get("torch")
    if torch is None or manifest.config.get("deviceType") == "cpu" or not torch.cuda.is_available():
        return None
    return 0
