"""Clients that differ by the address they ask from, and what each of them may do.

On a plaintext listener everybody is `User:ANONYMOUS`, so that rules by host tell clients apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.integration.raw import Peer

from tidelog.model.settings.access import STANDARD_AUTHORIZER
from tidelog.protocol.apis import ApiKey
from tidelog.security.acls import CLUSTER_NAME, AclOperation, AclPermission, ResourceType

ALL, READ, WRITE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE
CREATE, DELETE, ALTER = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER
DESCRIBE, ACTION = AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTION = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
LITERAL, PREFIXED = 3, 4
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY

ADMIN: Final = "127.0.0.1"
"""Where the brokers themselves and the tests ask from; everything is allowed there."""
NOBODY: Final = "127.0.0.2"

Rule = tuple[str, ResourceType, str, int, AclOperation, AclPermission]


def _of(host: str, *rules: tuple[ResourceType, str, AclOperation]) -> Iterator[Rule]:
    for kind, name, operation in rules:
        pattern = PREFIXED if name.endswith("-") else LITERAL
        yield host, kind, name, pattern, operation, ALLOW


READER, WRITER, DESCRIBER = "127.0.0.3", "127.0.0.4", "127.0.0.5"
OPERATOR, NODE, FORBIDDEN, OWNER = "127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.0.9"
CLIENTS: Final[Mapping[str, str]] = {
    "who may do nothing": NOBODY,
    "who may read": READER,
    "who may write": WRITER,
    "who may describe": DESCRIBER,
    "who may do all to the cluster": OPERATOR,
    "who is a node": NODE,
    "to whom one topic and one group is forbidden": FORBIDDEN,
    "who may do all but to the cluster": OWNER,
}

RULES: Final[tuple[Rule, ...]] = (
    *_of(ADMIN, (CLUSTER, CLUSTER_NAME, ALL), (TOPIC, "*", ALL), (GROUP, "*", ALL)),
    *_of(ADMIN, (TRANSACTION, "*", ALL)),
    *_of(READER, (TOPIC, "orders", READ), (GROUP, "no-such-", READ)),
    *_of(WRITER, (TOPIC, "ord-", WRITE), (TOPIC, "orders", WRITE)),
    *_of(WRITER, (TRANSACTION, "no-such-", WRITE)),
    *_of(DESCRIBER, (TOPIC, "*", DESCRIBE), (GROUP, "*", DESCRIBE)),
    *_of(DESCRIBER, (TRANSACTION, "*", DESCRIBE), (CLUSTER, CLUSTER_NAME, DESCRIBE)),
    *_of(OPERATOR, (CLUSTER, CLUSTER_NAME, ALL)),
    *_of(NODE, (CLUSTER, CLUSTER_NAME, ACTION)),
    *_of(FORBIDDEN, (TOPIC, "*", ALL), (GROUP, "*", ALL), (TRANSACTION, "*", ALL)),
    (FORBIDDEN, TOPIC, "orders", LITERAL, READ, DENY),
    (FORBIDDEN, TOPIC, "hid", PREFIXED, ALL, DENY),
    (FORBIDDEN, GROUP, "no-such", PREFIXED, DESCRIBE, DENY),
    *_of(OWNER, (TOPIC, "*", ALL), (GROUP, "*", ALL), (TRANSACTION, "*", ALL)),
)

SETTINGS: Final = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}
"""So that the rules can be made at all; those of `ADMIN` speak of every resource."""


def allow(address: str) -> None:
    """Make the rules; the first ones are those that let go on."""
    with Peer(address, source=ADMIN) as peer:
        for host, kind, name, pattern, operation, permission in RULES:
            rule: dict[str, Any] = {
                "resource_type": int(kind),
                "resource_name": name,
                "resource_pattern_type": pattern,
                "principal": "User:ANONYMOUS",
                "host": host,
                "operation": int(operation),
                "permission_type": int(permission),
            }
            answer = peer.call(ApiKey.CREATE_ACLS, 3, {"creations": [rule]})
            assert [result.error_code for result in answer.results] == [0], (rule, answer)
