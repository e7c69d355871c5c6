"""Differentially private in-context learning, compared at the same proved epsilon.

What a program or a notebook uses, and what a mechanism, task, model or attack of your own is made of, is named here:
docs/python.md shows both. Everything else may move from one release to the next.
"""

import os
import sys

# `python -m dpicl` puts the working folder first on the path: a `yaml.py` that lies there, in a submission say, would
# run. It goes last before anything else is imported, unless it is the checkout that this code is from, whose other
# packages must come from there too. What Python itself imports before this line, such as contextlib, cannot be helped.
if (
    getattr(sys, "argv", [])[:1] == ["-m"]  # while the module is looked for
    and not sys.flags.safe_path
    and sys.path
    and sys.path[0] in ("", os.getcwd())
    and os.getcwd() != os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
):
    sys.path.append(sys.path.pop(0))

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl.harness.api.exact import audit_exactly, audit_rows_exactly
    from dpicl.harness.api.functions import account, audit, calibrate, check, evaluate
    from dpicl.harness.api.lists import list_attacks, list_mechanisms, list_models, list_suites, list_tasks
    from dpicl.harness.api.released import PrivateRelease, UnsavedRelease
    from dpicl.harness.api.releases import answer, answer_from, budget, release
    from dpicl.harness.attacks.base import Attack, AttackFinding, AttackSetup
    from dpicl.harness.attacks.membership import membership_finding, scored, shown_finding, shows_records
    from dpicl.harness.attacks.targets import Target
    from dpicl.harness.core.errors import DpiclError, PromptTooLong, UsageError
    from dpicl.harness.core.vocabulary import Demonstration, FinalPrompt, Knob, Query, Record, ReleasedPrompt, Sizes
    from dpicl.harness.data.task import PublicTask, Task
    from dpicl.harness.mechanism.bases import (
        AnswerContext,
        AnswerMechanism,
        Context,
        DemonstrationMechanism,
        Mechanism,
        Prepared,
        PreparedContext,
        PreparedMechanism,
    )
    from dpicl.harness.mechanism.generation import (
        PromptWriter,
        ReleasedText,
        check_positive,
        public_log_probs,
        public_vocabulary,
    )
    from dpicl.harness.models.base import (
        Broken,
        ChatPrompt,
        Decoder,
        LanguageModel,
        ModelIdentity,
        Prefix,
        Tokens,
        Usage,
    )
    from dpicl.harness.models.decoding import Writer
    from dpicl.harness.models.rereading import RereadingModel
    from dpicl.harness.privacy.above_threshold import AboveThreshold
    from dpicl.harness.privacy.cluster_tree import ClusterTree
    from dpicl.harness.privacy.events import bounded_range_choice, compose, gaussian, parallel
    from dpicl.harness.privacy.limited_domain import LimitedDomain
    from dpicl.harness.privacy.primitives import (
        BoundedRangeChoice,
        DifferenceChoice,
        GaussianSum,
        NearestToMean,
        NoisySum,
    )
    from dpicl.harness.privacy.private_set import PrivateRecord, PrivateSet, Sample, sampling_rate
    from dpicl.harness.privacy.top_k import NoisyTopK
    from dpicl.harness.privacy.vote_histogram import VoteHistogram
    from dpicl.leaderboards.api import board, compare

#: Module -> the public names that it holds. They are imported when they are first used: `dpicl --help` needs none.
_PLACES = {
    "dpicl.harness.api.exact": "audit_exactly audit_rows_exactly",
    "dpicl.harness.api.functions": "account audit calibrate check evaluate",
    "dpicl.harness.api.lists": "list_attacks list_mechanisms list_models list_suites list_tasks",
    "dpicl.harness.api.released": "PrivateRelease UnsavedRelease",
    "dpicl.harness.api.releases": "answer answer_from budget release",
    "dpicl.harness.attacks.base": "Attack AttackFinding AttackSetup",
    "dpicl.harness.attacks.membership": "membership_finding scored shown_finding shows_records",
    "dpicl.harness.attacks.targets": "Target",
    "dpicl.harness.core.errors": "DpiclError PromptTooLong UsageError",
    "dpicl.harness.core.vocabulary": "Demonstration FinalPrompt Knob Query Record ReleasedPrompt Sizes",
    "dpicl.harness.data.task": "PublicTask Task",
    "dpicl.harness.mechanism.bases": "AnswerContext AnswerMechanism Context DemonstrationMechanism Mechanism"
    " Prepared PreparedContext PreparedMechanism",
    "dpicl.harness.mechanism.generation": "PromptWriter ReleasedText check_positive public_log_probs public_vocabulary",
    "dpicl.harness.models.base": "Broken ChatPrompt Decoder LanguageModel ModelIdentity Prefix Tokens Usage",
    "dpicl.harness.models.decoding": "Writer",
    "dpicl.harness.models.rereading": "RereadingModel",
    "dpicl.harness.privacy.cluster_tree": "ClusterTree",
    "dpicl.harness.privacy.events": "bounded_range_choice compose gaussian parallel",
    "dpicl.harness.privacy.primitives": "BoundedRangeChoice DifferenceChoice GaussianSum NearestToMean NoisySum",
    "dpicl.harness.privacy.above_threshold": "AboveThreshold",
    "dpicl.harness.privacy.private_set": "PrivateRecord PrivateSet Sample sampling_rate",
    "dpicl.harness.privacy.limited_domain": "LimitedDomain",
    "dpicl.harness.privacy.top_k": "NoisyTopK",
    "dpicl.harness.privacy.vote_histogram": "VoteHistogram",
    "dpicl.leaderboards.api": "board compare",
}
_HOME = {name: place for place, names in _PLACES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dpicl' has no attribute '{name}'; docs/python.md lists what it has")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
