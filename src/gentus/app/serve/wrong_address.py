"""The response to an address that leads nowhere: a page for a browser, JSON for a program."""

from __future__ import annotations

import re
from html import escape

from fastapi import Request
from fastapi.responses import HTMLResponse

# Scripts of the page, and what needs them: the link to the JSON of the view that is shown.
_SCRIPTS = re.compile(
    r'\s*(<script\b.*?</script>|<link rel="modulepreload".*?>|<noscript>.*?</noscript>|<a id="twin".*?</a>)',
    re.DOTALL,
)
_MAIN = re.compile(r"(<main\b[^>]*>)(</main>)")
_LONGEST = 200  # characters of the address that are shown


def wants_html(request: Request) -> bool:
    """Whether a browser shows the response to a person; programs do not name HTML."""
    return "text/html" in request.headers.get("accept", "")


def wrong_address(
    request: Request, shell: str, words: str, status: int, headers: dict[str, str]
) -> HTMLResponse:
    """The page without its scripts, with a message and the way back."""
    address = str(request.scope["path"])[:_LONGEST].encode("utf-8", "replace").decode()
    message = (
        f'<div class="page"><h1>{escape(words[0].upper() + words[1:])}</h1>'
        f'<p><code>{escape(address)}</code></p><p><a href="/">Back to the search</a></p></div>'
    )
    still = _SCRIPTS.sub("", shell)
    page = _MAIN.sub(lambda main: f"{main[1]}{message}{main[2]}", still)
    return HTMLResponse(page, status, headers)
