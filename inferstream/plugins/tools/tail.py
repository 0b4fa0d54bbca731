"""`server tail`: shows the access log of a running server, formatted as on the server's terminal."""

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import httpx
import typer

from inferstream.errors import CallFailed, ConnectionFailed
from inferstream.ext.hosting import ClientTarget, report_errors, server_unreachable
from inferstream.ext.telemetry import AccessFormatter

from .messages import NEEDS_KEY

SILENCE = 45.0
"""Seconds without data after which the connection is considered lost.

The server sends a heartbeat every 15 s.
"""

CONNECT = 10.0
"""Connection timeout in seconds."""


@report_errors
def run(target: ClientTarget, model: str | None, errors: bool, as_json: bool) -> int:
    """Show calls as they finish, until the server stops or the user interrupts. Returns the exit code."""
    asked = {"errors": "true"} if errors else {}
    if model is not None:
        asked["model"] = model
    try:
        return _print_lines(target, asked, None if as_json else AccessFormatter(sys.stdout))
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise server_unreachable(target.base, error) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConnectionFailed(f"{target.base}: {error or type(error).__name__}") from None


def _print_lines(target: ClientTarget, asked: dict[str, str], formatter: AccessFormatter | None) -> int:
    timeout = httpx.Timeout(CONNECT, read=SILENCE)
    with httpx.stream(
        "GET",
        f"{target.base}/v2/access",
        params=asked,
        headers=target.headers,
        timeout=timeout,
        verify=target.verifies,
    ) as response:
        if response.status_code != 200:
            response.read()
            raise CallFailed(f"{target.base}: {_reason(response)}")
        typer.echo(f"following {target.base}; Ctrl+C ends", err=True)
        for name, data in _events(response.iter_bytes()):
            typer.echo(format_event(name, data, formatter))
    typer.echo("the server has stopped", err=True)
    return 0


def _reason(response: httpx.Response) -> str:
    if response.status_code == 401:
        return NEEDS_KEY
    if response.status_code == 404:
        return "there is no access log to follow; the server is another one, or an older one"
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {response.status_code}"


def _events(chunks: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and data of each server-sent event. The server sends one line of data per event."""
    name, rest = "", b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            field, _, value = line.partition(b": ")
            if field == b"event":
                name = value.decode()
            elif field == b"data":
                yield name, value
                name = ""


def format_event(name: str, data: bytes, formatter: AccessFormatter | None) -> str:
    """Format an event: an access record, or the number of records that were dropped for a slow reader.

    Without a formatter, returns JSON.
    """
    fields = json.loads(data)
    if formatter is None:
        return (
            data.decode()
            if name == "dropped"
            else json.dumps({**fields, "time": _format_time(fields["time"])})
        )
    if name == "dropped":
        return f"{fields['dropped']} lines were dropped: this reader is too slow"
    return formatter.format(fields)


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
