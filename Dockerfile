# A small image that serves /mnt/models as an unprivileged user.
# Runtimes of models without code: docker build --build-arg EXTRAS=sklearn,xgboost --tag inferstream:0.1.0 .
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY inferstream ./inferstream
ARG EXTRAS
RUN python -m venv /opt/inferstream \
 && /opt/inferstream/bin/pip install --no-cache-dir -c constraints.txt ".${EXTRAS:+[$EXTRAS]}"

FROM python:3.11-slim
RUN useradd --uid 1000 --no-create-home --shell /usr/sbin/nologin server
COPY --from=build /opt/inferstream /opt/inferstream
ENV PATH=/opt/inferstream/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    INFERSTREAM_HOST=0.0.0.0 \
    MLSERVER_MODELS_DIR=/mnt/models
USER 1000
WORKDIR /tmp
EXPOSE 8080 8081 8082
HEALTHCHECK --interval=10s --timeout=2s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/v2/health/ready')"]
ENTRYPOINT ["server"]
CMD ["start", "/mnt/models"]
