"""Who asks."""

from __future__ import annotations

import pytest

from tidelog.model.principal import ANONYMOUS, Principal


def test_a_principal_is_written_as_its_type_and_its_name() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert Principal.parse("User:CN=alice,O=a:b") == Principal("User", "CN=alice,O=a:b")


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice"])
def test_what_is_no_principal_is_refused_with_its_form(text: str) -> None:
    with pytest.raises(ValueError, match="User:name"):
        Principal.parse(text)
