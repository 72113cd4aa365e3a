"""A page as one file that needs nothing else: no network, no server, nothing to install.

Modules find each other by name (`tidelog/microscope`) through the page's import map. Here the map
holds the modules themselves, as data URLs; a server may map the same names to files.

Invariant  What a page shows is in it as JSON, and cannot end the element that holds it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

VENDORED: Final = {"preact": "preact.mjs", "preact/hooks": "hooks.mjs", "htm": "htm.mjs"}
OWN: Final = ("html", "epochs", "microscope", "player", "theme", "story", "story_page")


def assets() -> Traversable:
    """The folder that a server may serve."""
    return files(__package__).joinpath("assets")


def modules() -> dict[str, str]:
    """Every module by the name under which others import it, and its path below `assets`."""
    vendored = {name: f"vendor/{file}" for name, file in VENDORED.items()}
    return vendored | {f"tidelog/{name}": f"{name}.js" for name in OWN}


def single_page(title: str, data: Mapping[str, Any]) -> str:
    """The page of a story with everything in it."""
    sources = {name: _data_url(_text(path)) for name, path in modules().items()}
    parts = {
        "title": _escaped(title),
        "style": _text("style.css"),
        "modules": _json({"imports": sources}),
        "data": _json(data),
    }
    page = _text("page.html")
    for name, part in parts.items():
        before, _, after = page.partition("{{" + name + "}}")
        page = before + part + after
    return page


def _text(path: str) -> str:
    return assets().joinpath(path).read_text(encoding="utf-8")


def _data_url(source: str) -> str:
    return f"data:text/javascript;base64,{b64encode(source.encode()).decode()}"


def _json(value: object) -> str:
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return compact.replace("<", "\\u003c")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
