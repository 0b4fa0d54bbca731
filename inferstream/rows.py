"""The error of a model for single rows of a request."""

from collections.abc import Mapping
from operator import index

from .errors import ModelError
from .types import InferenceResponse


class RowErrors(ModelError):
    """Errors of single rows, by their index in the first dimension, and the response to the others.

    `response` has a row for every row of the request; failed rows of it are never sent. It may be None if all failed.
    In a batch, the callers of a failed row get its error, and others their responses. A single caller gets the first
    error. Raises ValueError without any error, or for an index below 0.
    """

    def __init__(self, errors: Mapping[int, ModelError | str], response: InferenceResponse | None) -> None:
        self.errors = {
            index(row): error if isinstance(error, ModelError) else ModelError(error)
            for row, error in sorted(errors.items())
        }
        self.response = response
        if not self.errors or min(self.errors) < 0:
            raise ValueError("RowErrors needs the errors of one row or more, each counted from 0")
        first = next(iter(self.errors.values()))
        super().__init__(first.message, first.status_code)

    def within(self, start: int, stop: int) -> ModelError | None:
        """The first error of the rows from `start` up to `stop`, exclusive; None if none failed."""
        return next((error for row, error in self.errors.items() if start <= row < stop), None)
