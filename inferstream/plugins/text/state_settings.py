"""Settings of state that clients store for the server."""

from pydantic import field_validator

from inferstream.ext.settings import Section, expand_path


class StateSettings(Section):
    """The fields of `settings.json` for sealed conversation state."""

    state_key_file: str | None = None
    """File of keys that encrypt conversations in the response ids of the OpenAI API. Requires the extra
    `state`."""

    _keys = field_validator("state_key_file")(expand_path)
