"""Decisions about access control lists."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from tidelog.controller import acls
from tidelog.controller.acls import AclText, acl_of, create_acls, delete_acls
from tidelog.controller.image import ClusterImage
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import AccessControlEntryRecord
from tidelog.security.acls import AclOperation, AclPermission, PatternType, ResourceType

READ = AclText(2, "orders", 3, "User:alice", "*", 3, 3)
EVERYTHING = AclText(1, None, 1, None, None, 1, 1)


class Numbers:
    """Ids one after the other, the first one twice."""

    def __init__(self) -> None:
        self._drawn = 0

    def uuid(self) -> UUID:
        self._drawn += 1
        return UUID(int=max(1, self._drawn - 1))

    def below(self, bound: int) -> int:
        return 0


def image_with(*rules: AclText, entropy: Numbers | None = None) -> ClusterImage:
    image = ClusterImage()
    replay(image, create_acls(image, entropy or Numbers(), rules).records)
    return image


def replay(image: ClusterImage, records: Sequence[object]) -> None:
    image.replay_all(enumerate(records, image.end_offset))  # type: ignore[arg-type]


def test_rules_are_added_once_and_each_has_an_id_of_its_own() -> None:
    entropy = Numbers()
    write = READ._replace(operation=4)
    image = image_with(READ, write, READ, entropy=entropy)
    assert len(image.access.rules) == 2
    again = create_acls(image, entropy, [READ, write._replace(host="10.0.0.1")])
    assert again.reply == [None, None]
    assert len(again.records) == 1


def test_a_record_says_what_was_asked_for() -> None:
    [record] = image_with(READ).access.rules.values()
    acl = acl_of(record)
    assert acl is not None
    assert acl == (
        ResourceType.TOPIC,
        "orders",
        PatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermission.ALLOW,
    )
    assert str(acl) == "allow User:alice from * READ on TOPIC orders"


def test_a_rule_of_a_later_version_is_left_alone() -> None:
    image = image_with(READ)
    later = AccessControlEntryRecord(
        id=UUID(int=99),
        resource_type=77,
        resource_name="x",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    replay(image, [later])
    assert acl_of(later) is None
    deleted = delete_acls(image, [EVERYTHING])
    replay(image, deleted.records)
    assert set(image.access.rules) == {UUID(int=99)}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"permission": 1}, "Invalid permissionType ANY"),
        ({"principal": "alice"}, "write it as User:name"),
    ],
)
def test_what_cannot_be_a_rule_is_refused_and_the_others_are_added(
    change: dict[str, object], why: str
) -> None:
    wrong = READ._replace(**change)  # type: ignore[arg-type]
    decision = create_acls(ClusterImage(), Numbers(), [wrong, READ])
    refusal, added = decision.reply
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.invalid_request
    assert why in refusal.why
    assert added is None
    assert len(decision.records) == 1


def test_filters_remove_what_they_mean_once_and_say_it_each() -> None:
    image = image_with(READ, READ._replace(operation=4), READ._replace(resource_name="payments"))
    of_orders = EVERYTHING._replace(resource_name="orders")
    unknown = EVERYTHING._replace(permission=9)
    decision = delete_acls(image, [of_orders, of_orders, unknown])
    first, second, wrong = decision.reply
    assert first == second
    assert not isinstance(first, Refusal)
    assert len(first) == 2
    assert isinstance(wrong, Refusal)
    assert len(decision.records) == 2
    replay(image, decision.records)
    assert [rule.resource_name for rule in image.access.rules.values()] == ["payments"]


def test_one_request_changes_a_bounded_number_of_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "RECORDS_MAX", 2)
    several = [READ._replace(resource_name=str(number)) for number in range(3)]
    too_many = create_acls(ClusterImage(), Numbers(), several)
    assert too_many.records == ()
    assert all(isinstance(each, Refusal) and "split it" in each.why for each in too_many.reply)
    monkeypatch.setattr(acls, "RECORDS_MAX", 3)
    image = image_with(*several)
    monkeypatch.setattr(acls, "RECORDS_MAX", 2)
    assert delete_acls(image, [EVERYTHING]).records == ()
