from __future__ import annotations

import datetime
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.certificates import Authority, der

from tidelog.security.distinguished_name import certificate_subject

KEY = ec.generate_private_key(ec.SECP256R1())
START = datetime.datetime(2026, 1, 1)


def certificate(name: x509.Name) -> bytes:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([]))
        .public_key(KEY.public_key())
        .serial_number(7)
        .not_valid_before(START)
        .not_valid_after(START + datetime.timedelta(days=1))
        .sign(KEY, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


def attribute(kind: x509.ObjectIdentifier, value: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(kind, value)


def test_the_last_part_of_a_name_comes_first() -> None:
    name = x509.Name(
        [
            attribute(NameOID.COUNTRY_NAME, "NO"),
            attribute(NameOID.STATE_OR_PROVINCE_NAME, "Viken"),
            attribute(NameOID.LOCALITY_NAME, "Asker"),
            attribute(NameOID.ORGANIZATION_NAME, "Tide AS"),
            attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "Logs"),
            attribute(NameOID.DOMAIN_COMPONENT, "tide"),
            attribute(NameOID.USER_ID, "a7"),
            attribute(NameOID.STREET_ADDRESS, "Havna 1"),
            attribute(NameOID.COMMON_NAME, "ålice"),
        ]
    )
    assert certificate_subject(certificate(name)) == (
        "CN=ålice,STREET=Havna 1,UID=a7,DC=tide,OU=Logs,O=Tide AS,L=Asker,ST=Viken,C=NO"
    )


def test_what_has_no_short_name_stands_as_its_identifier_and_encoded_value() -> None:
    name = x509.Name([attribute(NameOID.EMAIL_ADDRESS, "a@b.c")])
    assert certificate_subject(certificate(name)) == "1.2.840.113549.1.9.1=#16056140622e63"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('a,b+c"d\\e<f>g;h=i#j', 'a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h\\=i\\#j'),
        (" inner space ", "\\ inner space\\ "),
        ("#1", "\\#1"),
    ],
)
def test_what_means_something_in_a_name_is_escaped(value: str, text: str) -> None:
    name = x509.Name([attribute(NameOID.COMMON_NAME, value)])
    assert certificate_subject(certificate(name)) == f"CN={text}"


def test_several_attributes_of_one_part_stand_with_a_plus() -> None:
    part = x509.RelativeDistinguishedName(
        [attribute(NameOID.COMMON_NAME, "a"), attribute(NameOID.USER_ID, "b")]
    )
    subject = certificate_subject(certificate(x509.Name([part])))
    assert sorted(subject.split("+")) == ["CN=a", "UID=b"]


def test_an_empty_subject_is_an_empty_text() -> None:
    assert certificate_subject(certificate(x509.Name([]))) == ""


@given(cut=st.integers(0, 400), at=st.integers(0, 400), byte=st.integers(0, 255))
def test_damage_is_an_error_or_another_name_and_nothing_else(cut: int, at: int, byte: int) -> None:
    whole = bytearray(certificate(x509.Name([attribute(NameOID.COMMON_NAME, "alice")])))
    whole[at % len(whole)] = byte
    with suppress(ValueError):
        certificate_subject(bytes(whole[: len(whole) - cut]))


def test_the_certificate_of_an_authority_of_tests_is_read(tmp_path: Path) -> None:
    _, chain = Authority(tmp_path).issue("alice.example", common_name="alice")
    assert certificate_subject(der(chain)).startswith("CN=alice,")
