"""The route that reports the trusted runtimes."""

from collections.abc import Sequence

from inferstream import Settings
from inferstream.ext.calls import Action
from inferstream.ext.http import Answer, HttpDialect, ReadClaim, json_answer

from .security import describe_security


def has_always(_: Settings) -> bool:
    """Return True: the report does not depend on settings."""
    return True


class Runtimes(HttpDialect):
    """The route of the report."""

    name = "runtimes"

    def reads(self) -> Sequence[ReadClaim]:
        return [ReadClaim("/v2/runtimes", Action.SERVER_METADATA, _report)]


async def _report(*_: object) -> Answer:
    return json_answer(describe_security().model_dump(mode="json", exclude_none=True))
