"""A server of the protocol that the cases pass, in one file, and the ways in which it can be wrong.

`wrong` names what it does otherwise than it should: a name that `Mutation` below has.
"""

import gzip
import json
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from oip_conformance.messages import TABLE, message
from oip_conformance.outcome import Difference
from oip_conformance.server import flat
from oip_conformance.tensors import DATATYPES

LENGTH = "Inference-Header-Content-Length"
TENSORS = {"FP32": "0", "BYTES": "1"}
STREAM = "stream"
