"""Starts a part of the server in any Python environment. Its own packages precede those of the server.

The script runs before any import, and always with the server's own code, because both must have the same frames.
"""

import gc
import json
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location


def start(main: str, package: str, paths: str, *arguments: str) -> None:
    gc.disable()  # imports make no garbage, and collections take a tenth of their time
    sys.path.extend(path for path in json.loads(paths) if path not in sys.path)
    spec = spec_from_file_location(
        "inferstream", f"{package}/__init__.py", submodule_search_locations=[package]
    )
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["inferstream"] = module
    spec.loader.exec_module(module)

    begin = import_module(main).main
    gc.freeze()
    gc.enable()
    begin(*map(int, arguments))


if __name__ == "__main__":
    start(*sys.argv[1:])
