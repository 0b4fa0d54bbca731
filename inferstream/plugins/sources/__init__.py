"""Sources: models from object stores, registries, hubs and HTTPS."""

from inferstream.ext import Extension, Flag

extension = Extension(
    "sources",
    settings="inferstream.settings.fetching:FetchSettings",
    flags={
        "trust-remote-code": Flag("Run code and unpickle files of a remote TARGET.", bool, after="strict"),
        "offline": Flag("Serve remote URIs from the cache alone.", bool, after="trust-remote-code"),
    },
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
