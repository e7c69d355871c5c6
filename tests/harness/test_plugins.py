"""Plugins of every kind from packages with entry points: what is found, what fails, what clashes, what is hashed."""

from __future__ import annotations

import importlib.util
import logging
import os
import py_compile
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpicl import models
from dpicl.attacks import likelihood
from dpicl.core import plugins
from dpicl.core.errors import PluginError
from dpicl.mechanism import registry
from dpicl.scaffold.writing import EXAMPLES, class_name
from tests.harness.helpers import listed, refuse
from tests.harness.models import letters

Package = Callable[..., Path]


@pytest.fixture(autouse=True)
def warnings_reach_the_test(no_plugins_before: None, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    log = logging.getLogger("dpicl")
    log.addHandler(caplog.handler)
    yield
    log.removeHandler(caplog.handler)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """Installs a package as pip would: package(name, {file: text}, {group: {name: value}}) -> its folder."""

    def install(name: str, files: dict[str, str], groups: dict[str, dict[str, str]]) -> Path:
        site = tmp_path / f"site_{name}"
        for file, text in {"__init__.py": "", **files}.items():
            path = site / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in own.items())
            for group, own in groups.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(site)
        return site / name

    yield install
    for module in [module for module in sys.modules if module.startswith("theirs_")]:
        del sys.modules[module]


#: Kind -> an example of it, and its name there.
SHIPPED = {
    "mechanism": (EXAMPLES["answers"], "my_method"),
    "attack": (Path(likelihood.__file__), "likelihood"),
    "model": (Path(letters.__file__), "letters"),
}


def example(kind: str, name: str) -> str:
    """The text of an example under a new name."""
    source, before = SHIPPED[kind]
    text = source.read_text("utf-8").replace(f'"{before}"', f'"{name}"')
    return text.replace(class_name(before), class_name(name))


def task_files(name: str) -> dict[str, str]:
    """The files of the example task under a new name, in a folder `tasks` of a package."""
    return {
        f"tasks/{name}/{path.name}": path.read_text("utf-8").replace("my_task", name)
        for path in EXAMPLES["task"].iterdir()
        if path.is_file()
    }


def test_a_package_brings_one_of_each_kind(dpicl, package):
    package(
        "theirs_all",
        {
            "method.py": example("mechanism", "their_vote"),
            "probe.py": example("attack", "their_probe"),
            "engine.py": example("model", "their_model"),
            **task_files("their_task"),
        },
        {
            "dpicl.mechanisms": {"vote": "theirs_all.method:TheirVote"},
            "dpicl.attacks": {"probe": "theirs_all.probe"},
            "dpicl.models": {"their_model": "theirs_all.engine:load"},
            "dpicl.tasks": {"tasks": "theirs_all.tasks"},
        },
    )
    mechanisms, attacks = listed(dpicl, "mechanisms"), listed(dpicl, "attacks")
    assert mechanisms["their_vote"]["origin"] == "entry point vote = theirs_all.method:TheirVote"
    assert attacks["their_probe"]["origin"] == "entry point probe = theirs_all.probe"
    assert listed(dpicl, "models")["their_model"]["origin"] == "entry point their_model = theirs_all.engine:load"
    tasks = listed(dpicl, "tasks")
    assert tasks["their_task"]["origin"] == "entry point tasks = theirs_all.tasks"
    assert {tasks["agnews"]["origin"], mechanisms["tang"]["origin"], attacks["gap"]["origin"]} == {"built in"}
    assert models.load("their_model:2", device="cpu").identity.name == "their_model:2"


@pytest.mark.parametrize(
    ("group", "value", "reason"),
    [
        ("dpicl.mechanisms", "theirs_broken.missing", "ModuleNotFoundError"),
        ("dpicl.attacks", "theirs_broken.crash", "ZeroDivisionError"),
        ("dpicl.models", "theirs_broken:number", "is no function load(rest, device, dtype)"),
        ("dpicl.tasks", "theirs_broken.empty", "the package holds no task.yaml"),
        ("dpicl.tasks", "theirs_broken.tasks", "keys 'custom_dataset', 'output_type', 'description', 'doc_to_text'"),
    ],
)
def test_a_broken_entry_point_is_a_warning_that_names_it_and_stops_nothing(
    dpicl, package, caplog, group, value, reason
):
    files = {
        "__init__.py": "number = 3",
        "crash.py": "1 / 0",
        "empty/__init__.py": "",
        "tasks/half/task.yaml": "task: dpicl_half",
    }
    package("theirs_broken", files, {group: {"mishap": value}})
    kind = group.removeprefix("dpicl.")
    found = listed(dpicl, kind)
    assert {"mechanisms": "tang", "attacks": "gap", "models": "sim", "tasks": "agnews"}[kind] in found
    assert "mishap" not in found and "half" not in found
    assert f"The plugin 'mishap' ({value}) is left out" in caplog.text
    assert reason in caplog.text


@pytest.mark.parametrize(
    ("files", "groups", "kind", "both"),
    [
        (
            {"method.py": example("mechanism", "tang")},
            {"dpicl.mechanisms": {"again": "theirs_clash.method"}},
            "mechanisms",
            "Two mechanisms are called 'tang': built in and entry point again = theirs_clash.method",
        ),
        (
            {"engine.py": example("model", "sim")},
            {"dpicl.models": {"sim": "theirs_clash.engine:load"}},
            "models",
            "Two models are called 'sim': a built-in one and entry point sim = theirs_clash.engine:load",
        ),
        (
            task_files("trec"),
            {"dpicl.tasks": {"again": "theirs_clash.tasks"}},
            "tasks",
            "Two tasks are called 'trec': built in and entry point again = theirs_clash.tasks",
        ),
    ],
)
def test_a_name_that_is_taken_is_an_error_with_both_origins(dpicl, package, files, groups, kind, both):
    package("theirs_clash", files, groups)
    refuse(dpicl("list", kind), both, "rename one of them")


@pytest.mark.parametrize("file", ["parts/noise.py", "prompts.json"])
def test_the_hash_of_a_package_covers_every_file_of_it(package, file):
    folder = package(
        "theirs_hashed",
        {"method.py": example("mechanism", "their_hashed"), file: "SCALE = 1"},
        {"dpicl.mechanisms": {"hashed": "theirs_hashed.method"}},
    )
    first = registry.load_mechanisms()["their_hashed"].plugin_hash
    assert first == registry.load_mechanisms()["their_hashed"].plugin_hash
    (folder / file).write_text("SCALE = 2")
    assert first is not None and first != registry.load_mechanisms()["their_hashed"].plugin_hash


def test_a_plugin_file_must_not_need_a_file_beside_it(tmp_path, monkeypatch):
    (tmp_path / "beside_it.py").write_text("SCALE = 1")
    path = tmp_path / "theirs_two_files.py"
    first = "import numpy as np\n"
    path.write_text(example("mechanism", "their_two_files").replace(first, first + "import beside_it\n"))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=r"beside_it\.py"):
        registry.load_plugin(path)


@pytest.mark.parametrize("here", [True, False])
def test_a_plugin_may_import_a_module_whose_file_is_in_no_folder(tmp_path, monkeypatch, here):
    """As torch has them: `torch.ops.__file__` is "_ops.py", which seems to lie in the working folder."""
    path = tmp_path / "plugins" / "theirs_torch.py"
    path.parent.mkdir()
    made = "import sys, types\nmade = types.ModuleType('theirs_made')\nmade.__file__ = '_ops.py'\n"
    added = f"{made}sys.modules['theirs_made'] = made\n# {here}\n"
    first = "import numpy as np\n"
    path.write_text(example("mechanism", "their_torch").replace(first, first + added))
    monkeypatch.delitem(sys.modules, "theirs_made", raising=False)
    monkeypatch.chdir(path.parent if here else tmp_path)
    (found,) = registry.load_plugin(path.relative_to(Path.cwd()))
    assert found.cls.name == "their_torch"
    del sys.modules["theirs_made"]


def test_bytecode_beside_a_plugin_is_neither_read_nor_written(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file, cached = tmp_path / "own.py", tmp_path / "__pycache__"
    file.write_text("WORD = 'fals'\n")
    py_compile.compile(str(file), importlib.util.cache_from_source(str(file)), doraise=True)
    status = file.stat()
    file.write_text("WORD = 'true'\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # as the bytecode of the other source says
    assert plugins.module_of(file)[0].WORD == "true"
    shutil.rmtree(cached)
    (tmp_path / "another.py").write_text("WORD = 2\n")
    assert plugins.module_of(tmp_path / "another.py")[0].WORD == 2 and not cached.exists()
