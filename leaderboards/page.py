"""Pages: no server, nothing loaded from elsewhere, work from file://.

Released texts, names and external evaluations are hostile input. Jinja escapes every value, control and direction
characters are written out (`leaderboards.text.visible`), and the content security policy admits this page's own style
and script by their hashes and nothing else: no other script, no request, no form.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.errors import ResultError
from leaderboards import attack_text
from leaderboards.audits import attack_name
from leaderboards.metrics import is_distance, metric_name, scored_things
from leaderboards.text import (
    bound_text,
    confidence_text,
    epsilon_text,
    interval_text,
    names_text,
    queries_text,
    recovery_text,
    score_text,
    seeds_text,
    visible,
)

_TEMPLATES = Path(__file__).resolve().parent / "templates"


def render(template: str, **values: Any) -> str:
    """A template as a whole page, with the style, the script and the policy that admits them."""
    style, script = (_TEMPLATES / "board.css").read_text("utf-8"), (_TEMPLATES / "board.js").read_text("utf-8")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(template)
    return page.render(policy=policy, style=Markup(style), script=Markup(script), **values)


def write(page: str, folder: Path) -> Path:
    """Writes ``folder/index.html`` (whole or not at all) and returns its path. Raises ResultError when it cannot."""
    target = Path(folder) / "index.html"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".index", suffix=".html")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(page)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except OSError as error:
        raise ResultError(f"Cannot write the page {target}: {error.strerror}; choose another folder.") from error
    return target


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
        "epsilon": epsilon_text,
        "bound": bound_text,
        "confidence": confidence_text,
        "score": score_text,
        "recovery": recovery_text,
        "queries": queries_text,
        "seeds": seeds_text,
        "names": names_text,
        "metric": _metric,
        "scored": scored_things,
        "interval": interval_text,
        "sentence": lambda text: text[:1].upper() + text[1:],
        "attack_name": attack_name,
        "measure": attack_text.measure_name,
        "estimate": attack_text.estimate_text,
        "trials": attack_text.trials_text,
        "rates": attack_text.rates_text,
        "options": attack_text.options_text,
    }
    return environment


def _metric(metric: str) -> str:
    return metric_name(metric) + (" (lower is better)" if is_distance(metric) else "")
