"""`tidelog quotas`: what users, client ids and addresses may do in a second."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Annotated

import typer

from tidelog.cli.connecting import connected, deciding
from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import AsJson, Bootstrap, OfLocalCluster, key_values
from tidelog.cli.output import print_json, print_table, say
from tidelog.model.quota_words import CLIENT_ID, CLIENT_KEYS, IP, IP_KEYS, USER

app = typer.Typer(
    help="Show and change quotas of users, client ids and addresses.", no_args_is_help=True
)

OfUser = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user.")]
OfAnyUser = Annotated[
    bool, typer.Option("--user-defaults", help="Each user that has no quota of its own.")
]
OfClient = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client id.")]
OfAnyClient = Annotated[
    bool, typer.Option("--client-defaults", help="Each client id that has no quota of its own.")
]
OfAddress = Annotated[
    str | None, typer.Option("--ip", metavar="ADDRESS", help="An address, in digits.")
]
OfAnyAddress = Annotated[
    bool, typer.Option("--ip-defaults", help="Each address that has no quota of its own.")
]


def _entity(*named: tuple[str, str | None, bool], must_name: bool = True) -> dict[str, str | None]:
    """From the options to what they name."""
    entity: dict[str, str | None] = {}
    for kind, name, is_default in named:
        if name is not None and is_default:
            raise typer.BadParameter(f"give one {kind} or the default of all, not both")
        if name is not None or is_default:
            entity[kind] = name
    if must_name and not entity:
        options = "--user, --client-id, --ip, or one of their defaults"
        raise typer.BadParameter(f"name whom the quota is for: {options}")
    if IP in entity and len(entity) > 1:
        raise typer.BadParameter("an address has quotas of its own: give no user or client id")
    return entity


@app.command(name="list")
def list_quotas(
    user: OfUser = None,
    any_user: OfAnyUser = False,
    client_id: OfClient = None,
    any_client: OfAnyClient = False,
    ip: OfAddress = None,
    any_ip: OfAnyAddress = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Show the quotas that are set, of all or of those named."""
    entity = _entity(
        (USER, user, any_user),
        (CLIENT_ID, client_id, any_client),
        (IP, ip, any_ip),
        must_name=False,
    )
    with answering():
        from tidelog.client.quotas import describe_quotas

        with connected(bootstrap, data) as client:
            found = describe_quotas(client, entity)
        if as_json:
            for each in found:
                print_json({"entity": dict(each.entity), "quotas": dict(each.quotas)})
            return
        print_table(
            ["user", "client id", "address", "quota", "value"],
            [
                [*(_shown(each.entity, kind) for kind in (USER, CLIENT_ID, IP)), key, f"{value:g}"]
                for each in found
                for key, value in each.quotas.items()
            ],
        )


def _shown(entity: Mapping[str, str | None], kind: str) -> str:
    if kind not in entity:
        return ""
    name = entity[kind]
    return "(any)" if name is None else name


@app.command(name="set")
def set_quotas(
    values: Annotated[list[str], typer.Argument(metavar="QUOTA=VALUE")],
    user: OfUser = None,
    any_user: OfAnyUser = False,
    client_id: OfClient = None,
    any_client: OfAnyClient = False,
    ip: OfAddress = None,
    any_ip: OfAnyAddress = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
) -> None:
    """Set quotas; they take effect at once."""
    entity = _entity((USER, user, any_user), (CLIENT_ID, client_id, any_client), (IP, ip, any_ip))
    changes = {key: _number(text) for key, text in key_values(values, "QUOTA=VALUE").items()}
    _require_known(entity, list(changes))
    with answering():
        from tidelog.client.quotas import alter_quotas, entity_text

        with deciding(bootstrap, data) as client:
            alter_quotas(client, entity, changes)
        for key, value in changes.items():
            say(f"{key} of {entity_text(entity)} is now {value:g}")


@app.command()
def remove(
    keys: Annotated[list[str] | None, typer.Argument(metavar="QUOTA")] = None,
    user: OfUser = None,
    any_user: OfAnyUser = False,
    client_id: OfClient = None,
    any_client: OfAnyClient = False,
    ip: OfAddress = None,
    any_ip: OfAnyAddress = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
) -> None:
    """Take quotas away: those named, or all that the entity has."""
    entity = _entity((USER, user, any_user), (CLIENT_ID, client_id, any_client), (IP, ip, any_ip))
    _require_known(entity, keys or [])
    with answering():
        from tidelog.client.quotas import alter_quotas, describe_quotas, entity_text

        with deciding(bootstrap, data) as client:
            known = next(
                (each for each in describe_quotas(client, entity) if each.entity == entity), None
            )
            had = [] if known is None else list(known.quotas)
            gone = had if not keys else [key for key in keys if key in had]
            if not gone:
                refuse(f"{entity_text(entity)} has no such quota")
            alter_quotas(client, entity, dict.fromkeys(gone))
        for key in gone:
            say(f"{key} of {entity_text(entity)} is taken away")


def _require_known(entity: dict[str, str | None], keys: list[str]) -> None:
    known = IP_KEYS if IP in entity else CLIENT_KEYS
    for key in keys:
        if key not in known:
            names = ", ".join(known)
            raise typer.BadParameter(f"there is no quota {key} for this; there is {names}")


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (isfinite(value) and value > 0):
        raise typer.BadParameter(f"{text!r} is not a number above 0")
    return value
