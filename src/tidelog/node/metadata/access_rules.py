"""From the access control lists of the metadata to the authorizer of this node."""

from __future__ import annotations

from uuid import UUID

from tidelog.controller.acls import acl_of
from tidelog.controller.image_delta import ImageDelta
from tidelog.model.time import Now
from tidelog.node.core.authorization import Authorization
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.security.acls import Acl
from tidelog.security.authorizer import Authorizer


class AccessRules:
    """The rules that the authorizer goes by; they are those of the image, always."""

    def __init__(
        self, cluster: ClusterView, authorization: Authorization, authorizer: Authorizer
    ) -> None:
        self._cluster = cluster
        self._authorization = authorization
        self._authorizer = authorizer
        self._applied: dict[UUID, Acl] = {}

    def metadata_changed(self, delta: ImageDelta, now: Now) -> None:
        """Apply what came and what went, before anybody acts on the same change."""
        rules = self._cluster.image.access.rules
        for acl_id in delta.access_rules:
            before = self._applied.pop(acl_id, None)
            record = rules.get(acl_id)
            after = None if record is None else acl_of(record)
            if after is not None:
                self._authorizer.add(after)
                self._applied[acl_id] = after
            if before is not None:
                self._authorizer.remove(before)
        self._authorization.is_loaded = True
