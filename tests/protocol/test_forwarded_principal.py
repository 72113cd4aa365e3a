"""A principal in an envelope."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.principal import ANONYMOUS, Principal
from tidelog.protocol.forwarded_principal import principal_bytes, read_principal
from tidelog.protocol.primitives import MalformedRequest

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


def test_a_principal_travels_in_the_bytes_that_kafka_writes() -> None:
    assert principal_bytes(ANONYMOUS) == b"\x00\x00\x05User\x0aANONYMOUS\x00\x00"


@given(st.builds(Principal, NAMES, NAMES))
def test_a_principal_arrives_as_it_was_sent(principal: Principal) -> None:
    assert read_principal(principal_bytes(principal)) == principal


@given(st.binary(max_size=40))
def test_bytes_are_a_principal_or_are_refused(data: bytes) -> None:
    try:
        principal = read_principal(data)
    except MalformedRequest:
        return
    assert len(principal.type) + len(principal.name) < len(data)


@given(st.integers(min_value=0, max_value=18))
def test_a_principal_that_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(MalformedRequest):
        read_principal(principal_bytes(ANONYMOUS)[:length])
