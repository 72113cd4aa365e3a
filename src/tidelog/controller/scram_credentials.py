"""Credentials of users for SCRAM: set, removed and described.

Invariant  A user is changed at most once by a request, in one mechanism, as in Kafka.
Invariant  What is kept and described cannot be used to log in.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tidelog.security.scram import (
    ITERATIONS_LEAST,
    ITERATIONS_MOST,
    ScramCredential,
    ScramMechanism,
)


class ScramDeletion(NamedTuple):
    """A user is to lose one credential."""

    user: str
    mechanism: int


class ScramUpsertion(NamedTuple):
    """A user is to have one credential, whether he had one or not."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user}, hidden)"


def alter_scram_credentials(
    image: ClusterImage,
    deletions: Collection[ScramDeletion],
    upsertions: Collection[ScramUpsertion],
) -> ControllerResult[dict[str, Refusal | None]]:
    """Each user for himself; the reply has one entry per user."""
    outcome: dict[str, Refusal | None] = {}
    changes: dict[str, ScramDeletion | ScramUpsertion] = {}
    asked: list[ScramDeletion | ScramUpsertion] = [*deletions, *upsertions]
    for change in asked:
        user = change.user
        if outcome.get(user) is not None:
            continue
        if user in changes:
            del changes[user]
            outcome[user] = Refusal(
                ErrorCode.duplicate_resource,
                "A user credential cannot be altered twice in the same request",
            )
            continue
        wrong = _wrong(image, change)
        outcome[user] = wrong
        if wrong is None:
            changes[user] = change
    records: tuple[MetadataRecord, ...] = tuple(map(_record, changes.values()))
    return ControllerResult(records, outcome)


def credential_record(
    user: str, mechanism: ScramMechanism, credential: ScramCredential
) -> UserScramCredentialRecord:
    """As the metadata log has it."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def find_credential(
    image: ClusterImage, user: str, mechanism: ScramMechanism
) -> ScramCredential | None:
    """What the cluster knows of a user."""
    found = image.access.credentials.get((user, mechanism))
    if found is None:
        return None
    return ScramCredential(found.salt, found.stored_key, found.server_key, found.iterations)


def describe_scram_credentials(
    image: ClusterImage, users: Collection[str] | None
) -> dict[str, list[tuple[int, int]] | Refusal]:
    """Mechanisms and iterations of the named users, or of all."""
    known: dict[str, list[tuple[int, int]]] = {}
    for (user, mechanism), record in sorted(image.access.credentials.items()):
        known.setdefault(user, []).append((mechanism, record.iterations))
    if not users:
        return dict(known)
    described: dict[str, list[tuple[int, int]] | Refusal] = {}
    for user in users:
        if user in described:
            described[user] = Refusal(
                ErrorCode.duplicate_resource,
                f"Cannot describe SCRAM credentials for the same user twice in a single request: "
                f"{user}",
            )
        elif user in known:
            described[user] = known[user]
        else:
            described[user] = Refusal(
                ErrorCode.resource_not_found,
                f"Attempt to describe a user credential that does not exist: {user}",
            )
    return described


def _record(change: ScramDeletion | ScramUpsertion) -> MetadataRecord:
    if isinstance(change, ScramDeletion):
        return RemoveUserScramCredentialRecord(name=change.user, mechanism=change.mechanism)
    mechanism = ScramMechanism(change.mechanism)
    credential = ScramCredential.of_salted_password(
        mechanism, change.salted_password, change.salt, change.iterations
    )
    return credential_record(change.user, mechanism, credential)


def _wrong(image: ClusterImage, change: ScramDeletion | ScramUpsertion) -> Refusal | None:
    if not change.user:
        return Refusal(ErrorCode.unacceptable_credential, "Username must not be empty")
    if change.mechanism not in ScramMechanism.__members__.values():
        return Refusal(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    if isinstance(change, ScramDeletion):
        if (change.user, change.mechanism) in image.access.credentials:
            return None
        return Refusal(
            ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist"
        )
    if change.iterations < ITERATIONS_LEAST:
        return Refusal(ErrorCode.unacceptable_credential, "Too few iterations")
    if change.iterations > ITERATIONS_MOST:
        return Refusal(ErrorCode.unacceptable_credential, "Too many iterations")
    return None
