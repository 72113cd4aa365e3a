"""The pipeline that `tidelog pipelines init` writes: commented, and running as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.parsing import FILE_NAME

_PIPELINE: Final = """\
# A pipeline from a topic to tables. `tidelog pipelines check` shows its plan,
# `tidelog pipelines run` brings the tables up to date.
name: {name}

# Where the cluster is. Client settings (security and the like) go under `client:`.
bootstrap: {bootstrap}

# Where tables lie, beside this file. Everything a pipeline remembers is in here too.
storage: tables

tables:
  # Every record of the topic, decoded. What is not JSON of this schema goes to
  # bronze_quarantine, with the reason, its bytes and its position.
  bronze:
    topics: orders
    # earliest, latest, -100 (records), -10 minutes, 2026-01-31T08:00Z or {{orders: {{0: 42}}}}
    start: earliest
    decode:
      format: json            # or csv, avro, text, raw
      schema:                 # or: schema: inferred
        order_id: bigint not null
        customer: string
        amount: double
        country: string

  # The same rows, cleaned. Steps see one row each; rules must hold for every row,
  # one that breaks a rule goes to silver_quarantine.
  silver:
    from: bronze
    steps:
      - with:
          day: to_date(_timestamp)
          country: upper(country)
      - where: customer is not null
      - python: steps.py:discount
        returns:
          discount: double
    rules:
      amount is positive: amount > 0
    partition_by: day

# Queries over tables, computed anew after each run.
views:
  daily_revenue:
    sql: >
      SELECT day, country, count(*) AS orders, sum(amount - discount) AS revenue
      FROM silver GROUP BY day, country
"""
_STEPS: Final = '''\
"""Python steps: functions of one row, which is a dict of its columns."""


def discount(row):
    """Return what the step sets. None drops the row; an exception sends it to quarantine."""
    return {"discount": row["amount"] * 0.05 if row["amount"] > 100 else 0.0}
'''
_COUNTRIES: Final = ("de", "fr", "nl", "pl")


def write_example(directory: Path, bootstrap: str) -> list[Path]:
    """Write the example into a new directory; gives the files."""
    if directory.exists() and any(directory.iterdir()):
        raise PipelineTrouble(f"{directory} is there already and not empty: choose another name")
    directory.mkdir(parents=True, exist_ok=True)
    name = "".join(each if each.isalnum() else "_" for each in directory.name.lower())
    texts = {
        FILE_NAME: _PIPELINE.format(
            name=name if name[:1].isalpha() else f"p_{name}", bootstrap=bootstrap
        ),
        "steps.py": _STEPS,
        "orders.jsonl": _orders(),
    }
    for file, text in texts.items():
        (directory / file).write_text(text, encoding="utf-8")
    return [directory / file for file in texts]


def _orders() -> str:
    """A hundred orders, three of which belong into quarantine."""
    lines = [
        json.dumps(
            {
                "order_id": number,
                "customer": f"customer-{number % 17}",
                "amount": (number * 37 % 200) + 0.5,
                "country": _COUNTRIES[number % len(_COUNTRIES)],
            }
        )
        for number in range(1, 98)
    ]
    lines.append('{"order_id": 98, "customer": "customer-1", "amount": -5, "country": "de"}')
    lines.append('{"order_id": "ninety-nine", "customer": "customer-2", "amount": 12}')
    lines.append("this is not an order")
    return "\n".join(lines) + "\n"
