"""The meters of the stage."""

from inferstream.ext.telemetry import MeterSet, counter


class HushMeters(MeterSet):
    refused: int = counter("shout_refused", "Calls that the stage refused")
