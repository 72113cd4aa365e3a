"""From a frame to its handler and back: decode, handle, put the answer in its place.

Invariant  A frame that cannot be read closes its own connection and touches nothing else.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.time import Now
from tidelog.node.api import CONTROLLER_HANDLERS, HANDLERS
from tidelog.node.broker_state import BrokerState
from tidelog.node.core.connections import Connection
from tidelog.node.core.request import Later, Request
from tidelog.observe.events import ConnectionDropped
from tidelog.protocol.apis import FORWARDED, SUPPORTED, ApiKey
from tidelog.protocol.entity_messages import decode_request
from tidelog.protocol.fetch import decode_fetch
from tidelog.protocol.frame import MalformedRequest, read_request_header
from tidelog.protocol.produce import decode_produce

_NO_FRAME: Final = memoryview(b"")


def frame_arrived(broker: BrokerState, now: Now, connection: Connection, frame: memoryview) -> None:
    """Work on one request."""
    try:
        request = _decode(broker, now, connection, frame)
    except MalformedRequest as error:
        broker.announce(
            ConnectionDropped(
                listener=connection.listener, peer_host=connection.peer_host, cause=str(error)
            )
        )
        connection.close(str(error))
        return
    is_controllers = connection.listener in broker.controller_names
    handlers = CONTROLLER_HANDLERS if is_controllers else HANDLERS
    reply = handlers[request.api_key](broker, request)
    if isinstance(reply, Later):
        if reply is Later.HANG_UP:
            connection.close("a request without acknowledgement failed")
        return
    connection.answer_now(request.encode(reply))


def _decode(broker: BrokerState, now: Now, connection: Connection, frame: memoryview) -> Request:
    header = read_request_header(frame)
    key, version = header.api_key, header.api_version
    if key not in broker.served_on(connection.listener):
        raise MalformedRequest(f"{key.name} is not served on listener {connection.listener}")
    body = frame[header.body_offset :]
    decoded: object
    if key is ApiKey.PRODUCE:
        decoded = decode_produce(body, version)
    elif key is ApiKey.FETCH:
        decoded = decode_fetch(body, version)
    elif version > SUPPORTED[key].max:
        decoded = None
    else:
        decoded = decode_request(key, version, body)
    # What waits must not hold on to the shell's buffer, so the hot path goes without the frame.
    as_it_came = frame if key in FORWARDED else _NO_FRAME
    return Request(
        now, connection, key, version, header.correlation_id, header.client_id, decoded, as_it_came
    )
