"""Settings of what clients keep for the server."""

from pydantic import field_validator

from inferstream.ext.settings import Section, expand_path


class StateSettings(Section):
    """The fields of `settings.json` for sealed states."""

    state_key_file: str | None = None
    """Keys that seal conversations into the ids of OpenAI's responses; needs the extra `state`."""

    _keys = field_validator("state_key_file")(expand_path)
