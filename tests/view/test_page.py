"""A page is one file: everything is in it, and nothing in it breaks it."""

from __future__ import annotations

import json
import re
from base64 import b64decode

from tidelog.view.page import assets, modules, single_page

PAGE = single_page("A & <b>", {"text": "</script><script>alert(1)</script>", "acts": []})


def test_a_page_asks_nobody_for_anything() -> None:
    without_data = re.sub(r"data:[^\"')]+", "", PAGE)
    assert re.findall(r"https?://(?!www\.w3\.org)\S+", without_data) == []
    assert "src=" not in PAGE and "@import" not in PAGE


def test_what_is_shown_cannot_end_the_element_that_holds_it() -> None:
    (data,) = re.findall(r'<script type="application/json" id="story">(.*?)</script>', PAGE, re.S)
    assert json.loads(data)["text"] == "</script><script>alert(1)</script>"
    assert "<title>A &amp; &lt;b></title>" in PAGE


def test_every_module_that_is_imported_is_in_the_page() -> None:
    (text,) = re.findall(r'<script type="importmap">(.*?)</script>', PAGE, re.S)
    imports = json.loads(text)["imports"]
    assert set(imports) == set(modules())
    for source in imports.values():
        code = b64decode(source.partition(",")[2]).decode()
        wanted = set(re.findall(r'from\s*"([^"]+)"', code))
        assert wanted <= set(imports), wanted


def test_vendored_modules_come_with_version_and_licence() -> None:
    vendor = assets().joinpath("vendor")
    table = vendor.joinpath("README.md").read_text(encoding="utf-8")
    for path in modules().values():
        if path.startswith("vendor/"):
            assert f"`{path.removeprefix('vendor/')}`" in table
    for name in re.findall(r"`(LICENSE\.\w+)`", table):
        assert "Copyright" in vendor.joinpath(name).read_text(encoding="utf-8")
