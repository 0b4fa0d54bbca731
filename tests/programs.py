"""Programs that tests write and run."""

import subprocess
from pathlib import Path


def write_program(path: Path, text: str) -> None:
    """Write an executable from another process.

    A process that a thread of the tests starts meanwhile would inherit a file that is open for writing here, and while
    it has it nobody can run the program (`Text file busy`).
    """
    write = ["/bin/sh", "-c", 'cat > "$1" && chmod 755 "$1"', "sh", str(path)]
    subprocess.run(write, input=text.encode(), check=True)
