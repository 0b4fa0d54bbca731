"""Serves the models beside it under /models of a FastAPI application: `uvicorn app:app`, or `hypercorn app:app`."""

from pathlib import Path

from fastapi import FastAPI

from inferstream import Application

application = Application(Path(__file__).parent / "models")
app = FastAPI(lifespan=application.lifespan)


@app.get("/")
def home() -> dict[str, str]:
    return {"models": "/models/v2"}


app.mount("/models", application.asgi)
