"""Model sources: object stores, container registries, the Hugging Face hub and HTTPS."""

from inferstream.ext import Extension, Flag

extension = Extension(
    "sources",
    settings="inferstream.plugins.sources.settings:FetchSettings",
    flags={
        "trust-remote-code": Flag("Run code and unpickle files from a remote TARGET.", bool, after="strict"),
        "offline": Flag("Serve remote URIs only from the cache.", bool, after="trust-remote-code"),
    },
    sources={
        "az": "inferstream.plugins.sources.objects:Objects",
        "gs": "inferstream.plugins.sources.objects:Objects",
        "hf": "inferstream.plugins.sources.hub:HubModel",
        "https": "inferstream.plugins.sources.http:HttpsFile",
        "oci": "inferstream.plugins.sources.registry:RegistryImage",
        "s3": "inferstream.plugins.sources.objects:Objects",
    },
    fetchers={
        "repository": "inferstream.plugins.sources.fetched_artefacts:FetchedRepository",
        "artefacts": "inferstream.plugins.sources.fetched_artefacts:Artefacts",
    },
)
