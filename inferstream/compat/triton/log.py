"""The log of models of Triton's Python backend."""

import logging

logger = logging.getLogger("inferstream.model")


class BackendLogger:
    """Writes to the server's log. All methods are static, as Triton's."""

    INFO, WARNING, ERROR, VERBOSE = logging.INFO, logging.WARNING, logging.ERROR, logging.DEBUG

    @staticmethod
    def log(message: str, level: int = logging.INFO) -> None:
        logger.log(level, "%s", message)

    log_info = staticmethod(logger.info)
    log_warn = staticmethod(logger.warning)
    log_error = staticmethod(logger.error)
    log_verbose = staticmethod(logger.debug)
