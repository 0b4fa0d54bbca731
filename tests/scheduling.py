"""Which process of pytest-xdist runs which tests."""

import re

from xdist.scheduler import LoadScopeScheduling


class ByFile(LoadScopeScheduling):
    """
    Gives each process whole files, so that the server of a file starts in one process only.

    The tests of a file with workers and those without are apart, and so are those of each engine of gRPC: pytest
    sorts all tests by that, and the server of the session then changes once and not with each file.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        return file + "".join(re.findall(r"(?<=[\[-])(in-process|workers|auto|grpcio)(?=[\]-])", test))
