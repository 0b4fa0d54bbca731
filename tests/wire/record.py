"""Records what the server answers, for `test_corpus.py`: `python -m tests.wire.record`, or with names of setups."""

import sys
import tempfile
from pathlib import Path

from .corpus import SETUPS, ask, write


def main() -> None:
    recorded = set()
    for name in sys.argv[1:] or SETUPS:
        setup = SETUPS[name]
        if recorded.issuperset(setup.faces.values()):
            continue  # the test compares it with what another one has answered
        with tempfile.TemporaryDirectory() as folder:
            for file, responses in ask(setup, Path(folder) / "models").items():
                if file not in recorded:
                    write(file, responses)
                    recorded.add(file)
                    print(f"{name}: {len(responses)} responses in {file}.json")


if __name__ == "__main__":
    main()
