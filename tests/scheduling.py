"""Which process of pytest-xdist runs which tests."""

import re

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController


class ByFile(LoadScopeScheduling):
    """
    Gives each process whole files, so that the server of a file starts in one process only.

    The tests of a file with workers and those without are apart, and so are those of each engine of gRPC: pytest
    sorts all tests by that, and the server of the session then changes once and not with each file.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        return file + "".join(re.findall(r"(?<=[\[-])(in-process|workers|auto|grpcio)(?=[\]-])", test))

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget the test. Who counts those that are left, after each test, looks at all that are kept."""
        test = self.registered_collections[node][item_index]
        assigned = self.assigned_work[node]
        scope = self._split_scope(test)
        del assigned[scope][test]
        if not assigned[scope]:
            del assigned[scope]
        self._reschedule(node)
