"""Runs the cases against any port: `python -m tests.conformance.http2 HOST:PORT [PART OF A NAME]`."""

import sys

from .cases import CASES
from .conversation import Conversation


def main(address: str, part: str = "") -> int:
    host, _, port = address.rpartition(":")
    failed = 0
    chosen = [case for case in CASES if part in f"{case.section} {case.what}"]
    for case in chosen:
        try:
            with Conversation((host, int(port))) as conversation:
                case.run(conversation)
        except (AssertionError, OSError) as error:
            failed += 1
            print(f"{case.section:8}{case.what}: {type(error).__name__} {error}")
    print(f"{len(chosen)} cases, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
