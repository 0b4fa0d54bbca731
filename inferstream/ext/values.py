"""Tensors, arrays and the metadata parameters that describe them."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..codecs.numpy import Array as Array
    from ..codecs.numpy import decoded as decode_array
    from ..codecs.numpy import encoded as encode_array
    from ..codecs.numpy import objects as object_array
    from ..codecs.numpy import octets as to_bytes
    from ..codecs.numpy import to_datatype as to_datatype
    from ..codecs.numpy import to_dtype as to_dtype
    from ..codecs.values.arrays import TensorHint as TensorHint
    from ..codecs.values.base import OPTIONAL as OPTIONAL
    from ..codecs.values.base import SCHEMA as SCHEMA
    from ..codecs.values.base import STREAM as STREAM
    from ..codecs.values.base import fact as parameter_of
    from ..codecs.values.images import open_image as open_image
    from ..codecs.values.tensor_objects import object_of as array_as_object
    from ..dataplane.checks import check_input as check_input
    from ..functions.function import Function as DescribedFunction
    from ..functions.function import pascal as pascal_case
    from ..signature import Description as Description
    from ..types.datatypes import DTYPES as DTYPES
    from ..types.json_encoding import encode as encode_json

__all__ = [
    "Array",
    "DTYPES",
    "DescribedFunction",
    "Description",
    "OPTIONAL",
    "SCHEMA",
    "STREAM",
    "TensorHint",
    "array_as_object",
    "check_input",
    "decode_array",
    "encode_array",
    "encode_json",
    "object_array",
    "open_image",
    "parameter_of",
    "pascal_case",
    "to_bytes",
    "to_datatype",
    "to_dtype",
]

_NAMES = {
    "codecs.numpy": "Array decoded=decode_array encoded=encode_array objects=object_array "
    "octets=to_bytes to_datatype to_dtype",
    "codecs.values.arrays": "TensorHint",
    "codecs.values.base": "OPTIONAL SCHEMA STREAM fact=parameter_of",
    "codecs.values.images": "open_image",
    "codecs.values.tensor_objects": "object_of=array_as_object",
    "dataplane.checks": "check_input",
    "functions.function": "Function=DescribedFunction pascal=pascal_case",
    "signature": "Description",
    "types.datatypes": "DTYPES",
    "types.json_encoding": "encode=encode_json",
}

__getattr__ = export(__name__, _NAMES)
