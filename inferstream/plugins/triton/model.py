"""The runtime for `model.py` files of the Triton Python backend."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from inferstream import RequestContext, request_context
from inferstream.errors import InvalidOutput, InvalidSettings, ModelError
from inferstream.ext.calls import Threads, iterate_in_thread
from inferstream.ext.hosting import install_aliases
from inferstream.ext.runtimes import ArtefactModel, import_from
from inferstream.ext.telemetry import get_logger
from inferstream.types import InferenceRequest, InferenceResponse, Parameters

from .calls import BackendRequest, BackendResponse, BackendSender, TritonModelException
from .config import BackendConfig, add_defaults, using_decoupled_model_transaction_policy
from .parameters import FINAL_RESPONSE
from .pbtxt import read_tensors
from .reshape import Reshapes

CLASS = "TritonPythonModel"

logger = get_logger("runtimes")

LOOK = 1.0
"""Seconds between checks of whether the client still waits, while the code sends nothing."""

Send = Callable[[InferenceResponse], None]


class PythonModel(ArtefactModel):
    """A model with one response per request. It runs one call at a time, like a Triton instance."""

    artefacts = ("model.py",)

    _code: Any = None
    _reshapes: Reshapes
    _names: tuple[str, ...] = ()
    """The names of the model's outputs."""

    def __init__(self, settings: Any) -> None:
        self._wanted_threads = settings.threads
        settings.threads = settings.threads or 1
        super().__init__(settings)

    def load(self) -> bool:
        self._code = self._open_artefact(self._find())
        if using_decoupled_model_transaction_policy(self.settings.configuration):
            # The code can change this setting. The server reads the methods of the class after the load.
            self.__class__ = DecoupledPythonModel
            # Calls whose responses arrive later must not wait for each other.
            self.settings.threads = self._wanted_threads
        return True

    def unload(self) -> bool:
        if callable(finalize := getattr(self._code, "finalize", None)):
            self._in_thread(finalize)
        if self.code_thread is not None:
            self.code_thread.close()
        return True

    def open(self, path: Path) -> Any:
        install_aliases()
        kind = getattr(import_from(path.parent, path.stem), CLASS, None)
        if not isinstance(kind, type):
            raise self._build_load_error(f"{path.name} has no class {CLASS}")
        if not callable(getattr(kind, "execute", None)):
            raise self._build_load_error(f"{CLASS} in {path.name} has no method execute")
        config = self._complete_configuration(kind)
        batches = config["max_batch_size"] > 0
        inputs, outputs = (read_tensors(path, config, each, batches) for each in ("input", "output"))
        self.inputs, self.outputs = [*inputs], [*outputs]
        self._names = tuple(tensor.name for tensor in outputs)
        self._reshapes = Reshapes(config)
        if self.settings.threads != 1 or using_decoupled_model_transaction_policy(config):
            self.code_thread = Threads(self.name, 1)
        made = self._in_thread(kind)
        if callable(initialize := getattr(made, "initialize", None)):
            self._in_thread(initialize, self._arguments(path, config))
        return made

    def _complete_configuration(self, kind: type) -> dict[str, Any]:
        """Return the configuration with defaults and with the additions of the model code.

        Raises InvalidSettings.
        """
        config = add_defaults({**self.settings.written_configuration, "name": self.name})
        complete = getattr(kind, "auto_complete_config", None)
        if callable(complete):
            try:
                completed = complete(BackendConfig(config))
                if not isinstance(completed, BackendConfig):
                    raise TypeError(f"returned a {type(completed).__name__}, not the ModelConfig")
                # Round-tripped through JSON, as `initialize` receives it. Clients and other processes read it
                # as well.
                config = json.loads(json.dumps(add_defaults(completed.as_dict())))
            except (ValueError, TypeError) as error:
                raise InvalidSettings(f"auto_complete_config: {error}") from error
        if "dynamic_batching" in config and "dynamic_batching" not in self.settings.written_configuration:
            logger.warning(
                "model %s: dynamic_batching in auto_complete_config is ignored; set it in config.pbtxt",
                self.name,
            )
        config.setdefault("model_transaction_policy", {"decoupled": False})
        # Otherwise the settings declare the tensors.
        if callable(complete) or self.settings.written_configuration:
            self.settings.configuration = config
        return config

    def _arguments(self, path: Path, config: dict[str, Any]) -> dict[str, str]:
        folder = path.parent.parent if path.parent.name == self.version else path.parent
        return {
            "model_config": json.dumps(config),
            "model_instance_name": f"{self.name}_0",
            "model_instance_kind": "GPU" if self.settings.devices else "CPU",
            "model_instance_device_id": "0",
            "model_repository": str(folder),
            "model_version": self.version or "1",
            "model_name": self.name,
        }

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        sent: list[InferenceResponse] = []
        self._run(payload, request_context(), sent.append)
        if len(sent) != 1:
            raise InvalidOutput(f"Model {self.name} answered {len(sent)} responses to one request.")
        return sent[0]

    def _run(
        self, payload: InferenceRequest, context: RequestContext, send: Send, *, marks: bool = False
    ) -> None:
        """Run the code for a request, until it sends the last response or the client disconnects.

        If `marks` is true, the parameters of the last response contain the final flag.
        """

        def deliver(response: BackendResponse, final: bool) -> None:
            send(self._response(response, {FINAL_RESPONSE: True} if final and marks else {}))

        sender = BackendSender(deliver)
        ended = sender.ended
        request = BackendRequest.of(
            self._reshapes.reshape_request(payload), sender, self._names, lambda: context.cancelled
        )
        try:
            responses = self._in_thread(self._code.execute, [request])
            if isinstance(responses, Coroutine):  # from an `async def execute`
                responses = self._in_thread(asyncio.run, responses)
        except TritonModelException as error:
            raise ModelError(str(error), 500) from error
        if responses is not None:
            self._send_result(responses, sender)
        del request, sender  # If the code also releases them, no more responses follow.
        while not ended.wait(LOOK):
            if context.cancelled:
                ended.leave()
        if ended.error is not None:
            raise ended.error

    def _send_result(self, responses: Any, sender: BackendSender) -> None:
        """Send the responses that `execute` returned.

        Raises InvalidOutput unless there is one per request.
        """
        if not isinstance(responses, list) or len(responses) != 1:
            many = f" of {len(responses)}" if isinstance(responses, list) else ""
            raise InvalidOutput(
                f"execute of model {self.name} returned a {type(responses).__name__}{many} for 1 request."
            )
        if responses[0] is not None:
            sender.send(responses[0], 1)

    def _response(self, response: object, marked: Mapping[str, bool]) -> InferenceResponse:
        if not isinstance(response, BackendResponse):
            raise InvalidOutput(
                f"Model {self.name} answered a {type(response).__name__}, no InferenceResponse."
            )
        if (error := response.error()) is not None:
            raise error.to_error()
        told = {**response.parameters_as_dict(), **marked}
        outputs = [tensor.to_output() for tensor in response.output_tensors()]
        parameters = Parameters.of(told) if told else None
        return self._reshapes.reshape_response(
            InferenceResponse.of(self.name, outputs, self.version, None, parameters)
        )


class DecoupledPythonModel(PythonModel):
    """A model with any number of responses per request, even after `execute` has returned."""

    predict = ArtefactModel.predict

    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[InferenceResponse]:
        context = request_context()
        for payload in payloads:
            run = partial(self._run, payload, context, marks=not context.single)
            pieces: Iterator[InferenceResponse] = iterate_in_thread(run)
            yield from pieces
