"""An error that a model raises for individual rows of a request."""

from collections.abc import Mapping
from operator import index

from .errors import ModelError
from .types import InferenceResponse


class RowErrors(ModelError):
    """Errors of individual rows, by index in the first dimension, with the response for the other rows.

    `response` has one row for every row of the request, and its failed rows are never sent. It can be None if
    all rows failed. In a batch, a request with failed rows receives the first of their errors, and the other
    requests receive their responses. A request that is not batched receives the first error. Raises
    ValueError if `errors` is empty or an index is negative.
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
        """Return the first error in rows `start` (inclusive) to `stop` (exclusive), or None."""
        return next((error for row, error in self.errors.items() if start <= row < stop), None)
