"""Permissions: nobody is served after his has gone (A1), and everybody who has one is (A2).

What a node goes by is read from its metadata, rule by rule, not from what its authorizer makes of
them; what it said is read from what it sent.

Invariant  A step may apply a change and serve a request, in either order: it is judged by both.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from tidelog.controller.image import ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.node.core.effects import Send
from tidelog.node.core.inputs import ConnectionClosed, ConnectionOpened, FrameArrived
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import decode_fetch_response
from tidelog.protocol.parts import joined
from tidelog.protocol.produce import decode_produce_response
from tidelog.security.acls import AclOperation, AclPermission
from tidelog.simulator.clients.guests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    Doorkeeper,
    Guest,
    GuestReader,
    GuestWriter,
)
from tidelog.simulator.rules.carried import api_of
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import Died, Happening, Started, Stepped
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.world import World

_NEEDED: Final = {
    ApiKey.PRODUCE: AclOperation.WRITE,
    ApiKey.FETCH: AclOperation.READ,
}


class _Conversation(NamedTuple):
    """What a guest asked on one connection, by correlation id."""

    guest: Guest
    asked: dict[int, ApiKey]


class AccessRules:
    """Judges what guests are given."""

    def __init__(
        self, world: World, doorkeeper: Doorkeeper, writer: GuestWriter, reader: GuestReader
    ) -> None:
        self._world = world
        self._doorkeeper = doorkeeper
        self._guests = (writer, reader)
        self._by_address: dict[str, Guest] = {}
        self._conversations: dict[tuple[int, int], _Conversation] = {}
        self._allowed: dict[int, frozenset[tuple[str, AclOperation]]] = {}
        """By node: what guests were allowed by the rules it had applied before its last step."""

    def watch(self) -> None:
        """Look at everything from now on."""
        self._by_address = {guest.host.address: guest for guest in self._guests}
        self._world.observers.append(self._look)
        for guest in self._guests:
            self._world.expect("A2", partial(self._not_served, guest))

    def _not_served(self, guest: Guest) -> str | None:
        calm_ms = self._world.calm_since_ms
        if not self._doorkeeper.is_done:
            return "what was forbidden is not allowed again"
        if calm_ms is not None and guest.served_ms <= calm_ms:
            return f"{guest.name} is not served although everything is allowed"
        return None

    def _look(self, _world: World, happening: Happening) -> None:
        match happening:
            case Started(machine=machine) | Died(machine=machine):
                own = machine.node_id
                self._allowed.pop(own, None)
                for key in [key for key in self._conversations if key[0] == own]:
                    del self._conversations[key]
            case Stepped(machine=machine):
                self._note(machine.node_id, happening)
                self._judge(machine, happening)
            case _:
                pass

    def _note(self, own: int, step: Stepped) -> None:
        match step.happened:
            case ConnectionOpened(connection=number, peer_host=host):
                if host in self._by_address:
                    guest = self._by_address[host]
                    self._conversations[own, number] = _Conversation(guest, {})
            case ConnectionClosed(connection=number):
                self._conversations.pop((own, number), None)
            case FrameArrived(connection=number):
                conversation = self._conversations.get((own, number))
                if conversation is not None and api_of(step.frame) in _NEEDED:
                    correlation_id = int.from_bytes(step.frame[4:8], "big")
                    conversation.asked[correlation_id] = ApiKey(api_of(step.frame))
            case _:
                pass

    def _judge(self, machine: Machine, step: Stepped) -> None:
        if machine.node is None:
            return
        own = machine.node_id
        after = self._allowed_by(machine.node.cluster.image)
        before = self._allowed.get(own, after)
        self._allowed[own] = after
        for effect in step.effects:
            if type(effect) is not Send:
                continue
            conversation = self._conversations.get((own, effect.connection))
            if conversation is None:
                continue
            frame = joined(effect.parts)
            key = conversation.asked.pop(int.from_bytes(frame[:4], "big"), None)
            if key is None or not _is_served(key, frame):
                continue
            guest, operation = conversation.guest, _NEEDED[key]
            if (guest.host.address, operation) not in before | after:
                raise Violation(
                    "A1", f"{machine.name} serves {key.name} to {guest.name}, who may not do that"
                )

    def _allowed_by(self, image: ClusterImage) -> frozenset[tuple[str, AclOperation]]:
        """What the rules of an image allow to guests, plainly read."""
        rules = [
            rule
            for rule in image.access.rules.values()
            if rule.resource_name == self._guests[0].partition.topic
        ]
        return frozenset(
            (address, operation)
            for address in self._by_address
            for operation in _NEEDED.values()
            if not any(
                rule.permission_type == AclPermission.DENY
                and rule.host in ("*", address)
                and rule.operation in (AclOperation.ALL, operation)
                for rule in rules
            )
        )


def _is_served(key: ApiKey, frame: bytes) -> bool:
    """Whether an answer gives what was asked for."""
    if key is ApiKey.PRODUCE:
        produced = decode_produce_response(frame, PRODUCE_VERSION)
        codes = [part.error for topic in produced.topics for part in topic.partitions]
    else:
        fetched = decode_fetch_response(memoryview(frame), FETCH_VERSION)
        codes = [part.error for topic in fetched.topics for part in topic.partitions]
    return ErrorCode.none in codes
