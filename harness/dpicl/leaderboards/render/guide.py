"""Says what the names on a page mean: what a method does, its paper and its code, and what a task asks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dpicl.core.plugins import Registered
from dpicl.data.config import task_folders
from dpicl.mechanism.bases import Mechanism

#: What leads to a paper in `Mechanism.source` -> the address that it stands for.
_PAPERS = {
    r"arXiv (\d{4}\.\d{4,5})": "https://arxiv.org/abs/{}",
    r"openreview\.net/forum\?id=(\w+)": "https://openreview.net/forum?id={}",
}


@dataclass(frozen=True)
class Method:
    """paper, code: addresses; "" where there is none."""

    summary: str = ""
    paper: str = ""
    code: str = ""


@dataclass(frozen=True)
class Guide:
    """methods: by the mechanism's name. tasks: name -> what it asks, as the end of a sentence."""

    methods: Mapping[str, Method] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)

    def method(self, mechanism: str) -> Method:
        return self.methods.get(mechanism, Method())


def make_guide(mechanisms: Mapping[str, Registered[Mechanism]], code: str = "") -> Guide:
    """What is known of these mechanisms, and of every task. code: address of the folder of the shipped mechanisms; ""
    where pages cannot link it."""
    methods = {}
    for name, item in mechanisms.items():
        file = f"{item.cls.__module__.rpartition('.')[2]}.py"
        links_code = code and item.plugin_hash is None
        methods[name] = Method(
            item.cls.summary,
            find_paper(item.cls.source),
            f"{code}/{file}" if links_code else "",
        )
    tasks = {}
    for name, folder in task_folders().items():
        tasks[name] = _first_sentence((folder.path / "task.yaml").read_text("utf-8"))
    return Guide(methods, tasks)


def find_paper(source: str) -> str:
    """The address of the first paper that a source names; "" where it names none."""
    for pattern, address in _PAPERS.items():
        if match := re.search(pattern, source):
            return address.format(match[1])
    return ""


def _first_sentence(text: str) -> str:
    """Of the comment that a file begins with, without its end; "" where there is none."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return re.split(r"\.(?:\s|$)", " ".join(lines))[0]
