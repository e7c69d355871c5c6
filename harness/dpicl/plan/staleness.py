"""Compares a result with what a run would use now: records, prompts, models, the mechanism, files of plug-ins.

What a file does not say, or only loading a model would tell, counts as unknown and never as changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path

from dpicl import models
from dpicl.core import plugins
from dpicl.core.messages import count
from dpicl.core.plugins import Registered
from dpicl.data.task import Task
from dpicl.models import embeddings, hub
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result

_UNSAID = "their files do not say it"


class Comparison:
    """What results are compared with. results: all of the folder. mechanisms: the registry. loaded: the pins of models
    that were loaded to know them, by name.

    unknown: what could not be compared, and why -> of how many results.
    """

    def __init__(
        self,
        records: Fingerprints,
        mechanisms: Mapping[str, Registered],
        results: Iterable[Result],
        loaded: Mapping[str, str],
    ) -> None:
        self._records, self._mechanisms, self._loaded = records, mechanisms, loaded
        self._newest = _find_newest_pins(results)
        self._pin_of, self._task_of = cache(models.identify), cache(Task.read_public)
        self._embedding_of = cache(embeddings.identify)
        self.unknown: Counter[tuple[str, str]] = Counter()

    def find_difference(self, result: Result) -> str:
        """What is another one now, in a few words; '' where nothing is known to be. Raises as `find_at_hand`."""
        return (
            self._records.difference(result)
            or self._compare_prompts(result)
            or self._compare_model(result)
            or self._compare_embedding(result)
            or self._compare_version(result)
            or self._compare_plugins(result)
        )

    def describe_unknown(self) -> str:
        """What could not be compared, in one line; '' where all could."""
        parts = [
            f"{what} of {count(n, 'result')} ({why})" for (what, why), n in self.unknown.items()
        ]
        return f"Not compared with what is here now: {'; '.join(parts)}." if parts else ""

    def _compare_prompts(self, result: Result) -> str:
        same = result.manifest.prompts_hash == self._task_of(result.cell.task).prompts_hash
        return "" if same else "the prompts changed"

    def _compare_model(self, result: Result) -> str:
        name, pin = result.cell.model, result.manifest.model.pin
        now = self._loaded.get(name, self._pin_of(name))
        if now is None and self._newest.get(name, pin) == pin:
            self.unknown["the model", "only loading it tells"] += 1
            return ""
        if pin == now:
            return ""
        if _is_partly_said(result):
            self.unknown["all of the model but its weights", _UNSAID] += 1
            return ""
        return f"the model {name} changed"

    def _compare_embedding(self, result: Result) -> str:
        """Of the mechanism's option; that of a metric is a packaged one."""
        name, manifest = result.cell.options.get("embedding"), result.manifest
        then = manifest.mechanism_embedding or manifest.embedding
        if not isinstance(name, str) or then is None or then.sha256 is None:
            return ""
        now = self._embedding_of(name)
        return f"the embedding model {name} changed" if now not in (None, then.sha256) else ""

    def _compare_version(self, result: Result) -> str:
        registered = self._mechanisms.get(result.cell.mechanism)
        then = result.manifest.mechanism_version
        # the cell has the hash of its file
        if registered is None or result.cell.plugin is not None:
            return ""
        if then is None:
            self.unknown["the mechanism's version", _UNSAID] += 1
            return ""
        now = registered.cls.version
        return "" if then == now else f"{registered.cls.name} has version {now} and had {then}"

    def _compare_plugins(self, result: Result) -> str:
        of_model = models.plugin_of(result.cell.model)
        if result.cell.plugin is None and of_model is None:
            return ""
        files = result.manifest.plugin_files
        if files is None:
            self.unknown["the files that the plug-in reads", _UNSAID] += 1
            return ""
        if of_model is not None and of_model not in files:
            return f"the plug-in file of the model {result.cell.model} changed"
        if any(plugins.list_unknown(digest, names) for digest, names in files.items()):
            self.unknown["files outside of the plug-in's folder", "only running it finds them"] += 1
        if any(map(plugins.reads_environment, files)):
            self.unknown["environment variables that the plug-in reads", "no file says them"] += 1
        changed = [name for digest in files for name in plugins.list_changed(digest, files[digest])]
        return f"{changed[0]}, which the plug-in reads, changed" if changed else ""


def _find_newest_pins(results: Iterable[Result]) -> dict[str, str]:
    """Name of a model -> the pin in the newest result: two that differ are not both of the model that is there now."""
    newest = dict[str, tuple[datetime, str]]()
    for result in results:
        if not _is_partly_said(result):
            model = result.cell.model
            dated_pin = datetime.fromisoformat(result.created), result.manifest.model.pin
            newest[model] = max(dated_pin, newest.get(model, dated_pin))
    return {name: pin for name, (_, pin) in newest.items()}


def _is_partly_said(result: Result) -> bool:
    """Whether an older file says less of its model than `models.identify` does: the weights of a folder alone, and of a
    server's model everything but the tokenizer."""
    server, kind = result.manifest.server, result.cell.model.partition(":")
    if server is not None:
        return server.tokenizer is None
    folder = Path(hub.split_reference(kind[2])[0])
    return (
        kind[0] == "hf"
        and folder.is_dir()
        and hub.identify_weights(folder) == result.manifest.model.sha256
    )
