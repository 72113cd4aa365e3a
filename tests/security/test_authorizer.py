"""The authorizer against a plainly written model of it, and rule by rule."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.model.principal import Principal
from tidelog.security.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from tidelog.security.authorizer import (
    DECISIONS_MAX,
    REMEMBERED_NAME_MAX,
    Action,
    Authorizer,
)

ALICE, BOB, ADMIN = (Principal("User", name) for name in ("alice", "bob", "admin"))
HOME, AWAY = "192.168.0.1", "192.168.0.2"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY


def acl(
    operation: AclOperation = READ,
    name: str = "orders",
    permission: AclPermission = ALLOW,
    *,
    pattern: PatternType = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    kind: ResourceType = TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def authorizer(*acls: Acl, allow_if_no_acl: bool = False) -> Authorizer:
    made = Authorizer([ADMIN], allow_if_no_acl=allow_if_no_acl)
    for each in acls:
        made.add(each)
    return made


def wants(
    operation: AclOperation = READ,
    name: str = "orders",
    *,
    principal: Principal = ALICE,
    host: str = HOME,
    kind: ResourceType = TOPIC,
) -> Action:
    return Action(principal, host, operation, kind, name)


def test_what_nobody_allows_is_denied_to_all_but_super_users() -> None:
    rules = authorizer()
    assert not rules.allows(wants())
    assert rules.allows(wants(principal=ADMIN))


def test_a_super_user_is_not_stopped_by_a_rule() -> None:
    rules = authorizer(acl(AclOperation.ALL, "*", DENY, principal="User:*"))
    assert rules.allows(wants(principal=ADMIN))
    assert not rules.allows(wants(principal=Principal("Group", "admin")))


def test_a_resource_of_which_no_rule_speaks_may_be_open_to_all() -> None:
    rules = authorizer(acl(principal="User:bob"), allow_if_no_acl=True)
    assert rules.allows(wants(name="payments"))
    assert not rules.allows(wants())  # a rule for somebody else speaks of it
    assert not authorizer(
        acl(name="ord", pattern=PREFIXED, principal="User:bob"), allow_if_no_acl=True
    ).allows(wants())


def test_one_rule_that_denies_wins_over_many_that_allow() -> None:
    allowing = [acl(), acl(AclOperation.ALL, "*"), acl(name="o", pattern=PREFIXED)]
    for denying in (
        acl(permission=DENY),
        acl(READ, "*", DENY, principal="User:*"),
        acl(AclOperation.ALL, "order", DENY, pattern=PREFIXED, host=HOME),
    ):
        rules = authorizer(*allowing)
        assert rules.allows(wants())
        rules.add(denying)
        assert not rules.allows(wants())
        assert rules.denied_by(wants()) == denying


def test_hosts_are_compared_however_their_addresses_are_written() -> None:
    rules = authorizer(acl(host=HOME), acl(WRITE, host="0:0:0:0:0:0:0:1"))
    assert rules.allows(wants(host=HOME))
    assert not rules.allows(wants(host=AWAY))
    assert rules.allows(wants(WRITE, host="::1"))
    assert not rules.allows(wants(WRITE, host="::2"))


@pytest.mark.parametrize(
    ("given", "implied"),
    [
        (READ, DESCRIBE),
        (WRITE, DESCRIBE),
        (AclOperation.DELETE, DESCRIBE),
        (AclOperation.ALTER, DESCRIBE),
        (AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS),
        (AclOperation.ALL, AclOperation.CREATE),
    ],
)
def test_who_may_do_the_one_may_do_the_other(given: AclOperation, implied: AclOperation) -> None:
    assert authorizer(acl(given)).allows(wants(implied))
    assert not authorizer(acl(implied)).allows(wants(given))


def test_who_may_not_read_may_still_describe() -> None:
    rules = authorizer(acl(DESCRIBE), acl(READ, permission=DENY))
    assert rules.allows(wants(DESCRIBE))
    assert not rules.allows(wants(READ))
    assert not authorizer(acl(AclOperation.CREATE)).allows(wants(DESCRIBE))


def test_a_rule_that_went_holds_no_more_and_one_that_stands_twice_goes_twice() -> None:
    rules = authorizer(acl(), acl(name="o", pattern=PREFIXED))
    generation = rules.generation
    rules.remove(acl())
    assert rules.generation > generation
    assert rules.allows(wants())
    rules.remove(acl(name="o", pattern=PREFIXED))
    assert not rules.allows(wants())
    rules.add(acl())
    rules.add(acl())
    rules.remove(acl())
    assert rules.allows(wants())
    rules.remove(acl())
    assert not rules.allows(wants())


def test_decisions_that_are_remembered_are_bounded() -> None:
    rules = authorizer()
    for number in range(DECISIONS_MAX + 2):
        rules.allows(wants(name=str(number)))
    assert len(rules._decisions) <= DECISIONS_MAX


def test_the_rule_that_is_asked_for_allows_what_was_denied() -> None:
    denied = wants(WRITE, principal=BOB, host=AWAY)
    rules = authorizer()
    assert not rules.allows(denied)
    rules.add(denied.wanted_acl)
    assert rules.allows(denied)
    assert not rules.allows(denied._replace(host=HOME))


@pytest.mark.parametrize(
    ("acls", "may"),
    [
        ([], False),
        ([acl(WRITE)], True),
        ([acl(READ)], False),
        ([acl(AclOperation.ALL)], True),
        ([acl(WRITE, principal="User:bob")], False),
        ([acl(WRITE, host=AWAY)], False),
        ([acl(WRITE), acl(WRITE, permission=DENY)], False),
        ([acl(WRITE), acl(WRITE, "ord", DENY, pattern=PREFIXED)], False),
        ([acl(WRITE), acl(WRITE, "pay", DENY, pattern=PREFIXED)], True),
        ([acl(WRITE, "ord", pattern=PREFIXED), acl(WRITE, "orders", DENY)], True),
        ([acl(WRITE, "ord", pattern=PREFIXED), acl(WRITE, "o", DENY, pattern=PREFIXED)], False),
        ([acl(WRITE, "*"), acl(WRITE, "o", DENY, pattern=PREFIXED)], True),
        ([acl(WRITE), acl(WRITE, "*", DENY, principal="User:*")], False),
        ([acl(WRITE, kind=GROUP)], False),
    ],
)
def test_who_may_write_somewhere_is_known(acls: list[Acl], may: bool) -> None:
    assert authorizer(*acls).allows_some(ALICE, HOME, WRITE, TOPIC) is may
    assert authorizer(*acls).allows_some(ADMIN, HOME, WRITE, TOPIC)


def test_filters_find_what_they_mean() -> None:
    rules = [
        acl(),
        acl(WRITE, "*"),
        acl(READ, "ord", pattern=PREFIXED),
        acl(READ, "orders.eu", pattern=PREFIXED),
        acl(READ, principal="User:bob", host=HOME),
        acl(READ, "orders", DENY, kind=GROUP),
        acl(AclOperation.ALTER, CLUSTER_NAME, kind=ResourceType.CLUSTER),
    ]
    made = authorizer(*rules)
    assert made.acls() == made.acls(AclFilter()) == sorted(rules)
    assert set(made.acls(AclFilter(TOPIC, "orders", PatternType.MATCH))) == {
        rules[0],
        rules[1],
        rules[2],
        rules[4],
    }
    assert made.acls(AclFilter(TOPIC, "ord", PatternType.ANY)) == [rules[2]]
    assert made.acls(AclFilter(TOPIC, "ord", LITERAL)) == []
    assert made.acls(AclFilter(principal="User:bob")) == [rules[4]]
    assert made.acls(AclFilter(host=HOME)) == [rules[4]]
    assert made.acls(AclFilter(permission=DENY)) == [rules[5]]
    assert set(made.acls(AclFilter(operation=WRITE))) == {rules[1]}
    assert len(made.acls(AclFilter(pattern_type=PatternType.MATCH))) == len(rules)


NAMES = st.sampled_from(["*", "o", "or", "ord", "orders", "orders.eu", "pay"])
RULES = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    NAMES,
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"]),
    st.sampled_from(["*", HOME, AWAY]),
    st.sampled_from([each for each in AclOperation if each is not AclOperation.ANY]),
    st.sampled_from([ALLOW, DENY]),
)


def judged(rules: list[Acl], action: Action, *, allow_if_no_acl: bool) -> bool:
    """The same, as one would say it."""
    if action.principal == ADMIN:
        return True
    about = [
        rule
        for rule in rules
        if rule.resource_type is action.resource_type
        and (
            rule.resource_name in ("*", action.resource_name)
            if rule.pattern_type is LITERAL
            else action.resource_name.startswith(rule.resource_name)
        )
    ]
    if not about:
        return allow_if_no_acl
    theirs = [
        rule
        for rule in about
        if rule.principal in ("User:*", f"{action.principal.type}:{action.principal.name}")
        and rule.host in ("*", action.host)
    ]
    if any(
        rule.permission is DENY and rule.operation in (AclOperation.ALL, action.operation)
        for rule in theirs
    ):
        return False
    enough = {AclOperation.ALL, action.operation}
    if action.operation is DESCRIBE:
        enough |= {READ, WRITE, AclOperation.DELETE, AclOperation.ALTER}
    if action.operation is AclOperation.DESCRIBE_CONFIGS:
        enough |= {AclOperation.ALTER_CONFIGS}
    return any(rule.permission is ALLOW and rule.operation in enough for rule in theirs)


@settings(max_examples=400, deadline=None)
@given(st.lists(RULES, max_size=12), st.lists(st.integers(0, 11), max_size=4), st.booleans())
def test_any_rules_lead_to_what_the_model_says_also_after_some_of_them_went(
    rules: list[Acl], going: list[int], allow_if_no_acl: bool
) -> None:
    made = authorizer(*rules, allow_if_no_acl=allow_if_no_acl)
    left = list(rules)
    for place in going:
        if place < len(left):
            made.remove(left.pop(place))
    for kind, name, principal, host in product(
        (TOPIC, GROUP), ("o", "orders", "orders.eu", "x"), (ALICE, BOB, ADMIN), (HOME, AWAY)
    ):
        for operation in SUPPORTED_OPERATIONS[kind]:
            action = Action(principal, host, operation, kind, name)
            expected = judged(left, action, allow_if_no_acl=allow_if_no_acl)
            assert made.allows(action) is expected, action


@settings(max_examples=200, deadline=None)
@given(st.lists(RULES, max_size=8), st.sampled_from([READ, WRITE]))
def test_whoever_may_write_a_name_may_write_somewhere(
    rules: list[Acl], operation: AclOperation
) -> None:
    made = authorizer(*rules)
    names = [*(rule.resource_name for rule in rules), "hardcode"]
    for principal in (ALICE, BOB):
        if any(
            made.allows(Action(principal, HOME, operation, TOPIC, name))
            for name in names
            if name != "*"
        ):
            somewhere = made.allows_some(principal, HOME, operation, TOPIC)
            denied_all = any(
                rule.permission is DENY
                and rule.resource_name == "*"
                and rule.pattern_type is LITERAL
                for rule in rules
            )
            assert somewhere or denied_all


def test_names_that_no_topic_has_are_not_remembered() -> None:
    made = authorizer(acl(name="o", pattern=PREFIXED))
    longest, longer = "o" * REMEMBERED_NAME_MAX, "o" * (REMEMBERED_NAME_MAX + 1)
    assert made.allows(wants(name=longest)) and made.allows(wants(name=longer))
    assert [each.resource_name for each in made._decisions] == [longest]


def test_that_something_may_be_done_to_some_resource_is_remembered_until_a_rule_changes() -> None:
    made = authorizer(acl(WRITE, "orders"))
    assert made.allows_some(ALICE, HOME, WRITE, TOPIC)
    made.remove(acl(WRITE, "orders"))
    assert not made.allows_some(ALICE, HOME, WRITE, TOPIC)
