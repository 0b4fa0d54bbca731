"""The action for requests that manage shared memory regions."""

from inferstream.ext.calls import Action

SHARED_MEMORY = Action("shared_memory", scope="infer")
