"""Pages: no server, nothing loaded from elsewhere, work from file://.

Released texts, names, submissions and external evaluations are hostile input. Jinja escapes every value, control and
direction characters are written out (`dpicl.core.printable.visible`), only http and https addresses become
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

from dpicl.core.errors import ResultError, UsageError
from dpicl.core.files import NotRegular, put_whole, regular
from dpicl.core.messages import capitalized
from dpicl.core.paths import real_path
from dpicl.core.printable import visible
from dpicl.tables.document import Block

_TEMPLATES = Path(__file__).resolve().parent / "templates"
#: Every page of ours has this, so that old ones can be told from other people's files.
GENERATOR = "dpicl board"
_GENERATED_FOLDERS = ("rows", "mechanisms")
_LONGEST_ADDRESS = 500


def render(
    title: str, blocks: Iterable[Block], root: str = "", *, here: str = "", nav: Sequence[tuple[str, str]] = ()
) -> str:
    """Blocks as a whole page, with the style, the script and the policy that admits them.

    root: the way from the page to the site's first page, "" or "../". here: the page's own address. nav: (name,
    address from the first page) of what every page links.
    """
    values = {**_inlined(), "generator": GENERATOR, "root": root, "here": here, "nav": nav}
    return _environment().get_template("page.html").render(title=title, blocks=list(blocks), **values)


@cache
def _inlined() -> dict[str, str]:
    """The style and the script of all pages, and the policy that admits them."""
    style = re.sub(r"\s*([{};,])\s*|(:)\s+", r"\1\2", _joined("page.css"))
    script = '"use strict";\n' + _joined("theme.js", "sort.js", "filter.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    return {"policy": policy, "style": Markup(style), "script": Markup(script)}


def refuse_among(results: Path, folder: Path) -> None:
    """Raises UsageError for a site in a folder of results, or around one: its pages would stand among them."""
    if "\0" in str(folder):  # `write_file` says what is wrong with such a name
        return
    site, there = real_path(folder), real_path(results)
    if site == there or there in site.parents or site in there.parents:
        how = "is" if site == there else "lies in" if there in site.parents else "holds"
        raise UsageError(f"--html {folder} {how} the results folder {results}; choose a folder apart, such as site.")


def write(files: Mapping[str, str | bytes], folder: Path) -> Path:
    """Writes the files of a site, each atomically, and returns the path of ``folder/index.html``.

    files: path below the folder -> content. Pages of an earlier site that are no longer part of it are removed; other
    people's files never are, and none of theirs is replaced: pages say whose they are, and other files are ours where
    the home page is. Raises ResultError when the folder cannot be written, or holds such a file; then nothing is.
    """
    folder = Path(folder)
    try:
        theirs = _foreign(files, folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    if theirs is not None:
        raise ResultError(f"{theirs} was not written by dpicl and stays as it is; choose another folder.")
    for name in sorted(files, key=lambda name: name != "index.html"):  # the home page first: it says whose the rest is
        write_file(folder / name, files[name])
    sites = [(folder / name).parent for name in files if name.endswith("index.html")]
    try:
        for old in (path for site in sites for part in _GENERATED_FOLDERS for path in (site / part).glob("*.html")):
            if old.relative_to(folder).as_posix() not in files and _is_ours(old):
                old.unlink()
    except OSError as error:
        raise _unwritable(Path(error.filename or folder), error) from error
    return folder / "index.html"


def _foreign(files: Iterable[str], folder: Path) -> Path | None:
    """The first of these files that stands there and is somebody else's."""
    home = folder / "index.html"
    ours = home.is_file() and (home.stat().st_size == 0 or _is_ours(home))  # a power cut may leave it empty
    for target in (folder / name for name in files):
        if target.suffix == ".html":
            theirs = target.is_file() and target.stat().st_size > 0 and not _is_ours(target)
        else:
            theirs = not ours and target.exists()
        if theirs:
            return target
    return None


def write_file(target: Path, content: str | bytes) -> None:
    """Writes one file atomically, where it does not hold this already. Raises ResultError when it cannot."""
    if isinstance(content, str):
        content = content.encode()
    try:
        if target.is_symlink() or not target.is_file() or target.read_bytes() != content:
            put_whole(target, content, synced=False)
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(target: Path, error: OSError) -> ResultError:
    return ResultError(f"Cannot write {target}: {error.strerror}; choose another folder.")


def web_address(text: str) -> str | None:
    """The text where it is an address that may become a link: http or https, a host, only plain characters."""
    if len(text) > _LONGEST_ADDRESS or not re.fullmatch(r"https?://[!#-;=?-\[\]_a-z~]+", text, re.IGNORECASE):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.hostname and "@" not in parts.netloc else None


def _is_ours(path: Path) -> bool:
    with suppress(NotRegular), open(path, encoding="utf-8", errors="replace", opener=regular) as file:
        return f'<meta name="generator" content="{GENERATOR}">' in file.read(2000)
    return False


def _joined(*names: str) -> str:
    """The files one after another, without indents and comments: every page carries them."""
    text = "".join((_TEMPLATES / name).read_text("utf-8") for name in names)
    lines = (re.sub(r" // .*", "", line).strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


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
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
    )
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "sentence": capitalized,
        "web_address": web_address,
        "breakable": _breakable,
        "key": _key,
    }
    return environment


def _breakable(text: str) -> Markup:
    """A name that may go on below after each underscore: 'product_<wbr>of_<wbr>experts'."""
    return Markup(str(escape(visible(text))).replace("_", "_<wbr>"))


def _key(value: Any) -> str | None:
    """What a cell is sorted by: a number, `inf`, '' for nothing, None for its text. Of several values, the first."""
    first = value[0] if isinstance(value, tuple) else value
    if first is None:
        return ""
    return f"{first:.6g}" if isinstance(first, int | float) else None
