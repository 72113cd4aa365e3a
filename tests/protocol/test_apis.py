from __future__ import annotations

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map
from tests.known_versions import known_versions

from tidelog.protocol.apis import SUPPORTED, ApiKey, ListenerScope, VersionRange

KNOWN_ONLY_TO_NEWER_KAFKA = {93, 94}


def test_every_api_key_of_the_protocol_has_its_name() -> None:
    named = {int(key): key.name.lower() for key in ApiKey}

    assert named.keys() - api_key_map.keys() == KNOWN_ONLY_TO_NEWER_KAFKA
    assert {key: named[key] for key in api_key_map} == dict(api_key_map)


@pytest.mark.parametrize("api_key", SUPPORTED, ids=lambda key: key.name)
def test_flexible_encoding_begins_where_the_definitions_say(api_key: ApiKey) -> None:
    served = SUPPORTED[api_key]

    for version in known_versions(api_key):
        flexible = version >= served.first_flexible
        assert load_request_schema(api_key, version).__flexible__ is flexible
        assert load_response_schema(api_key, version).__flexible__ is flexible


def test_produce_is_shown_from_version_0_and_understood_from_3() -> None:
    produce = SUPPORTED[ApiKey.PRODUCE]

    assert (produce.min, produce.max) == (0, 13)
    assert [version for version in range(-1, 15) if produce.understands(version)] == [*range(3, 14)]


def test_every_other_api_is_understood_in_all_versions_shown() -> None:
    for api_key, served in SUPPORTED.items():
        if api_key is not ApiKey.PRODUCE:
            assert served.decodable_from == served.min


def test_data_is_served_to_brokers_clients_only_and_fetch_to_the_quorum_too() -> None:
    def on_controllers(served: VersionRange) -> bool:
        return ListenerScope.CONTROLLER in served.scope

    assert not on_controllers(SUPPORTED[ApiKey.PRODUCE])
    assert not on_controllers(SUPPORTED[ApiKey.METADATA])
    assert on_controllers(SUPPORTED[ApiKey.FETCH])


def test_what_nodes_ask_of_controllers_is_not_served_to_clients() -> None:
    only_there = {
        key for key, served in SUPPORTED.items() if ListenerScope.BROKER not in served.scope
    }
    assert only_there == {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALTER_PARTITION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.ENVELOPE,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }


def test_neither_share_groups_nor_streams_groups_are_served() -> None:
    assert not [key for key in SUPPORTED if "SHARE" in key.name or "STREAMS" in key.name]
