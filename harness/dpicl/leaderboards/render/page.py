"""Writes HTML pages that load nothing from elsewhere and work from file://.

Released texts, names and submissions are hostile input. Jinja escapes every value, control and
direction characters are written out (`dpicl.core.printable.make_visible`), only http and https addresses become
links, and the content security policy admits
the pages' own style and script by their hashes and nothing else: no other script, no request, no frame, no form.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dpicl.core.errors import ResultError
from dpicl.core.files import NotRegular, open_regular, put_whole, require_no_link
from dpicl.core.messages import capitalize
from dpicl.core.printable import make_visible
from dpicl.leaderboards.render.methods import signs_css
from dpicl.tables.document import Block

_TEMPLATES = Path(__file__).resolve().parent / "templates"
#: Every page of ours has this, so that a site can be told from other people's files.
_MARK = '<meta name="generator" content="dpicl board">'
_LONGEST_ADDRESS = 500


def render(
    title: str,
    blocks: Iterable[Block],
    root: str = "",
    *,
    here: str = "",
    nav: Sequence[tuple[str, str]] = (),
) -> str:
    """Blocks as a whole page, with the style, the script and the policy that admits them.

    root: the way from the page to the site's first page, "" or "../". here: the page's own address. nav: (name,
    address from the first page) of what every page links.
    """
    template = _environment().get_template("page.html")
    return template.render(
        _read_assets(),
        title=title,
        blocks=list(blocks),
        mark=Markup(_MARK),
        root=root,
        here=here,
        nav=nav,
    )


@cache
def _read_assets() -> dict[str, str]:
    """The style and the script of all pages, and the policy that admits them."""
    style = (_TEMPLATES / "page.css").read_text("utf-8") + signs_css()
    sort = (_TEMPLATES / "sort.js").read_text("utf-8")
    choose = (_TEMPLATES / "filter.js").read_text("utf-8")
    script = f'"use strict";\n{sort}{choose}'
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    return {"policy": policy, "style": Markup(style), "script": Markup(script)}


def write(files: Mapping[str, str | bytes], folder: Path) -> Path:
    """Writes the files of a site, each atomically, and returns the path of ``folder/index.html``.

    files: path below the folder -> content. The home page says whose the files are, and it comes last: until then it
    says that the site is not whole. Raises ResultError when the folder cannot be written, and, before it writes any
    file, where one is there in a folder without a home page of ours, or where a link leads out of the folder.
    """
    home = Path(folder) / "index.html"
    for name in files:
        require_no_link(home.parent / name, home.parent)
    try:
        foreign = (
            [] if _is_ours(home) else [name for name in files if (home.parent / name).exists()]
        )
        if foreign:
            raise ResultError(
                f"{home.parent / foreign[0]} was not written by dpicl and stays as it is; choose another folder."
            )
    except OSError as error:
        raise _unwritable_error(home, error) from error
    write_file(
        home,
        f"<!doctype html>{_MARK}<title>Unfinished</title>Not all pages are written; write the site again.",
    )
    for name in sorted(files, key=lambda name: name == "index.html"):
        write_file(home.parent / name, files[name])
    return home


def write_file(target: Path, content: str | bytes) -> None:
    """Writes one file atomically. Raises ResultError when it cannot."""
    try:
        put_whole(target, content, synced=False)
    except OSError as error:
        raise _unwritable_error(target, error) from error


def _unwritable_error(target: Path, error: OSError) -> ResultError:
    return ResultError(f"Cannot write {target}: {error.strerror}; choose another folder.")


def web_address(text: str) -> str | None:
    """The text where it is an address that may become a link: http or https, a host, only plain characters."""
    if len(text) > _LONGEST_ADDRESS or not re.fullmatch(
        r"https?://[!#-;=?-\[\]_a-z~]+", text, re.IGNORECASE
    ):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.hostname and "@" not in parts.netloc else None


def _is_ours(path: Path) -> bool:
    with (
        suppress(NotRegular, FileNotFoundError, ValueError),  # a name with a null character
        open(path, encoding="utf-8", errors="replace", opener=open_regular) as file,
    ):
        return _MARK in file.read(2000)
    return False


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_show,
    )
    environment.filters |= {
        "kind": _kind,
        "sentence": capitalize,
        "web_address": web_address,
        "breakable": _allow_breaks,
        "key": _key,
    }
    return environment


def _show(value: Any) -> str:
    return value if isinstance(value, Markup) else make_visible(str(value))


def _kind(block: Block) -> str:
    return type(block).__name__


def _allow_breaks(text: str) -> Markup:
    """A name that may go on below after each underscore: 'product_<wbr>of_<wbr>experts'."""
    return Markup(str(escape(make_visible(text))).replace("_", "_<wbr>"))


def _key(value: Any) -> str | None:
    """What a cell is sorted by: a number, `inf`, '' for nothing, None for its text. Of several values, the first."""
    first = value[0] if isinstance(value, tuple) else value
    if first is None:
        return ""
    return f"{first:.6g}" if isinstance(first, int | float) else None
