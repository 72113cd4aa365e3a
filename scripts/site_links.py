"""For `make site`: links from docs/ to other files lead to where the repository is hosted."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"(\]\()(\.\./[^)\s]+)(\))")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Called by MkDocs for every page before it is rendered."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def hosted(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if target.startswith("docs/"):
            return link[0]
        return f"{link[1]}{config.repo_url}/blob/main/{target}{link[3]}"

    return LINK.sub(hosted, markdown)
