"""AlterUserScramCredentials (key 51, version 0): users get, change and lose credentials."""

from __future__ import annotations

from tidelog.controller.scram_credentials import ScramDeletion, ScramUpsertion
from tidelog.model.errors import Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


def handle(
    context: AdminContext, request: Request[AlterUserScramCredentialsRequest]
) -> AlterUserScramCredentialsResponse | Later:
    """Each user for himself."""
    deletions = [ScramDeletion(each.name, each.mechanism) for each in request.body.deletions]
    upsertions = [
        ScramUpsertion(
            each.name,
            each.mechanism,
            each.iterations,
            bytes(each.salt),
            bytes(each.salted_password),
        )
        for each in request.body.upsertions
    ]
    users = [each.user for each in deletions] + [each.user for each in upsertions]
    return context.control.decide(
        request,
        lambda controller: controller.alter_scram_credentials(deletions, upsertions),
        _answer,
        lambda refusal: _answer(dict.fromkeys(users, refusal)),
    )


def _answer(outcome: dict[str, Refusal | None]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_message=None)
            if refusal is None
            else AlterUserScramCredentialsResult(
                user=user, error_code=refusal.code, error_message=refusal.why
            )
            for user, refusal in outcome.items()
        ]
    )
