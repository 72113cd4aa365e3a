"""`tidelog cluster add-controller` and `remove-controller`: who votes about the metadata.

Invariant  The voters are shown as they were and as they are.
Invariant  A vote is not taken where those that are left would have no majority that lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from tidelog.cli.connecting import deciding
from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import AsJson, Bootstrap, OfLocalCluster
from tidelog.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.client.admin import Admin, QuorumDescription, QuorumListener, QuorumMember

_HEARD_WITHIN_S: Final = 3.0
"""Voters fetch about twice a second; who does not for so long does not count as alive."""
_CHANGED_WITHIN_S: Final = 15.0
"""A quorum whose leader lost its vote elects another one first."""
_DEFAULT_LISTENER: Final = "CONTROLLER"

DirectoryId = Annotated[
    str | None,
    typer.Option(metavar="UUID", help="Of its metadata directory.", show_default="as known"),
]


class _Candidate(NamedTuple):
    node_id: int
    directory_id: UUID | None
    """None when the quorum has to tell it."""
    listeners: tuple[QuorumListener, ...]


def add_controller(
    node: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="The controller, e.g. 203.")
    ] = None,
    listener: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where the others find it. Needed with ID."),
    ] = None,
    directory_id: DirectoryId = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Not ID, but the configuration of the new controller; on its machine.",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Give a controller that follows the metadata log a vote.

    Format it with --no-initial-controllers and start it; when it has caught up, add it.

    Examples:

    tidelog cluster add-controller 203 --listener db3:9093

    tidelog cluster add-controller --config /etc/tidelog/node.properties
    """
    if (node is None) == (config is None):
        raise typer.BadParameter("give the ID of the controller or its --config")
    if node is not None and listener is None:
        raise typer.BadParameter("an ID needs --listener: where the others find the controller")
    with answering():
        from tidelog.client.admin import Admin

        with deciding(bootstrap, data) as client:
            admin = Admin(client)
            before = admin.describe_quorum()
            if config is not None:
                candidate = _configured(config)
            else:
                assert node is not None and listener is not None
                candidate = _named(node, listener, directory_id, before)
            directory = _checked(candidate, before)
            admin.add_voter(candidate.node_id, directory, candidate.listeners)
            after = _after(admin, lambda ids: candidate.node_id in ids)
            _show(before, after, as_json)
            if len(after.voters) % 2 == 0:
                say(
                    f"{len(after.voters)} voters survive no more failures than "
                    f"{len(after.voters) - 1} do; an odd number is better",
                    style="yellow",
                )


def remove_controller(
    node: Annotated[int, typer.Argument(metavar="ID", help="The controller, e.g. 203.")],
    directory_id: DirectoryId = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Although those that are left may have no majority alive."),
    ] = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Take a controller its vote; it goes on following the metadata log while it runs.

    Examples:

    tidelog cluster remove-controller 203
    """
    with answering():
        from tidelog.client.admin import Admin

        with deciding(bootstrap, data) as client:
            admin = Admin(client)
            before = admin.describe_quorum()
            member = _voter(node, directory_id, before)
            others = [each for each in before.voters if each is not member]
            if not others:
                refuse(f"controller {node} is the only voter, and somebody has to be")
            heard = _heard_of(admin, before)
            live = [each for each in others if each.node_id in heard]
            if 2 * len(live) <= len(others):
                say(
                    f"of {_ids(others)} only {_ids(live) or 'nobody'} lives, and that is no "
                    "majority: nothing could be decided any more",
                    style="red",
                )
                if not force:
                    refuse("nothing was changed: start the others first; --force goes on")
            admin.remove_voter(node, member.directory_id)
            _show(before, _after(admin, lambda ids: node not in ids), as_json)


def _configured(path: Path) -> _Candidate:
    """The controller that a configuration describes, with the identity its directory has."""
    from tidelog.client.admin import QuorumListener
    from tidelog.shell.main import read_config
    from tidelog.shell.os_filesystem import OsFileSystem
    from tidelog.storage.identity import read_identity

    config = read_config(path)
    if not config.is_controller:
        refuse(f"{path} is the configuration of a node that is no controller (process.roles)")
    identity = read_identity(OsFileSystem(), config.metadata_directory)
    if identity is None:
        refuse(f"{config.metadata_directory} is not formatted: `tidelog format` does that")
    listeners = (
        QuorumListener(each.name, each.host, each.port)
        for each in config.advertised_controller_endpoints
    )
    return _Candidate(config.node_id, identity.directory_id, tuple(listeners))


def _named(
    node: int, listener: str, directory_id: str | None, quorum: QuorumDescription
) -> _Candidate:
    from tidelog.client.admin import QuorumListener
    from tidelog.model.errors import ConfigError
    from tidelog.model.settings.endpoints import parse_address

    try:
        host, port = parse_address("--listener", listener)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error
    names = [point.name for points in quorum.listeners.values() for point in points]
    name = names[0] if names else _DEFAULT_LISTENER
    return _Candidate(node, _identity(directory_id), (QuorumListener(name, host, port),))


def _identity(text: str | None) -> UUID | None:
    from tidelog.model.ids import parse_uuid_text

    try:
        return None if text is None else parse_uuid_text(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--directory-id") from error


def _checked(candidate: _Candidate, quorum: QuorumDescription) -> UUID:
    """The directory that gets the vote; refuses who cannot vote."""
    node, directory = candidate.node_id, candidate.directory_id
    following = [each for each in quorum.observers if each.node_id == node]
    if any(
        each.node_id == node and directory in (None, each.directory_id) for each in quorum.voters
    ):
        refuse(f"controller {node} votes already: {_ids(quorum.voters)}")
    if any(each.node_id == node for each in quorum.voters):
        refuse(
            f"controller {node} votes with another directory, which may be lost: `tidelog cluster "
            f"remove-controller {node}` first"
        )
    if directory is not None:
        following = [each for each in following if each.directory_id == directory]
    if not following:
        refuse(
            f"node {node} does not follow the metadata log yet: start it, formatted for this "
            "cluster with --no-initial-controllers"
        )
    if len(following) > 1:
        refuse(f"node {node} was seen with several directories: say which with --directory-id")
    return following[0].directory_id


def _voter(node: int, directory_id: str | None, quorum: QuorumDescription) -> QuorumMember:
    directory = _identity(directory_id)
    named = [each for each in quorum.voters if each.node_id == node]
    found = [each for each in named if directory in (None, each.directory_id)]
    if not named:
        refuse(f"node {node} does not vote; {_ids(quorum.voters)} do")
    if not found:
        refuse(f"controller {node} votes with another directory than {directory_id}")
    return found[0]


def _heard_of(admin: Admin, before: QuorumDescription) -> set[int]:
    """The voters that were heard of since `before`, by its leader's clock; where nobody tells such
    moments, all are believed to live."""
    began_ms = max(each.last_fetch_ms for each in before.voters)
    deadline = time.monotonic() + _HEARD_WITHIN_S
    while True:
        now = admin.describe_quorum()
        heard = {
            each.node_id
            for each in now.voters
            if began_ms < 0 or each.last_fetch_ms > began_ms or each.node_id == now.leader
        }
        if len(heard) == len(now.voters) or time.monotonic() > deadline:
            return heard
        time.sleep(0.1)


def _after(admin: Admin, reached: Callable[[list[int]], bool]) -> QuorumDescription:
    """The quorum once the change is to be seen; it may elect another leader before."""
    from tidelog.client.errors import NoController

    deadline = time.monotonic() + _CHANGED_WITHIN_S
    while True:
        try:
            found = admin.describe_quorum()
        except NoController:
            if time.monotonic() > deadline:
                raise
        else:
            if reached([each.node_id for each in found.voters]) or time.monotonic() > deadline:
                return found
        time.sleep(0.1)


def _show(before: QuorumDescription, after: QuorumDescription, as_json: bool) -> None:
    ids = {each.node_id for each in (*before.voters, *after.voters)}
    was, now = ({each.node_id for each in quorum.voters} for quorum in (before, after))
    if as_json:
        print_json({"before": sorted(was), "after": sorted(now), "controller": after.leader})
        return
    where = {**before.listeners, **after.listeners}
    rows = []
    for node in sorted(ids):
        places = [f"{point.host}:{point.port}" for point in where.get(node, ())]
        rows.append((node, places, node in was, node in now))
    print_table(["controller", "listener", "voted before", "votes now"], rows)
    say(f"controller {after.leader} decides; {len(now) // 2 + 1} of {len(now)} votes are needed")


def _ids(members: Iterable[QuorumMember]) -> str:
    return ", ".join(str(each.node_id) for each in members)
