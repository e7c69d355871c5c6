"""What the registry finds, and what it says about what it cannot use."""

import sys
from pathlib import Path

import pytest

from dpicl.core.errors import PluginError
from dpicl.mechanism import registry
from tests.harness.helpers import PLUGIN

ODD = "class Odd:\n    @property\n    def __class__(self):\n        raise RuntimeError('no')\nodd = Odd()\n"


def plugin(tmp_path: Path, text: str = PLUGIN) -> Path:
    path = tmp_path / "my_method.py"
    path.write_text(text)
    return path


def test_a_plugin_file_is_known_by_its_content(tmp_path):
    first = registry.load_mechanisms([plugin(tmp_path)])["nothing"]
    again = registry.load_mechanisms([plugin(tmp_path)])["nothing"]
    other = registry.load_mechanisms(
        [plugin(tmp_path, PLUGIN.replace("words: int = 3", "words: int = 4"))]
    )["nothing"]
    assert first.cls is again.cls
    assert first.cls().words == 3
    assert other.cls().words == 4
    assert first.plugin_hash == again.plugin_hash != other.plugin_hash


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_package_here", "ModuleNotFoundError"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("class Own(BaseException):\n    pass\nraise Own('\\x1b[2J')", "fails to import: Own"),
        (
            "from dpicl.core.errors import PluginError\n"
            "class Own(PluginError):\n    def __str__(self):\n        raise TypeError\nraise Own",
            "cannot be read",
        ),
        ("x = 1", "defines no mechanism"),
        (PLUGIN.replace("def release", "def releases"), "lacks release"),
        (PLUGIN.replace('name = "nothing"', "nom = 1"), "needs `name` and `knob`"),
        (PLUGIN.replace('"nothing"', '"tang"'), "Two mechanisms are called 'tang'"),
        (ODD + PLUGIN, ""),
        (PLUGIN.replace('name = "nothing"', "name = '../../x'"), ""),
        (PLUGIN.replace('name = "nothing"', "name = type('S', (str,), {'__eq__': 1})('x')"), ""),
        (PLUGIN.replace("knob = None", "knob = 'x'"), ""),
        (PLUGIN.replace("knob = None", "knob = None\n    source = 3"), ""),
        (
            PLUGIN + "\n\nclass Other(Nothing):\n    name = 'other'\n    words = 5\n",
            "its option words stays 3",
        ),
    ],
)
def test_a_plugin_that_cannot_be_used_is_an_error(tmp_path, text, reason):
    path = plugin(tmp_path, text)
    modules = set(sys.modules)
    with pytest.raises(PluginError) as error:
        registry.load_mechanisms([path])
    assert reason in str(error.value) and len(str(error.value)) > 40
    if "class Nothing" not in text and text != "x = 1":  # it fails while it is imported
        assert str(path) in str(error.value)
        assert set(sys.modules) == modules


def test_a_built_in_module_that_fails_to_import_is_named(monkeypatch, tmp_path):
    from dpicl import mechanisms

    (tmp_path / "half_written.py").write_text("import no_such_package_here")
    monkeypatch.setattr(mechanisms, "__path__", [*mechanisms.__path__, str(tmp_path)])
    with pytest.raises(PluginError, match=r"mechanisms\.half_written.*no_such_package_here"):
        registry.load_mechanisms()
