"""A run of a plug-in says whether its file had passed `dpicl check`: this content, and this kit."""

import sys

from dpicl.core.plugins import source_hash
from dpicl.mechanism import checked
from dpicl.mechanism.registry import load_mechanisms
from dpicl.results.schema import from_text, to_text


def test_what_was_never_checked_or_failed_has_not_passed(own_cache):
    assert not checked.has_passed("a" * 64)
    checked.note("a" * 64, False)
    assert not checked.has_passed("a" * 64)
    checked.note("a" * 64, True)
    assert checked.has_passed("a" * 64) and not checked.has_passed("b" * 64)


def test_an_older_kit_and_a_damaged_note_do_not_count(own_cache, monkeypatch):
    checked.note("a" * 64, True)
    with monkeypatch.context() as patch:
        patch.setattr(checked, "_kit", lambda: "another kit")
        assert not checked.has_passed("a" * 64)
    path = own_cache / "checked" / f"{'a' * 64}.json"
    for damage in (
        "",
        "[]",
        "{" * 5000,
        '{"passed": true}',
        path.read_text()[:-3],
    ):
        path.write_text(damage)
        assert not checked.has_passed("a" * 64)


def test_a_result_says_whether_its_plugin_was_checked(dpicl, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from dpicl.mechanisms.zero_shot import ZeroShot\n\n\nclass Mine(ZeroShot):\n    name = 'mine'\n"
    )
    command = f"run quick --plugin {plugin} --mechanism mine --task agnews --model sim"
    command += " --source synthetic --seed 0 --limit 2 --results"

    def list_checked(folder):
        dpicl(command, tmp_path / folder).succeed()
        (file,) = (tmp_path / folder).rglob("quick/**/*.json")
        result = from_text(file.read_text())
        assert to_text(result) == file.read_text()
        return result.manifest.plugin_checked

    assert list_checked("before") is False
    dpicl(f"check {plugin} --task agnews").succeed()
    assert list_checked("one task is not the whole kit") is False
    dpicl("check", plugin).succeed()
    assert list_checked("after") is True
    plugin.write_text(plugin.read_text() + "# edited\n")
    assert list_checked("edited") is False


def test_a_file_that_a_plugin_reads_is_checked_with_it(own_cache, tmp_path):
    """Data that is read when it is imported or later, text that it runs, and modules of a folder that it adds."""
    (tmp_path / "mine" / "lib").mkdir(parents=True)
    tmp_path = tmp_path / "mine"
    texts = {
        "../outside.txt": "Z = 1",
        "scale.json": "1.0",
        "later.txt": "1",
        "code.txt": "X = 1",
        "lib/helper_of_mine.py": "Y = 1\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "import pathlib, sys\n"
        "from dpicl.mechanisms.zero_shot import ZeroShot\n"
        "HERE = pathlib.Path(__file__).parent\n"
        "SCALE = (HERE / 'scale.json').read_text()\n"
        "exec((HERE / 'code.txt').read_text())\n"
        "sys.path.insert(0, str(HERE / 'lib'))\n"
        "import helper_of_mine\n"
        "def read_later():\n"
        "    exec((HERE.parent / 'outside.txt').read_text())\n"
        "    return open(HERE / 'later.txt').read()\n"
        "class Mine(ZeroShot):\n"
        "    name = 'mine'\n"
    )
    known = load_mechanisms([plugin])["mine"]
    sys.modules[known.cls.__module__].read_later()
    checked.note(known.plugin_hash, True)
    assert checked.has_passed(known.plugin_hash)
    for name, text in texts.items():
        (tmp_path / name).write_text(text + " ")
        assert not checked.has_passed(known.plugin_hash), name
        (tmp_path / name).write_text(text)
    assert checked.has_passed(known.plugin_hash)


def test_a_class_without_source_is_never_known_again():
    first, second = (
        type(
            "Own",
            (),
            {"__module__": "__main__", "run": body},
        )
        for body in (len, max)
    )
    assert source_hash(first) != source_hash(second)
