"""The logger of the Triton Python backend."""

import logging

from inferstream.ext.telemetry import get_logger

logger = get_logger("model")


class BackendLogger:
    """Writes to the server's log. All methods are static, as in Triton."""

    INFO, WARNING, ERROR, VERBOSE = logging.INFO, logging.WARNING, logging.ERROR, logging.DEBUG

    @staticmethod
    def log(message: str, level: int = logging.INFO) -> None:
        logger.log(level, "%s", message)

    @staticmethod
    def log_info(message: str) -> None:
        logger.info("%s", message)

    @staticmethod
    def log_warn(message: str) -> None:
        logger.warning("%s", message)

    @staticmethod
    def log_error(message: str) -> None:
        logger.error("%s", message)

    @staticmethod
    def log_verbose(message: str) -> None:
        logger.debug("%s", message)
