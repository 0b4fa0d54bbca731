"""The error of an output that a transport cannot write, such as a text with half a character."""

import logging

from ..errors import InvalidOutput

logger = logging.getLogger("inferstream.model")


def unwritable(error: BaseException, output: str | None, model: str | None = None) -> InvalidOutput:
    """The error to raise. Logs it, because the call of the model that made the output is over."""
    what = (
        "The response cannot be written as JSON" if output is None else f'Output "{output}" cannot be written'
    )
    return wrong_output(f"{what}: {error}", model, error)


def wrong_output(what: str, model: str | None = None, error: BaseException | None = None) -> InvalidOutput:
    """The error of a response that is found wrong after the call of its model, to raise. Logs it."""
    failed = InvalidOutput(f"{what}.")
    whose = "" if model is None else f" {model}"
    logger.error("model%s failed on request: %s", whose, failed.message, exc_info=error)
    return failed
