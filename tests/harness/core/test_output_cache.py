"""The cache of model outputs: private, shared between processes, and whole beside damage."""

import hashlib
import json
import multiprocessing
import resource
import signal
import stat

import pytest

from dpicl.core.output_cache import OutputCache, key_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path))
    return tmp_path / "outputs"


def fill(folder):
    cache = OutputCache(folder)
    cache.put(
        "sim",
        "agnews",
        {
            key_of("a"): [0.1, float("nan")],
            key_of("b"): [1.0],
        },
    )
    cache.put("sim", "samsum", {key_of("c"): "a secret sentence about Amanda"})
    return cache


def values_of(cache, task, *names):
    return list(cache.get("sim", task, map(key_of, names)).values())


def test_folder_and_files_belong_to_their_owner_alone(folder):
    folder.mkdir(mode=0o755)  # made by somebody less careful
    fill(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    assert files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_two_caches_on_one_folder_see_each_other(folder):
    one, other = fill(folder), OutputCache(folder)
    other.put("sim", "samsum", {key_of("c"): "something else"})
    assert values_of(OutputCache(folder), "samsum", "c", "nothing") == [
        "a secret sentence about Amanda"
    ]
    one.put("sim", "agnews", {key_of("d"): [2.0]})
    assert values_of(other, "agnews", "b", "d") == [[1.0], [2.0]]


def test_without_a_folder_nothing_is_written(folder):
    cache = OutputCache(None)
    cache.put("sim", "agnews", {key_of("a"): [1.0]})
    assert values_of(cache, "agnews", "a") == [[1.0]]
    assert not folder.exists()


def test_the_prompt_itself_is_not_stored(folder):
    cache = OutputCache(folder)
    cache.put("sim", "agnews", {key_of("a private prompt"): [1.0]})
    assert b"a private prompt" not in b"".join(path.read_bytes() for path in folder.iterdir())


VALUES = {key_of("text", i): f"answer {i} " * (1 + i % 40) for i in range(120)}


def ask_again(folder):
    """Asks for every value as a run does, keeps what was missing; returns how many were there."""
    cache = OutputCache(folder)
    output = cache.get("sim", "agnews", VALUES)
    assert output.items() <= VALUES.items()
    for key in VALUES.keys() - output.keys():
        cache.put("sim", "agnews", {key: VALUES[key]})
    assert cache.get("sim", "agnews", VALUES) == VALUES
    return len(output)


@pytest.mark.parametrize("line", [0, 60, -1])
def test_damage_costs_the_lines_that_it_reaches(folder, line, caplog):
    assert ask_again(folder) == 0
    (path,) = folder.iterdir()
    lines = [each for each in path.read_bytes().split(b"\n") if each]
    lines[line] = lines[line].replace(b"answer", b"answe\xff", 1)
    path.write_bytes(b"\n".join([*lines, b"half a line"]))
    assert ask_again(folder) == len(VALUES) - 1 and "damaged" in caplog.text
    assert ask_again(folder) == len(VALUES)


def _fill_disk(folder, limit):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    ask_again(folder)


@pytest.mark.parametrize("limit", [0, 20000])
def test_a_disk_that_takes_no_more_bytes_costs_only_the_keeping(folder, limit):
    process = multiprocessing.get_context("fork").Process(target=_fill_disk, args=(folder, limit))
    process.start()
    process.join()
    assert process.exitcode == 0
    ask_again(folder)  # space again: everything is kept again
    assert ask_again(folder) == len(VALUES)


def test_a_path_that_is_no_folder_costs_only_the_keeping(tmp_path, caplog):
    (tmp_path / "outputs").write_text("a file")
    assert ask_again(tmp_path / "outputs") == 0
    assert "DPICL_CACHE" in caplog.text


def test_lines_of_earlier_versions_are_read(folder):
    content = json.dumps(
        {"model": "sim", "kind": "texts", "values": {key_of("a").hex(): "1.5"}}
    ).encode()
    fill(folder)
    (path,) = [path for path in folder.iterdir() if b"Amanda" not in path.read_bytes()]
    path.write_bytes(
        hashlib.blake2b(content, digest_size=16).hexdigest().encode() + b" " + content + b"\n"
    )
    assert values_of(OutputCache(folder), "agnews", "a", "b") == [1.5]
