from __future__ import annotations

from base64 import b64encode

import pytest

from tidelog.model.errors import ConfigError
from tidelog.security.scram import ScramCredential, ScramMechanism
from tidelog.security.scram_option import parse_add_scram
from tidelog.shell.entropy import SystemEntropy

ENTROPY = SystemEntropy()


def test_a_password_becomes_a_credential_with_a_salt_of_its_own() -> None:
    text = "SCRAM-SHA-512=[name=alice,password=alice-secret]"
    one, other = (parse_add_scram(text, ENTROPY) for _ in range(2))
    assert (one.name, one.mechanism) == ("alice", ScramMechanism.SCRAM_SHA_512)
    assert one.credential.iterations == 4096
    assert one.credential.salt != other.credential.salt
    assert "alice-secret" not in repr(one)


def test_a_salted_password_is_taken_as_it_is() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    salted = mechanism.salted("sesame", b"salt", 8192)
    text = (
        f'SCRAM-SHA-256=[name="alice",iterations=8192,salt="{b64encode(b"salt").decode()}",'
        f'saltedpassword="{b64encode(salted).decode()}"]'
    )
    expected = ScramCredential.of_salted_password(mechanism, salted, b"salt", 8192)
    assert parse_add_scram(text, ENTROPY).credential == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SCRAM-SHA-1=[name=alice,password=sesame]",
        "SCRAM-SHA-256=name=alice,password=sesame",
        "SCRAM-SHA-256=[password=sesame]",
        "SCRAM-SHA-256=[name=alice]",
        "SCRAM-SHA-256=[name=alice,password=sesame,saltedpassword=x]",
        "SCRAM-SHA-256=[name=alice,saltedpassword=c2VzYW1l]",
        "SCRAM-SHA-256=[name=alice,password=sesame,iterations=100]",
        "SCRAM-SHA-256=[name=alice,password=sesame,iterations=100000]",
        "SCRAM-SHA-256=[name=alice,password=sesame,salt=*]",
        "SCRAM-SHA-256=[name=alice,password=sesame,colour=red]",
        "SCRAM-SHA-256=[name=alice,name=bob,password=sesame]",
    ],
)
def test_what_cannot_be_read_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(ConfigError, match="--add-scram") as refused:
        parse_add_scram(text, ENTROPY)
    assert "sesame" not in str(refused.value)
