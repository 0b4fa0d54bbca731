"""The error for an output that a transport cannot write, for example a string with a lone surrogate."""

import logging

from ..errors import InvalidOutput

logger = logging.getLogger("inferstream.model")


def log_unwritable_output(
    error: BaseException, output: str | None, model: str | None = None
) -> InvalidOutput:
    """Log an error and return it to be raised. The model call has finished, so it cannot log the error."""
    what = (
        "The response cannot be written as JSON" if output is None else f'Output "{output}" cannot be written'
    )
    return log_wrong_output(f"{what}: {error}", model, error)


def log_wrong_output(
    what: str, model: str | None = None, error: BaseException | None = None
) -> InvalidOutput:
    """Log an error that was found in a response after the model call, and return it to be raised."""
    failed = InvalidOutput(f"{what}.")
    whose = "" if model is None else f" {model}"
    logger.error("model%s failed on request: %s", whose, failed.message, exc_info=error)
    return failed
