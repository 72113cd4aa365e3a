"""`tidelog acls`: who may do what, in the words of Apache Kafka's `kafka-acls`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.completion import group_names, topic_names
from tidelog.cli.connecting import connected, deciding
from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import AsJson, Bootstrap, OfLocalCluster, Yes, agreed
from tidelog.cli.output import counted, print_json, print_table, say

if TYPE_CHECKING:
    from tidelog.security.acls import (
        Acl,
        AclFilter,
        AclOperation,
        AclPermission,
        PatternType,
        ResourceType,
    )

app = typer.Typer(
    help="List, add and remove access control lists: who may do what.", no_args_is_help=True
)

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="TOPIC", help="A topic; * for all.", autocompletion=topic_names
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group", metavar="GROUP", help="A group; * for all.", autocompletion=group_names
    ),
]
TransactionalIds = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id; * for all."),
]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Operations = Annotated[
    list[str] | None,
    typer.Option(
        "--operation",
        metavar="OPERATION",
        help="Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs, "
        "AlterConfigs, IdempotentWrite, TwoPhaseCommit or All.",
    ),
]
AllowPrincipals = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-principal", metavar="PRINCIPAL", help="Who is allowed: User:name, User:* for all."
    ),
]
DenyPrincipals = Annotated[
    list[str] | None,
    typer.Option("--deny-principal", metavar="PRINCIPAL", help="Who is denied, whoever allows."),
]
AllowHosts = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="ADDRESS", help="From where; without it, anywhere."),
]
DenyHosts = Annotated[
    list[str] | None,
    typer.Option("--deny-host", metavar="ADDRESS", help="From where not; without it, anywhere."),
]
AsProducer = Annotated[
    bool,
    typer.Option(
        "--producer",
        help="What producers need: Write, Describe and Create on topics, Write and Describe on "
        "transactional ids.",
    ),
]
AsConsumer = Annotated[
    bool,
    typer.Option(
        "--consumer", help="What consumers need: Read and Describe on topics, Read on groups."
    ),
]
Pattern = Annotated[
    str,
    typer.Option(
        "--resource-pattern-type",
        metavar="TYPE",
        help="literal for one name, prefixed for all that begin with it.",
    ),
]


@app.command(name="list")
def list_acls(
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OfCluster = False,
    principal: Annotated[
        list[str] | None,
        typer.Option("--principal", metavar="PRINCIPAL", help="Only rules of this principal."),
    ] = None,
    pattern_type: Annotated[
        str,
        typer.Option(
            "--resource-pattern-type",
            metavar="TYPE",
            help="any, literal, prefixed, or match: every rule that speaks of such a name.",
        ),
    ] = "any",
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """List rules: all, or those of some resources or principals."""
    with answering():
        from tidelog.client.acls import Acls
        from tidelog.security.acls import AclFilter, ResourceType

        pattern = _pattern(pattern_type, filters=True)
        named = _resources(topic, group, transactional_id, cluster)
        of_all = [AclFilter(ResourceType.ANY, None, pattern)]
        of_some = [AclFilter(kind, name, pattern) for kind, name in named]
        whom: list[str | None] = [*principal] if principal else [None]
        wanted = [each._replace(principal=who) for each, who in product(of_some or of_all, whom)]
        with connected(bootstrap, data) as client:
            found = {acl for each in wanted for acl in Acls(client).find(each)}
        _print(sorted(found), as_json=as_json)


@app.command()
def add(
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OfCluster = False,
    operation: Operations = None,
    allow_principal: AllowPrincipals = None,
    allow_host: AllowHosts = None,
    deny_principal: DenyPrincipals = None,
    deny_host: DenyHosts = None,
    producer: AsProducer = False,
    consumer: AsConsumer = False,
    pattern_type: Pattern = "literal",
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Add rules; they take effect on every node as soon as it has heard of them."""
    with answering():
        from tidelog.client.acls import Acls
        from tidelog.security.acls import Acl

        pattern = _pattern(pattern_type, filters=False)
        named = _resources(topic, group, transactional_id, cluster)
        who = list(_entries(allow_principal, allow_host, deny_principal, deny_host))
        if not named:
            raise typer.BadParameter(
                "say of what: --topic, --group, --transactional-id or --cluster"
            )
        if not who:
            raise typer.BadParameter("say for whom: --allow-principal or --deny-principal")
        does = _operations(operation, producer=producer, consumer=consumer)
        rules = [
            Acl(kind, name, pattern, principal, host, each, permission)
            for kind, name in named
            for each in does[kind]
            for principal, host, permission in who
        ]
        if not rules:
            raise typer.BadParameter(
                "--producer needs a topic or transactional id, --consumer a topic or group"
            )
        with deciding(bootstrap, data) as client:
            Acls(client).create(rules)
        say(f"added {counted(len(rules), 'rule')}")
        _print(sorted(rules), as_json=as_json)


@app.command()
def remove(
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OfCluster = False,
    operation: Operations = None,
    allow_principal: AllowPrincipals = None,
    allow_host: AllowHosts = None,
    deny_principal: DenyPrincipals = None,
    deny_host: DenyHosts = None,
    producer: AsProducer = False,
    consumer: AsConsumer = False,
    pattern_type: Pattern = "literal",
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Remove rules: of the resources that are named, all or those for somebody."""
    with answering():
        from tidelog.client.acls import Acls

        pattern = _pattern(pattern_type, filters=False)
        named = _resources(topic, group, transactional_id, cluster)
        if not named:
            raise typer.BadParameter(
                "say of what: --topic, --group, --transactional-id or --cluster"
            )
        who = list(_entries(allow_principal, allow_host, deny_principal, deny_host))
        does = None
        if operation or producer or consumer:
            does = _operations(operation, producer=producer, consumer=consumer)
        hosts_are_given = bool(allow_host), bool(deny_host)
        filters = list(_removed(named, pattern, who, does, hosts_are_given))
        with deciding(bootstrap, data) as client:
            acls = Acls(client)
            found = sorted({acl for wanted in filters for acl in acls.find(wanted)})
            if not found:
                refuse("there is no such rule; `tidelog acls list` shows those there are")
            _print(found, as_json=as_json)
            if not agreed(f"Remove {counted(len(found), 'rule')}?", yes=yes):
                refuse("nothing was removed")
            acls.delete(filters)
        say(f"removed {counted(len(found), 'rule')}")


def _resources(
    topics: Sequence[str] | None,
    groups: Sequence[str] | None,
    transactional_ids: Sequence[str] | None,
    cluster: bool,
) -> list[tuple[ResourceType, str]]:
    from tidelog.security.acls import CLUSTER_NAME, ResourceType

    return [
        *((ResourceType.TOPIC, name) for name in topics or ()),
        *((ResourceType.GROUP, name) for name in groups or ()),
        *((ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids or ()),
        *([(ResourceType.CLUSTER, CLUSTER_NAME)] if cluster else []),
    ]


def _pattern(text: str, *, filters: bool) -> PatternType:
    from tidelog.security.acls import PatternType

    known = {each.name.lower(): each for each in PatternType}
    if not filters:
        del known["any"], known["match"]
    if text.lower() not in known:
        words = ", ".join(known)
        raise typer.BadParameter(f"{text!r} is none of {words}", param_hint="resource-pattern-type")
    return known[text.lower()]


def _entries(
    allowed: Sequence[str] | None,
    allowed_hosts: Sequence[str] | None,
    denied: Sequence[str] | None,
    denied_hosts: Sequence[str] | None,
) -> Iterator[tuple[str, str, AclPermission]]:
    """For whom, from where, and whether it is allowed."""
    from tidelog.model.principal import Principal
    from tidelog.security.acls import WILDCARD, AclPermission

    for names, hosts, permission, option in (
        (allowed, allowed_hosts, AclPermission.ALLOW, "--allow-principal"),
        (denied, denied_hosts, AclPermission.DENY, "--deny-principal"),
    ):
        if hosts and not names:
            raise typer.BadParameter("a host needs a principal beside it", param_hint=option)
        for name, host in product(names or (), hosts or (WILDCARD,)):
            try:
                Principal.parse(name)
            except ValueError as error:
                raise typer.BadParameter(str(error), param_hint=option) from error
            yield name, host, permission


def _operations(
    given: Sequence[str] | None, *, producer: bool, consumer: bool
) -> dict[ResourceType, list[AclOperation]]:
    """What is allowed or denied on each kind of resource."""
    from tidelog.security.acls import AclOperation, ResourceType

    if given and (producer or consumer):
        raise typer.BadParameter("--producer and --consumer say the operations themselves")
    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    transaction, kinds = ResourceType.TRANSACTIONAL_ID, (*ResourceType,)
    does: dict[ResourceType, dict[AclOperation, None]] = {kind: {} for kind in kinds}
    describe, read, write = AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE
    if producer:
        does[topic] |= dict.fromkeys((write, describe, AclOperation.CREATE))
        does[transaction] |= dict.fromkeys((write, describe))
    if consumer:
        does[topic] |= dict.fromkeys((read, describe))
        does[group] |= dict.fromkeys((read,))
    if not producer and not consumer:
        named = [_operation(text) for text in given or ("All",)]
        does = {kind: dict.fromkeys(named) for kind in kinds}
    return {kind: list(each) for kind, each in does.items()}


def _operation(text: str) -> AclOperation:
    from tidelog.security.acls import AclOperation

    known = {each.name.replace("_", "").lower(): each for each in AclOperation}
    del known["any"]
    plain = text.replace("_", "").lower()
    if plain not in known:
        words = ", ".join(_title(each) for each in known.values())
        raise typer.BadParameter(f"{text!r} is none of {words}", param_hint="--operation")
    return known[plain]


def _removed(
    named: Sequence[tuple[ResourceType, str]],
    pattern: PatternType,
    who: Sequence[tuple[str, str, AclPermission]],
    does: dict[ResourceType, list[AclOperation]] | None,
    hosts_are_given: tuple[bool, bool],
) -> Iterator[AclFilter]:
    """What is left out stands for everything."""
    from tidelog.security.acls import AclFilter, AclOperation, AclPermission

    for kind, name in named:
        for operation in [AclOperation.ANY] if does is None else does[kind]:
            wanted = AclFilter(kind, name, pattern, operation=operation)
            if not who:
                yield wanted
            for principal, host, permission in who:
                is_given = hosts_are_given[permission is AclPermission.DENY]
                yield wanted._replace(
                    principal=principal, host=host if is_given else None, permission=permission
                )


def _title(operation: AclOperation) -> str:
    return operation.name.title().replace("_", "")


def _print(acls: Sequence[Acl], *, as_json: bool) -> None:
    rows = [
        {
            "resource": acl.resource_type.name.lower().replace("_", " "),
            "name": acl.resource_name,
            "pattern": acl.pattern_type.name.lower(),
            "principal": acl.principal,
            "host": acl.host,
            "operation": _title(acl.operation),
            "permission": acl.permission.name.lower(),
        }
        for acl in acls
    ]
    if as_json:
        for row in rows:
            print_json(row)
    else:
        columns = ["resource", "name", "pattern", "principal", "host", "operation", "permission"]
        print_table(columns, [[row[name] for name in columns] for row in rows])
