"""Code of models that does not return."""

import threading
from types import SimpleNamespace

from inferstream.plugins.tools.check.blocked import find_positions, watch_block


def test_blocked_thread_is_located_in_model_code() -> None:
    inside, leave = threading.Event(), threading.Event()
    code = compile("def wait(e, l):\n    e.set()\n    l.wait(20)\n", "/models/m/model.py", "exec")
    names = vars(SimpleNamespace())
    exec(code, names)
    thread = threading.Thread(target=names["wait"], args=(inside, leave))
    thread.start()
    try:
        inside.wait(20)
        assert thread.ident is not None
        while "model.py:3" not in find_positions()[thread.ident]:
            pass
    finally:
        leave.set()
        thread.join()
    assert thread.ident not in find_positions()


def test_long_block_is_reported_from_a_thread() -> None:
    held = threading.Event()
    with watch_block(0.0, held.set):
        assert held.wait(20)
    late: list[int] = []
    with watch_block(1000.0, lambda: late.append(1)):
        pass
    assert late == []
