"""Code of models that does not return."""

import threading
from types import SimpleNamespace

from inferstream.tools.check.blocked import places, watched


def test_a_thread_in_code_of_a_model_is_where_that_code_is() -> None:
    inside, leave = threading.Event(), threading.Event()
    code = compile("def wait(e, l):\n    e.set()\n    l.wait(20)\n", "/models/m/model.py", "exec")
    names = vars(SimpleNamespace())
    exec(code, names)
    thread = threading.Thread(target=names["wait"], args=(inside, leave))
    thread.start()
    try:
        inside.wait(20)
        assert thread.ident is not None
        while "model.py:3" not in places()[thread.ident]:
            pass
    finally:
        leave.set()
        thread.join()
    assert thread.ident not in places()


def test_a_block_that_takes_too_long_is_told_of_from_a_thread() -> None:
    held = threading.Event()
    with watched(0.0, held.set):
        assert held.wait(20)
    late: list[int] = []
    with watched(1000.0, lambda: late.append(1)):
        pass
    assert late == []
