"""Memory sizes with units: `600MB`, `1.5GiB`, or a number of bytes."""

import re

UNITS = {"": 1, "B": 1} | {
    name: base**power
    for power, letter in enumerate("KMGT", 1)
    for name, base in ((f"{letter}B", 1000), (f"{letter}IB", 1024))
}


def parse_size(value: object) -> object:
    """Convert a size with a unit to bytes. Returns values other than strings unchanged. Raises ValueError."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip(), re.IGNORECASE)
    if match is None or match[2].upper() not in UNITS:
        raise ValueError(f'a size is a number of bytes, or a number with a unit as in "600MB"; got {value!r}')
    return int(float(match[1]) * UNITS[match[2].upper()])


def shown_size(size: int) -> str:
    """Format a size in MB or GB for messages."""
    return f"{size / 1e9:.1f} GB" if size >= 10**9 else f"{size / 1e6:.0f} MB"
