from __future__ import annotations

import pytest

from tidelog.model.errors import ConfigError
from tidelog.security.principal_mapping import PrincipalMapping

SUBJECT = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", SUBJECT, SUBJECT),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", SUBJECT, "Duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L", SUBJECT, "duke@serviceusers"),
        ("RULE:^CN=([^,]+).*$/$1/U", SUBJECT, "DUKE"),
        ("RULE:^OU=none$/x/, DEFAULT", SUBJECT, SUBJECT),
        ("RULE:^OU=none$/x/ ,RULE:^CN=([^,]+).*$/$1/", SUBJECT, "Duke"),
        ("RULE:^cn=(.*)$/$1/L,RULE:^CN=([^,]+).*$/$1/L,DEFAULT", SUBJECT, "duke"),
        (r"RULE:^CN=([^\/,]+)\/?.*$/$1/", "CN=kafka/host", "kafka"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$5/", SUBJECT, "Duke@$5"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$12/", SUBJECT, "Duke2"),
        ("RULE:^CN=(.*?),.*$/$0/", SUBJECT, SUBJECT),
        (r"RULE:^CN=(.*?),.*$/\$1/", SUBJECT, "$1"),
        (",DEFAULT,", SUBJECT, SUBJECT),
    ],
)
def test_the_first_rule_that_matches_the_whole_subject_names_the_user(
    rules: str, subject: str, name: str
) -> None:
    assert PrincipalMapping(rules).name_of(subject) == name


@pytest.mark.parametrize("rules", ["", "RULE:^CN=(.*?)$/$1/,RULE:^CN=Duke,/x/"])
def test_a_subject_to_which_no_rule_applies_has_no_name(rules: str) -> None:
    mapping = PrincipalMapping(rules)
    assert mapping.name_of("OU=x,CN=Duke") is None


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAULT DEFAULT",
        "RULE:^CN=(.*$/$1/",
        "RULE:^CN=(.*)$",
        "RULE:^CN=(.*)$/$1",
        "RULE:^CN=(.*)$/$1/X",
        "DEFAULT/L",
        "RULE",
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
