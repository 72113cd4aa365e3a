"""Addresses in settings: listeners as NAME://host:port, voters as id@host:port."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.model.errors import ConfigError
from tidelog.model.ids import parse_uuid_text

_LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9A-Za-z:.%]+\]|[^:\[\]/@ ]*):(\d{1,5})")
_HOST_PORT: Final = re.compile(r"(\[[0-9A-Za-z:.%]+\]|[^:\[\]/@ ]+):(\d{1,5})")
_VOTER_ID: Final = re.compile(r"\d{1,10}")


class Endpoint(NamedTuple):
    """A listener: its name and where it listens or is to be found."""

    name: str
    host: str
    port: int


class QuorumVoter(NamedTuple):
    """A member of a fixed quorum."""

    node_id: int
    host: str
    port: int


class InitialController(NamedTuple):
    """A member of the first quorum of a cluster: the node, where it listens, its directory."""

    node_id: int
    host: str
    port: int
    directory_id: UUID


def is_wildcard(host: str) -> bool:
    """Whether a host means all addresses of a machine, which is none to find it at."""
    return host in ("", "0.0.0.0", "::")


def address_text(host: str, port: int) -> str:
    """host:port as it is read back here: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_initial_controllers(text: str) -> tuple[InitialController, ...]:
    """id@host:port:directory, one after the other with commas between"""
    key = "--initial-controllers"
    controllers = []
    for each in text.split(","):
        address, _, directory = each.rpartition(":")
        try:
            directory_id = parse_uuid_text(directory)
        except ValueError:
            raise ConfigError(
                f"{key}: {each!r} is not of the form id@host:port:directory"
            ) from None
        controllers.append(InitialController(*parse_voter(key, address), directory_id))
    if len({controller.node_id for controller in controllers}) != len(controllers):
        raise ConfigError(f"{key} names a node twice")
    return tuple(controllers)


def parse_listener(key: str, text: str) -> Endpoint:
    """NAME://host:port, the host possibly empty."""
    match = _LISTENER.fullmatch(text)
    if match is None:
        raise ConfigError(f"{key}: {text!r} is not of the form NAME://host:port")
    return Endpoint(match[1].upper(), _bare(match[2]), _port(key, match[3]))


def parse_address(key: str, text: str) -> tuple[str, int]:
    """host:port"""
    match = _HOST_PORT.fullmatch(text)
    if match is None:
        raise ConfigError(f"{key}: {text!r} is not of the form host:port")
    return _bare(match[1]), _port(key, match[2])


def parse_voter(key: str, text: str) -> QuorumVoter:
    """id@host:port"""
    node_id, at, address = text.partition("@")
    if not at or not _VOTER_ID.fullmatch(node_id):
        raise ConfigError(f"{key}: {text!r} is not of the form id@host:port")
    return QuorumVoter(int(node_id), *parse_address(key, address))


def _bare(host: str) -> str:
    return host[1:-1] if host.startswith("[") else host


def _port(key: str, digits: str) -> int:
    port = int(digits)
    if port > 65535:
        raise ConfigError(f"{key}: {port} is not a port; must be between 0 and 65535")
    return port
