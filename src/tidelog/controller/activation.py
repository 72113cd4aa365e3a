"""What a controller writes when it becomes the active one.

Invariant  Bootstrap records take effect together: a crash between them leaves an empty cluster, and
           the next controller starts over.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.controller.features import default_features, elr_safety_records
from tidelog.controller.image import ClusterImage
from tidelog.controller.leadership import ELR_FEATURE
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import ControllerResult
from tidelog.model.config import NodeConfig
from tidelog.protocol.stored.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)


def activation_records(
    image: ClusterImage, config: NodeConfig, bootstrap: Sequence[MetadataRecord] = ()
) -> ControllerResult[None]:
    """Void a transaction the last controller left open; give an empty cluster its first records.

    `bootstrap` are the records of the format; without them the latest features are chosen.
    """
    records: list[MetadataRecord] = []
    if image.in_transaction:
        records.append(AbortTransactionRecord(reason="the controller that began it is gone"))
    if image.metadata_version == 0:
        first = tuple(bootstrap) or default_features()
        records.append(BeginTransactionRecord(name="Bootstrap records"))
        records.extend(first)
        if _switches_elr_on(first):
            records.extend(elr_safety_records(image, config))
        records.append(EndTransactionRecord())
    return ControllerResult(tuple(records), None, atomic=False)


def _switches_elr_on(records: Sequence[MetadataRecord]) -> bool:
    return any(
        isinstance(record, FeatureLevelRecord)
        and record.name == ELR_FEATURE
        and record.feature_level >= 1
        for record in records
    )
