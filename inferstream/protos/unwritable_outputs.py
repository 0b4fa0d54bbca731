"""The error of an output that a transport cannot write, such as a text with half a character."""

import logging

from ..errors import InvalidOutput

logger = logging.getLogger("inferstream.model")


def unwritable(error: Exception, output: str | None, model: str | None = None) -> InvalidOutput:
    """The error to raise. Logs it, because the call of the model that made the output is over."""
    what = (
        "The response cannot be written as JSON" if output is None else f'Output "{output}" cannot be written'
    )
    failed = InvalidOutput(f"{what}: {error}.")
    whose = "" if model is None else f" {model}"
    logger.error("model%s failed on request: %s", whose, failed.message, exc_info=error)
    return failed
