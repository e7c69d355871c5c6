"""Plugin files: what clashes, what they may import, and that their bytecode is left alone."""

import importlib.util
import os
import py_compile
import shutil
import sys
from pathlib import Path

import pytest

from dpicl.attacks import likelihood
from dpicl.core import plugins
from dpicl.core.errors import PluginError
from dpicl.mechanism import registry
from dpicl.scaffold.writing import EXAMPLES, class_name
from tests.harness.helpers import refuse
from tests.harness.models import letters

pytestmark = pytest.mark.usefixtures("no_plugins_before")


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


@pytest.mark.parametrize(
    ("kind", "name", "taken"),
    [
        ("attack", "gap", "built in"),
        ("model", "sim", "a built-in one"),
    ],
)
def test_a_name_that_is_taken_is_an_error_with_both_origins(dpicl, tmp_path, kind, name, taken):
    path = tmp_path / "again.py"
    path.write_text(example(kind, name), encoding="utf-8")
    both = f"Two {kind}s are called '{name}': {taken} and plugin {path}"
    refuse(dpicl("list", f"{kind}s", "--plugin", path), both, "rename one of them")


def test_a_task_of_a_known_name_is_an_error_with_both_origins(dpicl, tmp_path):
    path = tmp_path / "trec"
    shutil.copytree(EXAMPLES["task"], path)
    refuse(
        dpicl(f"list tasks --plugin {path}"),
        f"Two tasks are called 'trec': built in and plugin {path}",
    )


def test_a_plugin_file_must_not_need_a_file_beside_it(tmp_path, monkeypatch):
    (tmp_path / "beside_it.py").write_text("SCALE = 1")
    path = tmp_path / "theirs_two_files.py"
    first = "import numpy as np\n"
    path.write_text(
        example("mechanism", "their_two_files").replace(first, first + "import beside_it\n")
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=r"beside_it\.py"):
        registry.load_plugin(path)


@pytest.mark.parametrize("here", [True, False])
def test_a_plugin_may_import_a_module_whose_file_is_in_no_folder(tmp_path, monkeypatch, here):
    """As torch has them: `torch.ops.__file__` is "_ops.py", which seems to lie in the working folder."""
    path = tmp_path / "plugins" / "theirs_torch.py"
    path.parent.mkdir()
    source = (
        "import sys, types\nmade = types.ModuleType('theirs_made')\nmade.__file__ = '_ops.py'\n"
    )
    added = f"{source}sys.modules['theirs_made'] = made\n# {here}\n"
    first = "import numpy as np\n"
    path.write_text(example("mechanism", "their_torch").replace(first, first + added))
    monkeypatch.delitem(sys.modules, "theirs_made", raising=False)
    monkeypatch.chdir(path.parent if here else tmp_path)
    (registered,) = registry.load_plugin(path.relative_to(Path.cwd()))
    assert registered.cls.name == "their_torch"
    del sys.modules["theirs_made"]


def test_bytecode_beside_a_plugin_is_neither_read_nor_written(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file, cached = tmp_path / "own.py", tmp_path / "__pycache__"
    file.write_text("WORD = 'fals'\n")
    py_compile.compile(
        str(file),
        importlib.util.cache_from_source(str(file)),
        doraise=True,
    )
    status = file.stat()
    file.write_text("WORD = 'true'\n")
    os.utime(
        file, ns=(status.st_atime_ns, status.st_mtime_ns)
    )  # as the bytecode of the other source says
    assert plugins.module_of(file)[0].WORD == "true"
    shutil.rmtree(cached)
    (tmp_path / "another.py").write_text("WORD = 2\n")
    assert plugins.module_of(tmp_path / "another.py")[0].WORD == 2 and not cached.exists()
