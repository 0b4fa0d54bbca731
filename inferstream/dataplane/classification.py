"""Triton's classification extension: the classes of the highest scores in place of an output's values."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from inferstream import ModelSettings
from inferstream.ext.values import parameter_of

from ..errors import InvalidRequest, InvalidSettings
from ..types import RequestOutput, ResponseOutput

PARAMETER = "classification"
"""Parameter of a requested output: how many classes the client wants."""

LABELS = "label_filename"
"""Parameter of a declared output: a file beside the settings with the name of each class in a line."""

MOST_LABELS = 2**24
"""Bytes of a file of labels."""

Labels = Mapping[str, Sequence[str]]
"""Names of classes, by the output."""


class Classification(NamedTuple):
    """Writes outputs of a model as classes.

    If it `batches`, the first dimension is that of a batch; if that is None, an output of several dimensions has one.
    """

    labels: Labels = {}
    batches: bool | None = None

    def __call__(
        self, outputs: list[ResponseOutput], wanted: Sequence[RequestOutput]
    ) -> list[ResponseOutput]:
        """These outputs, with classes in place of those that are wanted so. Raises InvalidRequest.

        Each class is a text `score:index`, and `score:index:label` if it has a label.
        """
        counts = {output.name: count for output in wanted if (count := _count(output))}
        if not counts:
            return outputs
        return [
            _classes(tensor, counts[tensor.name], self.labels.get(tensor.name, ()), self.batches)
            if tensor.name in counts
            else tensor
            for tensor in outputs
        ]


def classification(settings: ModelSettings) -> Classification:
    """That of a model. Raises InvalidSettings for a file of labels that cannot be read."""
    return Classification(_labels_of(settings), _batches_of(settings))


def _count(output: RequestOutput) -> int:
    asked = (output.parameters and output.parameters.__pydantic_extra__) or {}
    count = asked.get(PARAMETER, 0)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InvalidRequest(f'output "{output.name}": {PARAMETER} must be a whole number, got {count!r}')
    return count


def _classes(
    tensor: ResponseOutput, count: int, labels: Sequence[str], batches: bool | None
) -> ResponseOutput:
    if tensor.datatype in ("BYTES", "BOOL"):
        raise InvalidRequest(f'output "{tensor.name}": values of {tensor.datatype} are no scores of classes')
    values = tensor.data.to_numpy(tensor.datatype, tensor.shape)
    batched = values.ndim > 1 if batches is None else batches and values.ndim > 0
    rows = values.reshape(values.shape[0] if batched else 1, -1) if values.size else values.reshape(0, 0)
    # Of equal scores the first class comes first: sorting is stable, and goes through the row from its end.
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


def _batches_of(settings: ModelSettings) -> bool | None:
    """Whether the outputs of a model begin with the dimension of a batch; None if nothing says so."""
    if settings.configuration:
        return int(settings.configuration.get("max_batch_size", 0)) > 0
    return True if settings.max_batch_size > 1 else None


def _labels_of(settings: ModelSettings) -> Labels:
    """The names of classes that the outputs of a model declare. Raises InvalidSettings for a file that is not there."""
    labels: dict[str, Sequence[str]] = {}
    for output in settings.outputs:
        name = parameter_of(output, LABELS)
        if not name:
            continue
        folder = Path(settings.source or ".").parent
        file = folder / str(name)
        try:
            if not file.resolve().is_relative_to(folder.resolve()) or file.stat().st_size > MOST_LABELS:
                raise InvalidSettings(
                    f'output "{output.name}": {LABELS} "{name}" is outside the folder or too large'
                )
            labels[output.name] = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            # Clients read it, so it has no path.
            reason = error.strerror if isinstance(error, OSError) else "not a text"
            raise InvalidSettings(f'output "{output.name}": {LABELS} "{name}": {reason}') from None
    return labels
