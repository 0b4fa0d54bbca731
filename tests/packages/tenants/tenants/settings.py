"""The settings of the plug-in."""

from typing import Annotated

from pydantic import Field

from inferstream.ext.settings import Section


class TenantsSettings(Section):
    tenants: dict[str, Annotated[int, Field(ge=1)]] = {}
    """Calls per minute of each tenant. Without tenants the plug-in is off."""

    tenants_header: str = "x-tenant"
    """Header that names the tenant."""
