"""`server tail`: shows the access log of a running server, as the server's own terminal would."""

import json
import sys
from datetime import UTC, datetime
from typing import Any

import httpx
import typer

from inferstream.ext.hosting import ClientTarget, report_errors

from ..clients.events import EventParser
from ..clients.transport import NEEDS_KEY
from ..errors import CallFailed, ConnectionFailed
from ..extensions import DIALECTS, loaded
from ..telemetry.access import AccessRecord
from ..telemetry.console import access_line, coloured

SILENCE = 45.0
"""Seconds without a sign of life after which the server counts as gone; it sends one each 15 s."""

CONNECT = 10.0
"""Seconds to reach the server."""


@report_errors
def run(target: ClientTarget, model: str | None, errors: bool, as_json: bool) -> int:
    """Show calls as they end, until the server stops or the user does. Returns the exit code."""
    for _ in loaded(DIALECTS, strict=False):
        pass  # a dialect says how lines name it when it is imported

    asked = {"errors": "true"} if errors else {}
    if model is not None:
        asked["model"] = model
    try:
        return _print_lines(target, asked, as_json)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConnectionFailed(f"{target.base}: {error or type(error).__name__}") from None


def _print_lines(target: ClientTarget, asked: dict[str, str], as_json: bool) -> int:
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
        parser = EventParser()
        for chunk in response.iter_bytes():
            for name, data in parser.feed(chunk):
                typer.echo(shown(name, data, as_json))
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


def shown(name: str, data: bytes, as_json: bool) -> str:
    """The line of an event: a record, or the number of records that this reader was too slow for."""
    fields = json.loads(data)
    if name == "dropped":
        return (
            data.decode() if as_json else f"{fields['dropped']} lines were dropped: this reader is too slow"
        )
    if as_json:
        time = datetime.fromtimestamp(fields["time"], UTC).isoformat(timespec="milliseconds")
        return json.dumps({**fields, "time": time})
    return access_line(record_of(fields), coloured(sys.stdout))


def record_of(fields: dict[str, Any]) -> AccessRecord:
    """The record that an object describes. What is absent is empty."""
    values: dict[str, Any] = {
        name: fields.get(name, 0 if kind in (int, float) else "")
        for name, kind in AccessRecord.__annotations__.items()
    }
    return AccessRecord(**{**values, "seconds": fields.get("ms", 0.0) / 1000})
