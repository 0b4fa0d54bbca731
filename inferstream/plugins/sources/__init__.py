"""Sources: models from object stores, registries, hubs and HTTPS."""

from inferstream.ext import Extension

extension = Extension(
    "sources",
    settings="inferstream.settings.fetching:FetchSettings",
    sources={
        "az": "inferstream.sources.objects:Objects",
        "gs": "inferstream.sources.objects:Objects",
        "hf": "inferstream.sources.hub:HubModel",
        "https": "inferstream.sources.http:HttpsFile",
        "oci": "inferstream.sources.registry:RegistryImage",
        "s3": "inferstream.sources.objects:Objects",
    },
    fetchers={
        "repository": "inferstream.repository.fetched:FetchedRepository",
        "artefacts": "inferstream.repository.fetched:Artefacts",
    },
)
