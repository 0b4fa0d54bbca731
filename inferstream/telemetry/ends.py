"""The ends of calls, as metrics and logs name them."""

from ..errors import Abandoned, InferstreamError


def kind_of_end(error: BaseException | None) -> str:
    """The end of a call in a word: `success`, the code of its error, `cancelled`, or `internal` for any other error."""
    if error is None:
        return "success"
    if isinstance(error, InferstreamError) and not isinstance(error, Abandoned):
        return error.code.value
    return "cancelled" if isinstance(error, Abandoned) or not isinstance(error, Exception) else "internal"
