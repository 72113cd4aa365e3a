"""kafka-python: a third implementation of the protocol and of record batches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = Path(__file__).with_name("kafka_python_client.py")


@pytest.mark.smoke
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_come_back_as_sent(bootstrap: str, topic: str, codec: str) -> None:
    command = [sys.executable, str(CLIENT), bootstrap, topic, codec]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
