"""Start a worker or front-end process in any Python environment.

Packages of that environment take precedence over the packages of the server's environment.

The script imports the server's own copy of inferstream, never one installed in the environment, because both
processes must agree on the format of frames. It runs before any other import.
"""

import gc
import json
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location


def start(main: str, package: str, paths: str, *arguments: str) -> None:
    gc.disable()  # Imports create no garbage, but collection would take 10% of their time.
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
