"""`server tail`: shows the access log of a running server, as the server's own terminal would."""

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import httpx
import typer

from inferstream.ext.hosting import ClientTarget, report_errors
from inferstream.ext.telemetry import AccessFormatter
from inferstream.plugins.tools.messages import NEEDS_KEY

from ..errors import CallFailed, ConnectionFailed

SILENCE = 45.0
"""Seconds without a sign of life after which the server counts as gone; it sends one each 15 s."""

CONNECT = 10.0
"""Seconds to reach the server."""


@report_errors
def run(target: ClientTarget, model: str | None, errors: bool, as_json: bool) -> int:
    """Show calls as they end, until the server stops or the user does. Returns the exit code."""
    asked = {"errors": "true"} if errors else {}
    if model is not None:
        asked["model"] = model
    try:
        return _print_lines(target, asked, None if as_json else AccessFormatter(sys.stdout))
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
            typer.echo(shown(name, data, formatter))
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
    """The name and the data of each server-sent event. The server writes one line of data for each."""
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


def shown(name: str, data: bytes, formatter: AccessFormatter | None) -> str:
    """The line of an event: a record, or the number of records that this reader was too slow for.

    Without a formatter it is JSON.
    """
    fields = json.loads(data)
    if formatter is None:
        return data.decode() if name == "dropped" else json.dumps({**fields, "time": _moment(fields["time"])})
    if name == "dropped":
        return f"{fields['dropped']} lines were dropped: this reader is too slow"
    return formatter.format(fields)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
