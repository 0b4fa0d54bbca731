"""The Triton classification extension: returns the top classes of an output instead of its values."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from inferstream import ModelSettings
from inferstream.errors import InvalidRequest, InvalidSettings
from inferstream.ext.values import parameter_of
from inferstream.types import RequestOutput, ResponseOutput

PARAMETER = "classification"
"""The parameter of a requested output that specifies the number of classes."""

LABELS = "label_filename"
"""The parameter of a declared output that names its label file. The file has one class per line."""

MAX_LABELS = 2**24
"""Maximum size of a label file in bytes."""

Labels = Mapping[str, Sequence[str]]
"""Class labels by output name."""


class Classification(NamedTuple):
    """Converts outputs of a model to classes.

    If `batches` is true, the first dimension is the batch dimension. If it is None, only outputs with two or
    more dimensions have a batch dimension.
    """

    labels: Labels = {}
    batches: bool | None = None

    def __call__(
        self, outputs: list[ResponseOutput], wanted: Sequence[RequestOutput]
    ) -> list[ResponseOutput]:
        """Convert the outputs for which `wanted` requests classes. Raises InvalidRequest.

        Each class is a string `score:index`, or `score:index:label` if it has a label.
        """
        counts = {output.name: count for output in wanted if (count := _count(output))}
        if not counts:
            return outputs
        return [
            _classify(tensor, counts[tensor.name], self.labels.get(tensor.name, ()), self.batches)
            if tensor.name in counts
            else tensor
            for tensor in outputs
        ]


def build_classification(settings: ModelSettings) -> Classification:
    """Return the classification of a model. Raises InvalidSettings if a label file cannot be read."""
    return Classification(_read_labels(settings), _has_batch_dimension(settings))


def _count(output: RequestOutput) -> int:
    asked = (output.parameters and output.parameters.__pydantic_extra__) or {}
    count = asked.get(PARAMETER, 0)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InvalidRequest(f'output "{output.name}": {PARAMETER} must be a whole number, got {count!r}')
    return count


def _classify(
    tensor: ResponseOutput, count: int, labels: Sequence[str], batches: bool | None
) -> ResponseOutput:
    if tensor.datatype in ("BYTES", "BOOL"):
        raise InvalidRequest(f'output "{tensor.name}": values of {tensor.datatype} are no scores of classes')
    values = tensor.data.to_numpy(tensor.datatype, tensor.shape)
    batched = values.ndim > 1 if batches is None else batches and values.ndim > 0
    rows = values.reshape(values.shape[0] if batched else 1, -1) if values.size else values.reshape(0, 0)
    # Among equal scores, the lower index comes first: the sort is stable, and each row is traversed from its
    # end.
    order = rows.shape[1] - 1 - np.argsort(rows[:, ::-1], axis=1, kind="stable")[:, ::-1][:, :count]
    form = "%d" if values.dtype.kind in "iu" else "%f"
    texts = [
        f"{form % row[index]}:{index}"
        + (f":{labels[index]}" if index < len(labels) and labels[index] else "")
        for row, chosen in zip(rows, order, strict=True)
        for index in chosen.tolist()
    ]
    return ResponseOutput(
        name=tensor.name,
        shape=[*order.shape] if batched else [order.size],
        datatype="BYTES",
        data=[text.encode() for text in texts],
    )


def _has_batch_dimension(settings: ModelSettings) -> bool | None:
    """Return whether a model's outputs have a batch dimension, or None if the settings do not specify it."""
    if settings.configuration:
        return int(settings.configuration.get("max_batch_size", 0)) > 0
    return True if settings.max_batch_size > 1 else None


def _read_labels(settings: ModelSettings) -> Labels:
    """Read the label files that the model's outputs declare.

    Raises InvalidSettings if a file cannot be read.
    """
    labels: dict[str, Sequence[str]] = {}
    for output in settings.outputs:
        name = parameter_of(output, LABELS)
        if not name:
            continue
        folder = Path(settings.source or ".").parent
        file = folder / str(name)
        try:
            if not file.resolve().is_relative_to(folder.resolve()) or file.stat().st_size > MAX_LABELS:
                raise InvalidSettings(
                    f'output "{output.name}": {LABELS} "{name}" is outside the folder or too large'
                )
            labels[output.name] = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            # Without the path, because clients can read the message.
            reason = error.strerror if isinstance(error, OSError) else "not a text"
            raise InvalidSettings(f'output "{output.name}": {LABELS} "{name}": {reason}') from None
    return labels
