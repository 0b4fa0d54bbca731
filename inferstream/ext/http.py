"""HTTP dialects: their routes, requests and responses."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..dataplane.gathering import GatherLimit as GatherLimit
    from ..dataplane.json_limits import json_limits as json_limits
    from ..protos.json_arrays import parse as parse_json
    from ..protos.json_body import JsonBody as JsonBody
    from ..protos.json_checks import JsonLimits as JsonLimits
    from ..protos.json_checks import count_keys as keys_in
    from ..protos.json_checks import has_keys as has_keys
    from ..protos.json_checks import refuse_duplicate_keys as refuse_duplicate_keys
    from ..protos.json_responses import IN_JSON as JSON_WRITER
    from ..protos.json_responses import dump as dump_json
    from ..protos.multipart import parts_of as read_parts
    from ..server.edge import Edge as Edge
    from ..server.edge import Listener as Listener
    from ..server.edge import Serve as Serve
    from ..server.edge import ServeBytes as ServeBytes
    from ..server.rest.dialects.base import Answer as Answer
    from ..server.rest.dialects.base import Gathering as Gathering
    from ..server.rest.dialects.base import GatheringRequest as GatheringRequest
    from ..server.rest.dialects.base import HttpDialect as HttpDialect
    from ..server.rest.dialects.base import InferenceDialect as InferenceDialect
    from ..server.rest.dialects.base import ParsedRequest as ParsedRequest
    from ..server.rest.dialects.base import ReadClaim as ReadClaim
    from ..server.rest.dialects.base import ReadRoute as ReadRoute
    from ..server.rest.dialects.base import Route as Route
    from ..server.rest.dialects.base import in_json as json_answer
    from ..server.rest.dialects.generate_format import GenerateFormat as GenerateFormat
    from ..server.rest.dialects.operations import EVENTS as EVENT_STREAM
    from ..server.rest.dialects.operations import OBJECT as OBJECT
    from ..server.rest.dialects.operations import OBJECTS as OBJECTS
    from ..server.rest.dialects.operations import getting as describe_get
    from ..server.rest.dialects.operations import posting as describe_post
    from ..server.rest.dialects.unary_request import UnaryRequest as UnaryRequest
    from ..server.rest.exchange import Exchange as Exchange
    from ..server.rest.messages import JSON as JSON_HEADER
    from ..server.rest.messages import RawHeaders as RawHeaders
    from ..server.rest.messages import Receive as Receive
    from ..server.rest.messages import Scope as AsgiScope
    from ..server.rest.messages import Send as Send
    from ..server.rest.routing import build_action_finder as build_action_finder
    from ..server.status import http_headers as error_headers
    from ..server.status import status_of as status_of
    from ..statuses import HTTP_OF_GRPC as HTTP_OF_GRPC
    from ..statuses import TABLE as STATUSES

__all__ = [
    "Answer",
    "AsgiScope",
    "EVENT_STREAM",
    "Edge",
    "Exchange",
    "GatherLimit",
    "Gathering",
    "GatheringRequest",
    "GenerateFormat",
    "HTTP_OF_GRPC",
    "HttpDialect",
    "InferenceDialect",
    "JSON_HEADER",
    "JSON_WRITER",
    "JsonBody",
    "JsonLimits",
    "Listener",
    "OBJECT",
    "OBJECTS",
    "ParsedRequest",
    "RawHeaders",
    "ReadClaim",
    "ReadRoute",
    "Receive",
    "Route",
    "STATUSES",
    "Send",
    "Serve",
    "ServeBytes",
    "UnaryRequest",
    "build_action_finder",
    "describe_get",
    "describe_post",
    "dump_json",
    "error_headers",
    "has_keys",
    "json_answer",
    "json_limits",
    "keys_in",
    "parse_json",
    "read_parts",
    "refuse_duplicate_keys",
    "status_of",
]

_NAMES = {
    "dataplane.gathering": "GatherLimit",
    "dataplane.json_limits": "json_limits",
    "protos.json_arrays": "parse=parse_json",
    "protos.json_body": "JsonBody",
    "protos.json_checks": "JsonLimits has_keys count_keys=keys_in refuse_duplicate_keys",
    "protos.json_responses": "IN_JSON=JSON_WRITER dump=dump_json",
    "protos.multipart": "parts_of=read_parts",
    "server.edge": "Edge Listener Serve ServeBytes",
    "server.rest.dialects.base": "Answer Gathering GatheringRequest HttpDialect InferenceDialect ParsedRequest "
    "ReadClaim ReadRoute Route in_json=json_answer",
    "server.rest.dialects.generate_format": "GenerateFormat",
    "server.rest.dialects.operations": "EVENTS=EVENT_STREAM OBJECT OBJECTS "
    "getting=describe_get posting=describe_post",
    "server.rest.dialects.unary_request": "UnaryRequest",
    "server.rest.exchange": "Exchange",
    "server.rest.messages": "JSON=JSON_HEADER RawHeaders Receive Scope=AsgiScope Send",
    "server.rest.routing": "build_action_finder",
    "server.status": "http_headers=error_headers status_of",
    "statuses": "HTTP_OF_GRPC TABLE=STATUSES",
}

__getattr__ = export(__name__, _NAMES)
