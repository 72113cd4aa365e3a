from __future__ import annotations

from pathlib import Path

from tests.certificates import Authority, der

from tidelog.model.config import NodeConfig
from tidelog.model.principal import ANONYMOUS, Principal
from tidelog.node.core.listeners import Listeners


def listeners(rules: str) -> Listeners:
    return Listeners(
        NodeConfig.from_properties(
            {
                "node.id": "1",
                "process.roles": "broker",
                "listeners": "SSL://:9092",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": "2@127.0.0.1:9093",
                "log.dirs": "data",
                "ssl.keystore.location": "/etc/node.pem",
                "listener.name.ssl.ssl.principal.mapping.rules": rules,
            }
        )
    )


def test_a_peer_is_whom_the_rules_make_of_its_certificate(tmp_path: Path) -> None:
    certificate = der(Authority(tmp_path).issue("x", common_name="Alice")[1])
    found = listeners("RULE:^CN=([^,]+),.*$/$1/L").principal_of("SSL", certificate)
    assert found == Principal("User", "alice")
    unchanged = listeners("DEFAULT").principal_of("SSL", certificate)
    assert isinstance(unchanged, Principal)
    assert unchanged.name.startswith("CN=Alice,O")


def test_a_peer_that_no_rule_names_is_nobody_and_not_anonymous(tmp_path: Path) -> None:
    certificate = der(Authority(tmp_path).issue("x", common_name="Alice")[1])
    why = listeners("RULE:^CN=Bob$/bob/").principal_of("SSL", certificate)
    assert isinstance(why, str)
    assert why.startswith("no rule of ssl.principal.mapping.rules applies to its subject CN=Alice")
    assert isinstance(listeners("RULE:^CN=.*$//").principal_of("SSL", certificate), str)
    assert listeners("DEFAULT").principal_of("SSL", b"nonsense") == (
        "the subject of its certificate cannot be read"
    )


def test_a_peer_without_a_certificate_is_anonymous() -> None:
    assert listeners("RULE:^CN=Bob$/bob/").principal_of("SSL", None) == ANONYMOUS
