"""`/proto`: the `.proto` files of the gRPC port, as a list and as text, for clients that reflection does not serve."""

import orjson
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from ...dataplane.dataplane import DataPlane
from ...protos.published import ProtoFile, published
from ...settings import Settings
from .messages import CALLER, PREFIX
from .paths import PROTO, PROTOS, template


def add_protos(app: FastAPI, dataplane: DataPlane, settings: Settings) -> None:
    """Add the routes. The files of typed RPCs follow the models that are loaded."""

    def files(request: Request) -> list[ProtoFile]:
        caller = request.scope[CALLER]
        return published(model for model in dataplane.typed_models() if caller.sees(model[0]))

    @app.get(PROTOS)
    async def index(request: Request) -> Response:
        prefix = str(request.scope.get(PREFIX, settings.root_path))
        listed = [
            {"name": file.name, "services": file.services, "path": f"{prefix}/proto/{file.name}"}
            for file in files(request)
        ]
        return Response(orjson.dumps(listed), media_type="application/json")

    @app.get(template(PROTO))
    async def text(name: str, request: Request) -> Response:
        named = next((file for file in files(request) if file.name == name), None)
        if named is None:
            names = ", ".join(file.name for file in files(request))
            raise HTTPException(404, f'There is no file "{name}". The files are: {names}')
        return Response(named.text, media_type="text/plain; charset=utf-8")
