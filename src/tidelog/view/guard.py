"""Who may ask what of the live view.

Everything is refused that is not allowed here: pages of other sites may read nothing, and only
whoever has the token, of a cluster that was started for development, may change something.

Invariant  The token is never sent to a browser; it comes from one, in a header.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from hashlib import sha256
from http import HTTPStatus
from typing import Final

from tidelog.http.messages import Handler, HttpRequest, HttpResponse, error_response

TOKEN_HEADER: Final = "x-tidelog-token"
_OWN_SITE: Final = ("same-origin", "none")


def new_token() -> str:
    return secrets.token_urlsafe(24)


class Guard:
    """Stands before every handler."""

    def __init__(self, token: str | None, inline_script: str) -> None:
        """Without a token nothing can be changed. `inline_script` is the one that pages hold."""
        self._token = token
        digest = b64encode(sha256(inline_script.encode()).digest()).decode()
        policy = (
            "default-src 'none'",
            f"script-src 'self' 'sha256-{digest}'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
        self._headers = (
            ("Content-Security-Policy", "; ".join(policy)),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        )

    def reading(self, handler: Handler) -> Handler:
        """For what changes nothing."""

        async def guarded(request: HttpRequest) -> HttpResponse:
            if why := self._is_foreign(request):
                return self._sealed(error_response(HTTPStatus.FORBIDDEN, why))
            return self._sealed(await handler(request))

        return guarded

    def acting(self, handler: Handler) -> Handler:
        """For what changes something."""

        async def guarded(request: HttpRequest) -> HttpResponse:
            if why := self._is_foreign(request) or self._may_not_act(request):
                return self._sealed(error_response(HTTPStatus.FORBIDDEN, why))
            return self._sealed(await handler(request))

        return guarded

    def _is_foreign(self, request: HttpRequest) -> str | None:
        headers = request.headers
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{headers.get('host', '')}":
            return "pages of other origins are not answered"
        if headers.get("sec-fetch-site", "none") not in _OWN_SITE:
            # A link from elsewhere may open the page, which holds nothing; that is all.
            if request.path == "/" and headers.get("sec-fetch-mode") == "navigate":
                return None
            return "requests of other sites are not answered"
        return None

    def _may_not_act(self, request: HttpRequest) -> str | None:
        if self._token is None:
            return "this cluster was not started with `tidelog up --dev`: it can only be looked at"
        if request.headers.get("origin") is None:
            return "a request that changes something must name its origin"
        given = request.headers.get(TOKEN_HEADER, "")
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            return "the token is missing or wrong: open the address that `tidelog up` printed"
        return None

    def _sealed(self, response: HttpResponse) -> HttpResponse:
        own = {name for name, _ in response.headers}
        added = tuple(each for each in self._headers if each[0] not in own)
        return response._replace(headers=response.headers + added)
