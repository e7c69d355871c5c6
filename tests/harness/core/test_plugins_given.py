"""Plugins that are given with `--plugin`: folders of tasks and files with models."""

from pathlib import Path

import pytest

from dpicl import models
from dpicl.core.errors import ModelError, PluginError, UsageError
from dpicl.data.task import Task
from dpicl.mechanism import registry
from tests.harness.helpers import refuse

pytestmark = pytest.mark.usefixtures("no_plugins_before")

# --- tasks -----------------------------------------------------------------------------------------------------------


def test_a_changed_task_is_another_version(meals):
    registry.load_mechanisms([meals])
    version = Task.read_public("meals").version
    assert str(version).startswith("1+") and len(str(version)) == 2 + 12
    for name in ("train.jsonl", "README.md", "suite.yaml"):
        (meals / name).write_text("changed")
    assert Task.read_public("meals").version == version
    (meals / "task.yaml").write_text(
        (meals / "task.yaml").read_text().replace("Text: ", "Opinion: ")
    )
    changed = Task.read_public("meals")
    assert changed.version != version and changed.query("Good.") == "Opinion: Good.\nLabel:"
    (meals / "metrics.py").write_text("")
    assert Task.read_public("meals").version != changed.version


def test_a_folder_without_a_task_is_refused(dpicl, tmp_path):
    (tmp_path / "nothing").mkdir()
    refuse(dpicl(f"list tasks --plugin {tmp_path}/nothing"), "holds no task.yaml")
    missing = dpicl(f"list tasks --plugin {tmp_path}/nowhere")
    assert missing.code == 2 and "is not there" in missing.err


# --- models ----------------------------------------------------------------------------------------------------------

MODEL_PLUGIN = """\
from dataclasses import replace
from dpicl.models.simulated import load_simulated


def load(rest, device, dtype):
    '''A seeded fake under another name.'''
    model = load_simulated("")
    {change}
    return model


MODELS = {{"fake": load}}
"""
PINNED = 'model.identity = replace(model.identity, revision="abc")'


def write_fake(tmp_path: Path, change: str = PINNED, more: str = "") -> Path:
    path = tmp_path / "fake.py"
    path.write_text(MODEL_PLUGIN.format(change=change) + more)
    return path


def test_a_model_is_known_by_its_weights_and_its_file(tmp_path, monkeypatch):
    def sha256(change: str, more: str = "") -> str | None:
        monkeypatch.setattr(models, "_given", {})
        registry.load_mechanisms([write_fake(tmp_path, change, more)])
        return models.load("fake:x", device="cpu").identity.sha256

    assert sha256(PINNED) == sha256(PINNED)
    assert (
        len(
            {
                sha256(PINNED),
                sha256(PINNED, "# edited\n"),
                sha256(PINNED.replace("abc", "def")),
            }
        )
        == 3
    )


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        ("pass", PluginError, "neither sha256 nor revision"),
        ("model = 3", PluginError, "must return a LanguageModel"),
        ("1 / 0", ModelError, "cannot be loaded: ZeroDivisionError"),
    ],
)
def test_a_model_that_cannot_be_used_is_named_with_its_file(tmp_path, change, error, reason):
    path = write_fake(tmp_path, change)
    registry.load_mechanisms([path])
    with pytest.raises(error, match=reason) as raised:
        models.load("fake", device="cpu")
    assert f"Model 'fake' (plugin {path})" in str(raised.value)


@pytest.mark.parametrize("value", ["[load]", "{'a:b': load}", "{'a': 1}", "{3: load}"])
def test_models_must_be_names_and_loaders(tmp_path, value):
    with pytest.raises(PluginError, match=r"MODELS in .* must be a dictionary"):
        registry.load_plugin(write_fake(tmp_path, more=f"MODELS = {value}\n"))


def test_a_model_name_is_known_only_with_its_plugin(tmp_path):
    with pytest.raises(UsageError, match="Unknown model 'fake'"):
        models.load("fake", device="cpu")
    registry.load_mechanisms([write_fake(tmp_path)])
    with pytest.raises(UsageError, match="Did you mean 'fake'"):
        models.load("fak", device="cpu")
