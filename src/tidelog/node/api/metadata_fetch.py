"""Fetch (key 1, versions 4-18) on the controller listener: nodes that follow the metadata log."""

from __future__ import annotations

from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Reply, Request
from tidelog.protocol.fetch import FetchRequest


def handle(context: ControllerContext, request: Request[FetchRequest]) -> Reply:
    """Answer a follower of the log now, or when there is something new for it."""
    return context.plane.fetches.handle(request)
