"""Names of call outcomes in metrics and logs."""

from ..errors import Abandoned, InferstreamError


def kind_of_end(error: BaseException | None) -> str:
    """Return the outcome of a call: `success`, the code of its error, `cancelled`, or `internal` for other errors."""
    if error is None:
        return "success"
    if isinstance(error, InferstreamError) and not isinstance(error, Abandoned):
        return error.code.value
    return "cancelled" if isinstance(error, Abandoned) or not isinstance(error, Exception) else "internal"
