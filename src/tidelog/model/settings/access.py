"""Settings of access control: who decides what somebody may do, and who may do everything."""

from __future__ import annotations

from typing import Final

from tidelog.model.principal import principals
from tidelog.model.settings.setting import ConfigType, Limit, Setting, Settings

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _are_principals(text: str) -> bool:
    try:
        principals(text)
    except ValueError:
        return False
    return True


class AccessSettings(Settings):
    """Access control lists."""

    allow_everyone_if_no_acl_found = Setting(
        ConfigType.BOOLEAN,
        False,
        "Whether everybody may do everything to a resource of which no access control list speaks.",
        hidden=True,
    )
    authorizer_class_name = Setting(
        ConfigType.STRING,
        "",
        "Who decides what clients and other nodes may do: empty, and everybody may do everything; "
        f"or {STANDARD_AUTHORIZER}, and access control lists say it.",
        Limit(f"empty or {STANDARD_AUTHORIZER}", lambda name: name in ("", STANDARD_AUTHORIZER)),
    )
    super_users = Setting(
        ConfigType.STRING,
        "",
        "Principals that may do everything, whatever access control lists say, as "
        "User:name;User:name. The nodes of a cluster belong here.",
        Limit("principals like User:name with semicolons between them", _are_principals),
        hidden=True,
    )
