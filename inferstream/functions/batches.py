"""Batch functions, which take and return lists. An exception in the returned list marks a failed item."""

import logging
from collections.abc import Iterator, KeysView, ValuesView
from itertools import islice
from math import prod
from typing import Any

from ..codecs.values.arrays import Array
from ..codecs.values.lists import ListOf
from ..errors import InferstreamError, InvalidOutput, InvalidRequest, InvalidSettings, ModelError
from ..rows import RowErrors
from ..types import InferenceRequest
from .arguments import Arguments
from .errors import ErrorMap
from .results import Results

logger = logging.getLogger("inferstream.model")


def check_batch(location: str, arguments: "Arguments", results: "Results") -> None:
    """Raise InvalidSettings for a function that does not take and return lists."""
    if not arguments.arguments:
        raise InvalidSettings(f"{location}: a function of batches takes a list")
    for argument in arguments.arguments:
        if not isinstance(argument.value, ListOf | Array):
            raise InvalidSettings(
                f'{location}: parameter "{argument.name}": a function of batches takes lists: write list[T]'
            )
    if not results.values or not all(isinstance(value, ListOf | Array) for value in results.values.values()):
        raise InvalidSettings(f"{location}: return value: a function of batches returns lists: write list[T]")


class BatchItems:
    """Checks that a batch function returned one item for each batch item, and separates failed items."""

    def __init__(self, name: str, arguments: Arguments, results: Results, errors: ErrorMap) -> None:
        self._name = name
        self._results = results
        self._errors = errors
        self._lists = {
            argument.name for argument in arguments.arguments if isinstance(argument.value, ListOf)
        }

    def __call__(self, model: Any, payload: InferenceRequest, returned: Any) -> Any:
        """Return the result of the function, with iterators converted to lists.

        Raises RowErrors if items failed, InvalidOutput if the number of items is wrong, or InvalidRequest if
        a shape in the request does not match its values.
        """
        several = self._results.several and isinstance(returned, tuple | list)
        count = max((tensor.shape[0] if tensor.shape else 1 for tensor in payload.inputs), default=None)
        parts = [_to_list(part, count) for part in (returned if several else [returned])]
        failed: dict[int, Exception] = {}
        for part in parts:
            self._count(model, payload, part, count)
            if isinstance(part, list):
                failed |= {index: item for index, item in enumerate(part) if isinstance(item, Exception)}
        if not failed:
            return tuple(parts) if several else parts[0]
        filled = [_replace_failures(part, failed) for part in parts]
        response = None
        if all(part is not None for part in filled):
            response = model.writer().write(tuple(filled) if several else filled[0])
        raise RowErrors({index: self._error(index, error) for index, error in failed.items()}, response)

    def _count(self, model: Any, payload: InferenceRequest, part: Any, count: int | None) -> None:
        try:
            returned = len(part)
        except TypeError:
            raise InvalidOutput(
                f"Model {model.name} returned a {type(part).__name__}, not a list, for a batch."
            ) from None
        if count is not None and returned != count:
            self._check_shapes(payload)
            raise InvalidOutput(f"Model {model.name} returned {returned} items for a batch of {count}.")

    def _check_shapes(self, payload: InferenceRequest) -> None:
        """Raise InvalidRequest if the shape of an input does not match the number of its values or items."""
        for tensor in payload.inputs:
            try:
                tensor.data.check(tensor.datatype, tensor.shape)
            except (ValueError, TypeError, OverflowError) as error:
                raise InvalidRequest(f'argument "{tensor.name}": {error}') from None
            if tensor.name in self._lists and prod(tensor.shape) != tensor.shape[0]:
                raise InvalidRequest(
                    f'argument "{tensor.name}" takes shape [items], got {tensor.shape}, which holds several '
                    "values for each"
                )

    def _error(self, index: int, error: Exception) -> ModelError:
        """Return the client error of one item. Errors that are not meant for clients are also logged."""
        error = self._errors.translate(error)
        if isinstance(error, ModelError):
            return error
        if isinstance(error, InferstreamError):
            return ModelError(error.message)
        logger.error("model %s failed on item %d of a batch", self._name, index, exc_info=error)
        failed = ModelError(f"Model {self._name} failed on this item: {type(error).__name__}.", 500)
        failed.__cause__ = error
        return failed


def _to_list(part: Any, count: int | None) -> Any:
    """Convert a tuple, view or iterator to a list. Reads at most `count + 1` items of an iterator."""
    if isinstance(part, tuple | KeysView | ValuesView):
        return [*part]
    return [*islice(part, None if count is None else count + 1)] if isinstance(part, Iterator) else part


def _replace_failures(part: Any, failed: dict[int, Exception]) -> Any:
    """Return the items, with failed items replaced by a valid one. Returns None if all items failed."""
    if not isinstance(part, list):
        return part
    good = next((item for index, item in enumerate(part) if index not in failed), None)
    if good is None:
        return None
    return [good if index in failed else item for index, item in enumerate(part)]
