"""The epoch a node is in and the vote it gave in it, kept in `quorum-state`.

One line of JSON: version 1 with the directory of the candidate voted for, version 0 (written by
clusters whose voters stand in the configuration) with the list of voters.

Invariant  It is durable before anybody else can know of it: a vote forgotten in a crash could be
           given twice, and one epoch could have two leaders. It is there before the first record
           is, so beside records of a voter that has rivals it is never just missing.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.model.errors import DiskError
from tidelog.model.ids import ZERO_UUID, parse_uuid_text, uuid_text
from tidelog.storage.filesystem import FileSystem, read_all, write_atomically

FILE_NAME: Final = "quorum-state"
NOBODY: Final = -1


class ElectionState(NamedTuple):
    """The latest epoch, who leads it as far as known, and whom this node voted for in it."""

    epoch: int = 0
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voted_directory_id: UUID = ZERO_UUID


def read_election_state(
    files: FileSystem, directory: str, *, required: bool = False
) -> ElectionState:
    """What was written last; nothing when there is no file, unless it is required. DiskError when
    it cannot be read."""
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        if required:
            raise _unusable(path, "it is missing beside the log of a voter")
        return ElectionState()
    try:
        content: dict[str, object] = json.loads(read_all(files, path))
        if content["data_version"] not in (0, 1):
            raise ValueError(f"data_version {content['data_version']}")
        state = ElectionState(
            epoch=_number(content, "leaderEpoch"),
            leader_id=_number(content, "leaderId"),
            voted_id=_number(content, "votedId"),
            voted_directory_id=parse_uuid_text(
                str(content.get("votedDirectoryId", uuid_text(ZERO_UUID)))
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _unusable(path, repr(error)) from error
    return state


def write_election_state(
    files: FileSystem,
    directory: str,
    state: ElectionState,
    *,
    kraft_version: int,
    voter_ids: tuple[int, ...],
) -> None:
    """Make it durable, in the version that kraft.version calls for."""
    content: dict[str, object]
    if kraft_version == 0:
        content = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter_id} for voter_id in voter_ids],
            "data_version": 0,
        }
    else:
        content = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": uuid_text(state.voted_directory_id),
            "data_version": 1,
        }
    encoded = json.dumps(content, separators=(",", ":")).encode("ascii")
    write_atomically(files, f"{directory}/{FILE_NAME}", encoded)


class ElectionStateJob(NamedTuple):
    """The state to be made durable; `run` blocks and may be called from any thread, once."""

    files: FileSystem
    directory: str
    state: ElectionState
    kraft_version: int
    voter_ids: tuple[int, ...]

    def run(self) -> None:
        """Write it; raises `DiskError`."""
        write_election_state(
            self.files,
            self.directory,
            self.state,
            kraft_version=self.kraft_version,
            voter_ids=self.voter_ids,
        )


def _unusable(path: str, why: str) -> DiskError:
    return DiskError(
        f"{path} cannot be used, and without it this node could vote twice: {why}. "
        f"Restore it from a backup, or remove the node from the quorum and format it anew"
    )


def _number(content: dict[str, object], key: str) -> int:
    value = content[key]
    if not isinstance(value, int):
        raise TypeError(f"{key} is {value!r}")
    return value
