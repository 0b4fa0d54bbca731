"""Tenants: several teams share one server, each with its own limit."""

from inferstream.ext import Extension, Flag

extension = Extension(
    "tenants",
    settings="tenants.settings:TenantsSettings",
    flags={"tenants-header": Flag("Header that names the tenant (default: x-tenant).", after="strict")},
    authority="tenants.authority:TenantAuthority",
    facets={"tenants": "tenants.facet:find_text_input"},
    stages={"tenants": "tenants.stage:limit_calls"},
    dialects={"tenants": "tenants.dialect:UsageDialect"},
)
