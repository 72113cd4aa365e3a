"""Where the first run of a table starts: the words of the description as options of a read.

earliest, latest                  the ends of each partition
-100                              so many records before the end of each partition
-10 minutes                       the first record that is not older
2026-01-31 or 2026-01-31T08:00Z   the first record that is not older; UTC unless it says otherwise
{orders: {0: 42}}                 an offset per partition, as YAML or JSON; -2 is the first record
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import yaml

from tidelog.spark.errors import OptionError
from tidelog.spark.source.range_limits import parse_start


class StartMistake(ValueError):
    """The words are not a place to start from."""


def starting_options(start: str) -> dict[str, str]:
    """The options of `spark.readStream` for it."""
    moment = _moment(start)
    if moment is not None:
        return {
            "startingTimestamp": str(int(moment.timestamp() * 1000)),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    try:
        start = _plain(start)
        parse_start("start", start)
    except (OptionError, yaml.YAMLError):
        raise StartMistake(
            f"start: {start!r} is not earliest, latest, -100 (records), -10 minutes, a time such "
            "as 2026-01-31T08:00Z, or {topic: {0: 42}}"
        ) from None
    return {"startingOffsets": start}


def _plain(start: str) -> str:
    """Offsets as JSON, which is what a read takes; a command line has them without quotes."""
    return json.dumps(yaml.safe_load(start)) if start.lstrip().startswith("{") else start


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
