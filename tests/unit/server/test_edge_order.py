"""The edges of a server, and what those that are off cost."""

import subprocess
import sys

WITHOUT_PORTS = """
import asyncio, sys
from inferstream import App, Application

app = App()

@app.model
def add(a: int, b: int = 1) -> int:
    return a + b

async def main():
    async with Application(app) as application:
        print(await application.predict("add", a=1))

asyncio.run(main())
print("google.protobuf" in sys.modules)
"""


def test_application_without_ports_does_not_import_protobuf() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_PORTS], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "2\nFalse\n", ran.stderr
