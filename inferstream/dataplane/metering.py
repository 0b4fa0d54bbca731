"""The limits of keys around what a client asks for, and the audit log. A server with neither has no `Metering`."""

from collections.abc import Awaitable, Callable
from time import time
from typing import TypeVar

from ..context import request_id_var
from ..errors import Abandoned, InferstreamError, own_status
from ..keys.audit import AuditLog, AuditRecord
from ..keys.principal import Principal
from ..keys.quotas import MeteredUse, Quotas
from ..statuses import CONFLICT, TABLE, Code
from .caller import Caller
from .proxies import Proxies

Result = TypeVar("Result")

STATUSES = {code: status.http for code, status in TABLE.items()} | {Code.ALREADY_EXISTS: CONFLICT}
"""HTTP statuses of the ends of calls, in audit records."""

NOBODY = Principal("", "", (), ())
"""The principal of a client that needs no key."""


class Metering:
    """Counts what clients use, and has a line in the audit log for each operation, whether it was refused or done."""

    def __init__(self, quotas: Quotas, audit: AuditLog | None, proxies: Proxies) -> None:
        self.quotas = quotas
        self.audit = audit
        self._proxies = proxies

    async def run(
        self, operation: str, caller: Caller, model: str, size: int, work: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Do what is no inference. Raises LimitExceeded, and the errors of `work`."""
        use: MeteredUse | None = None
        failure: BaseException | None = None
        try:
            use = self.quotas.begin(caller.key or NOBODY, False, 0, size)
            return await work()
        except BaseException as error:
            failure = error
            raise
        finally:
            if use is not None:
                use.end()
            self.record(operation, caller, model, "", "", use, failure)
            del failure  # its traceback has this frame

    def refused(self, operation: str, caller: Caller, model: str, error: BaseException) -> None:
        """Record a refusal before there was a call; once, whoever tells of it."""
        self.record(operation, caller, model, "", "", None, error)

    def record(
        self,
        operation: str,
        caller: Caller,
        model: str,
        version: str,
        request_id: str,
        use: MeteredUse | None,
        error: BaseException | None,
    ) -> None:
        """Write a line about what has ended, unless there is one about its error."""
        if self.audit is None or getattr(error, "audited", False):
            return
        if isinstance(error, InferstreamError):
            error.audited = True
        key = caller.key
        self.audit.put(
            AuditRecord(
                time(),
                None if key is None else key.name,
                None if key is None else key.key,
                self._proxies.client(caller.headers),
                caller.door,
                caller.dialect,
                operation,
                model,
                version,
                request_id_var.get() or request_id,
                0 if use is None else use.tokens,
                0 if use is None else use.bytes,
                200 if error is None else _status(error),
                "success" if error is None else kind_of(error),
            )
        )


def _status(error: BaseException) -> int:
    if not isinstance(error, InferstreamError):
        return 500 if isinstance(error, Exception) else 499
    return own_status(error) or STATUSES[error.code]


def kind_of(error: BaseException | None) -> str:
    """The end of a call in a word: `success`, or the code of its error."""
    if error is None:
        return "success"
    if isinstance(error, InferstreamError) and not isinstance(error, Abandoned):
        return error.code.value
    return "cancelled" if isinstance(error, Abandoned) or not isinstance(error, Exception) else "internal"
