"""The exceptions of an app's functions that clients are told about."""

from ..errors import InferstreamError, ModelError


class ErrorMap:
    """Statuses by class of exception; the nearest base class counts."""

    def __init__(self) -> None:
        self._statuses: dict[type[Exception], tuple[int, str | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._statuses)

    def add(self, exception: type[Exception], status: int, message: str | None) -> None:
        """Raises TypeError and ValueError for what is no exception and no HTTP status of an error."""
        if not (isinstance(exception, type) and issubclass(exception, Exception)):
            raise TypeError(f"{exception!r} is no class of exceptions")
        if not 400 <= status <= 599:
            raise ValueError(f"{status} is no HTTP status of an error: 400 to 599")
        self._statuses[exception] = (status, message)

    def translated(self, error: Exception) -> Exception:
        """The error to raise in place of `error`; the same if it is not mapped."""
        if isinstance(error, InferstreamError):
            return error
        for kind in type(error).__mro__:
            if kind in self._statuses:
                status, message = self._statuses[kind]
                return ModelError(message or str(error) or kind.__name__, status)
        return error
