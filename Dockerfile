# A small image that serves the folder in MLSERVER_MODELS_DIR as an unprivileged user.
# Runtimes of models without code: docker build --build-arg EXTRAS=sklearn,xgboost --tag inferstream:0.1.0 .
ARG BASE=python:3.11-slim
FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY inferstream ./inferstream
ARG EXTRAS
# KServe and Seldon set tracing variables, and some deployments call the command `mlserver`.
RUN python -m venv /opt/inferstream \
 && /opt/inferstream/bin/pip install --no-cache-dir -c constraints.txt ".[tracing${EXTRAS:+,$EXTRAS}]" \
 && /opt/inferstream/bin/server alias mlserver
# The name ends as scanners expect. They read the packages of Debian from the image itself.
RUN python -m venv /tmp/sbom \
 && /tmp/sbom/bin/pip install --no-cache-dir "cyclonedx-bom>=7,<8" \
 && /tmp/sbom/bin/cyclonedx-py environment --output-file /opt/inferstream/sbom.cdx.json /opt/inferstream/bin/python

FROM ${BASE}
# curl is for exec probes, libgomp1 for LightGBM.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends curl libgomp1 \
 && rm -rf /var/lib/apt/lists/*
# OpenShift runs containers with any user ID, in group 0.
RUN useradd --uid 1000 --gid 0 --home-dir /home/server --shell /usr/sbin/nologin server \
 && mkdir -p /home/server /mnt/models && chown 1000:0 /home/server && chmod 775 /home/server
COPY --from=build /opt/inferstream /opt/inferstream
LABEL org.opencontainers.image.title=inferstream \
    org.opencontainers.image.licenses=Apache-2.0 \
    inferstream.sbom=/opt/inferstream/sbom.cdx.json
ENV PATH=/opt/inferstream/bin:$PATH \
    HOME=/home/server \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MLSERVER_HOST=0.0.0.0 \
    MLSERVER_MODELS_DIR=/mnt/models
USER 1000
WORKDIR /home/server
EXPOSE 8080 8081 8082
HEALTHCHECK --interval=10s --timeout=2s CMD curl -fso /dev/null "http://127.0.0.1:${INFERSTREAM_HTTP_PORT:-${MLSERVER_HTTP_PORT:-8080}}/v2/health/ready"
# Without an entry point, `args` of a pod may be a command, as with MLServer's image.
CMD ["server", "start"]
