"""Transformers pipelines, with the settings, inputs and outputs of the MLServer Hugging Face runtime."""

import asyncio
import inspect
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from inferstream import ModelSettings
from inferstream.errors import InvalidRequest
from inferstream.ext.runtimes import TORCH_LOADING
from inferstream.ext.telemetry import get_logger
from inferstream.types import InferenceRequest, InferenceResponse

from .encoder_model import UNREADABLE, EncoderModel
from .encoders import EncoderSettings
from .huggingface_trust import permit_pretrained_call
from .libraries import LIBRARIES
from .pipelines.settings import PipelineSettings, seldon_parameters
from .pipelines.similarity import Similarity
from .pipelines.tasks import BY_ROW, ROWS, SIMILARITY, declare_inputs, declare_outputs
from .pipelines.tensors import decode_arguments, encode_results

logger = get_logger("runtimes")


class HuggingFaceRuntime(EncoderModel):
    """Runs a pipeline with the inputs as keyword arguments, except `array_inputs` and `args`."""

    extra = "huggingface"
    libraries = LIBRARIES
    permitted_call = permit_pretrained_call(
        "transformers.pipeline", "batch_size", "device", "task", "task_suffix"
    )
    selects_outputs: ClassVar[bool | None] = None
    for_mlserver = True

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self.refused = (KeyError, TypeError, ValueError)
        self._model: Any = None

    @cached_property
    def hf_settings(self) -> PipelineSettings:
        """The settings of the pipeline. Subclasses may read them before `load`."""
        return self._validate_settings(PipelineSettings, {**self._all_extra(), **seldon_parameters()})

    async def load(self) -> bool:
        task = self.hf_settings.task
        if not task:
            raise self._build_load_error('parameters.extra holds no "task", such as "text-classification"')
        if self._gathers and task not in BY_ROW:
            raise self._build_load_error(
                f'the task "{task}" cannot run several requests as one; max_batch_time has to be 0'
            )
        if task == SIMILARITY:
            self._model = Similarity(await self._open_encoder(self._encoder_settings()))
        else:
            source = await self._source(self.hf_settings.pretrained_model)
            self._model = await asyncio.to_thread(self._open_pipeline, source, self.hf_settings)
        self.inputs = [*self.inputs, *declare_inputs(task)]
        self.outputs = [*self.outputs, *declare_outputs(task)]
        return True

    async def unload(self) -> bool:
        self._model = None
        return await super().unload()

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        values = decode_arguments(payload)
        results = self._run_by_row(values, payload) if self._gathers else self._run_together(values, payload)
        return InferenceResponse.of(self.name, [encode_results(results)], self.version)

    def _run_together(self, values: dict[str, Any], request: InferenceRequest) -> list[Any]:
        arguments, rows = values.pop("args", []), values.pop("array_inputs", [])
        if rows:
            arguments = [list(rows), *arguments]
        elif len(arguments) > 1 and self.hf_settings.task in BY_ROW:
            # Pipelines ignore all positional arguments but the first.
            arguments = [arguments]
        return self._run_pipeline(arguments, values, request)

    def _run_by_row(self, values: dict[str, Any], request: InferenceRequest) -> list[Any]:
        """Return one result per row of a batch. Consecutive rows with equal options run together."""
        rows = {name: list(value) for name, value in values.items() if name in ROWS}
        count = max(map(len, rows.values()), default=0)
        if not count or any(len(each) != count for each in rows.values()):
            raise InvalidRequest(f"a batch of {self.hf_settings.task} needs inputs of as many rows")
        options = [self._options(tensor, count) for tensor in request.inputs if tensor.name not in ROWS]
        results: list[Any] = []
        for chosen, indices in groupby(
            range(count), lambda row: [(name, each[row]) for name, each in options]
        ):
            run = list(indices)
            named = {name: [each[row] for row in run] for name, each in rows.items()}
            first = [named.pop(name) for name in ("array_inputs", "args") if name in named][:1]
            answers = self._run_pipeline(first, {**named, **dict(chosen)}, request)
            results += answers if len(answers) == len(run) else [answers]
        if "args" in rows:
            # As in `_run_together`, which returns a single result unwrapped.
            results = [each[0] if isinstance(each, list) and len(each) == 1 else each for each in results]
        return results

    def _options(self, tensor: Any, count: int) -> tuple[str, list[Any]]:
        """Return the value of an option for each row.

        Raises InvalidRequest for any other number of values.
        """
        content = tensor.parameters.content_type if tensor.parameters is not None else None
        if content != "raw" or len(each := tensor.data.flat()) != count:
            raise InvalidRequest(
                f'input "{tensor.name}": an option of a model that batches has the content type "raw" '
                "and as many rows as the texts"
            )
        return tensor.name, [value.decode() if isinstance(value, bytes) else value for value in each]

    def _run_pipeline(
        self, arguments: Sequence[Any], options: dict[str, Any], request: InferenceRequest
    ) -> list[Any]:
        with self._convert_client_errors(request):
            results = self._model(*arguments, **options)
        return results if isinstance(results, list) else [results]

    def _encoder_settings(self) -> EncoderSettings:
        """Convert the pipeline settings to encoder settings."""
        own = self.hf_settings
        device = f"cuda:{own.device}" if isinstance(own.device, int) and own.device >= 0 else own.device
        return EncoderSettings(
            pretrained_model=own.pretrained_model,
            device="cpu" if isinstance(device, int) else device,
            batch_size=own.batch_size or self.settings.max_batch_size or 32,
        )

    def _open_pipeline(self, source: Path | str, settings: PipelineSettings) -> Any:
        fixed = self._fixed_arguments(source)
        with TORCH_LOADING, self._importing():
            if settings.framework != "tf":
                self._set_threads(self._import("torch", self.extra), settings)
            transformers = self._import_transformers()
            self.refused = (*self.refused, transformers.pipelines.PipelineException)
            self._check_task(settings, transformers)
            size = settings.batch_size or self.settings.max_batch_size or 1
            options = self._pipeline_options(settings, transformers, size)
            if fixed:
                options["trust_remote_code"] = fixed.pop("trust_remote_code")
                options["model_kwargs"] = {**(settings.model_kwargs or {}), **fixed}
            try:
                pipeline = self._constructor(settings, transformers)(
                    settings.task_name, model=str(source), **options
                )
            except UNREADABLE as error:
                raise self._unreadable(source, f"transformers {transformers.__version__}", error) from error
        if size > 1:
            self._prepare_padding(pipeline)
        if isinstance(source, Path) and self._untrusted(source) is not None:
            for part in filter(None, (pipeline.tokenizer, getattr(pipeline, "processor", None))):
                part.chat_template = None  # the library would render it without limits
        return pipeline

    def _set_threads(self, torch: Any, settings: PipelineSettings) -> None:
        if settings.intra_op_threads is not None:
            torch.set_num_threads(settings.intra_op_threads)
        threads = settings.inter_op_threads
        # PyTorch allows setting it only once per process.
        if threads is not None and threads != torch.get_num_interop_threads():
            torch.set_num_interop_threads(threads)

    def _check_task(self, settings: PipelineSettings, transformers: Any) -> None:
        known = transformers.pipelines.get_supported_tasks()
        if settings.task not in known:
            raise self._build_load_error(
                f'transformers {transformers.__version__} has no task "{settings.task}", but '
                f"{', '.join(known)}; version 4 has others than version 5"
            )

    def _pipeline_options(self, settings: PipelineSettings, transformers: Any, size: int) -> dict[str, Any]:
        options: dict[str, Any] = {"batch_size": size, "model_kwargs": settings.model_kwargs}
        if settings.pretrained_tokenizer is not None:
            options["tokenizer"] = settings.pretrained_tokenizer
        if settings.device is not None:
            options["device"] = settings.device
        if settings.framework is not None:
            if "framework" in inspect.signature(transformers.pipeline).parameters:
                options["framework"] = settings.framework
            elif settings.framework != "pt":
                raise self._build_load_error(
                    f'transformers {transformers.__version__} has no framework "{settings.framework}"'
                )
        return options

    def _constructor(self, settings: PipelineSettings, transformers: Any) -> Any:
        if not settings.optimum_model:
            return transformers.pipeline
        optimum = self._import("optimum.pipelines", self.extra)
        return lambda task, **options: optimum.pipeline(task, accelerator="ort", **options)

    def _prepare_padding(self, pipeline: Any) -> None:
        """Prepare batching, which pads rows to equal length. Without a padding token, rows run one by one."""
        tokenizer = pipeline.tokenizer
        if tokenizer is None:
            return
        if self.hf_settings.task == "text-generation":
            # Generation continues at the end of the row.
            tokenizer.padding_side = "left"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        if tokenizer.pad_token is not None:
            return
        logger.warning("model %s: rows run one by one, because the tokenizer has no padding token", self.name)
        pipeline._batch_size = 1
