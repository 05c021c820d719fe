"""The JSON-RPC envelope, decoded one level deep: values and ids stay the original bytes.

Owns: the names that rooms use. What clients send is read here, strictly; what upstreams send is
read by `upstream_messages`, which saves what it can.
"""

from armory.protocol.jsonrpc.failures import ErrorObject, code_of, error, error_of, well_formed
from armory.protocol.jsonrpc.reading import (
    BEGINNING_BYTES,
    BOM,
    MAX_ID_BYTES,
    NULL,
    Message,
    decode,
    decoding,
    opening_message,
    opening_params,
    params_of,
)
from armory.protocol.jsonrpc.writing import (
    Part,
    Parted,
    error_response,
    notification,
    request,
    request_in_parts,
    response,
    response_parts,
)

__all__ = [
    "BEGINNING_BYTES",
    "BOM",
    "MAX_ID_BYTES",
    "NULL",
    "ErrorObject",
    "Message",
    "Part",
    "Parted",
    "code_of",
    "decode",
    "decoding",
    "error",
    "error_of",
    "error_response",
    "notification",
    "opening_message",
    "opening_params",
    "params_of",
    "request",
    "request_in_parts",
    "response",
    "response_parts",
    "well_formed",
]
