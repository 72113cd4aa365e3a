"""One module for each API, with the classes of its request, its response and their structs.

All but this file is generated, by `make messages`. Produce and Fetch are written by hand, beside
this package: their records stay where they are.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from tidelog.protocol.apis import ApiKey
from tidelog.protocol.message import RequestMessage


class UnknownApi(LookupError):
    """No generated message has that key."""


@cache
def request_class(api_key: int) -> type[RequestMessage[Any]]:
    """The class of an API's requests, which knows that of its responses; imported at first use."""
    try:
        name = ApiKey(api_key).name
        module = import_module(f"tidelog.protocol.messages.{name.lower()}")
    except (ModuleNotFoundError, ValueError) as error:
        raise UnknownApi(f"API key {api_key} has no messages") from error
    words = "".join(word.capitalize() for word in name.split("_"))
    request: type[RequestMessage[Any]] = getattr(module, f"{words}Request")
    return request
