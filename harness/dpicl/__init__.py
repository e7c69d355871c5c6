"""Compares methods of differentially private in-context learning at the same proved epsilon.

What a program or a notebook uses, and what a mechanism, task, model or attack of your own is made of, is named here:
docs/python.md shows both, and names the modules from which shipped method files import more. Everything else may move
from one release to the next.
"""

import os
import sys

# `python -m dpicl` puts the working folder first on the path: a `yaml.py` that lies there, in a submission say, would
# run. It goes last before anything else is imported. What Python itself imports before this line, such as contextlib,
# cannot be helped.
if (
    getattr(sys, "argv", [])[:1] == ["-m"]  # while the module is looked for
    and not sys.flags.safe_path
    and sys.path
    and sys.path[0] in ("", os.getcwd())
):
    sys.path.append(sys.path.pop(0))

import importlib
from typing import TYPE_CHECKING, Any

from dpicl.core.openmp import limit_spinning

limit_spinning()

if TYPE_CHECKING:
    from dpicl.accounting import dp_event
    from dpicl.accounting.accountants import epsilon
    from dpicl.accounting.events import (
        bounded_range,
        bounded_range_choice,
        compose,
        gaussian,
        parallel,
    )
    from dpicl.accounting.published import (
        dp_opt_epsilon,
        prism_formula,
        sampled_exponential_epsilon,
    )
    from dpicl.api.evaluate import evaluate
    from dpicl.api.lists import list_attacks, list_mechanisms, list_models, list_suites, list_tasks
    from dpicl.attacks.base import Attack, AttackFinding, AttackSetup
    from dpicl.attacks.membership import membership_finding
    from dpicl.attacks.targets import Target
    from dpicl.cli.account import account
    from dpicl.cli.attack import attack
    from dpicl.cli.audit import audit
    from dpicl.cli.budget import budget
    from dpicl.cli.calibrate import calibrate
    from dpicl.cli.check import check
    from dpicl.cli.release import answer, release
    from dpicl.cli.tune import tune
    from dpicl.core.errors import DataError, DpiclError, PromptTooLong, UsageError, unknown_name
    from dpicl.core.scripts import fold_text, split_words
    from dpicl.core.vocabulary import (
        Demonstration,
        FinalPrompt,
        Knob,
        Partition,
        Query,
        Record,
        ReleasedPrompt,
        Sizes,
    )
    from dpicl.data.task import PublicTask, Task
    from dpicl.leaderboards.cli.board import board
    from dpicl.leaderboards.cli.compare import compare
    from dpicl.leaderboards.cli.plot import plot
    from dpicl.mechanism.bases import (
        AnswerContext,
        AnswerMechanism,
        Context,
        DemonstrationMechanism,
        Mechanism,
        Prepared,
        PreparedContext,
        PreparedMechanism,
        Reader,
    )
    from dpicl.mechanism.generation import (
        PromptWriter,
        ReleasedText,
        check_positive,
        check_style,
        cut_record,
        draw_in_public,
        label_endings,
        public_log_probs,
        public_vocabulary,
    )
    from dpicl.mechanism.label_texts import NextToken, NoisyTokens, OneSampleTexts, softmax
    from dpicl.mechanism.options import LATER_OPTION
    from dpicl.mechanism.public_candidates import (
        PublicChoice,
        find_nearest,
        public_slots,
        write_request,
    )
    from dpicl.mechanism.sampled_texts import public_prompts, sample_texts, seeds_of, write_texts
    from dpicl.models.base import (
        Broken,
        ChatPrompt,
        Decoder,
        LanguageModel,
        ModelIdentity,
        Prefix,
        Tokens,
        Usage,
    )
    from dpicl.models.decoding import Writer
    from dpicl.models.embeddings import check_embedding_name
    from dpicl.models.rereading import RereadingModel
    from dpicl.own.released import PrivateRelease, UnsavedRelease
    from dpicl.privacy.above_threshold import AboveThreshold
    from dpicl.privacy.cluster_tree import ClusterTree
    from dpicl.privacy.limited_domain import LimitedDomain
    from dpicl.privacy.near_centre import NearCentre
    from dpicl.privacy.primitives import (
        BoundedRangeChoice,
        DifferenceChoice,
        GaussianSum,
        NearestToMean,
        NoisySum,
        ProductChoice,
    )
    from dpicl.privacy.private_set import PrivateRecord, PrivateSet, Sample, sampling_rate
    from dpicl.privacy.public_slots import PublicSample, PublicScheme
    from dpicl.privacy.sampling_schemes import JoiningScheme
    from dpicl.privacy.top_k import NoisyTopK
    from dpicl.privacy.vote_histogram import VoteHistogram

#: Module -> the public names that it holds. They are imported when they are first used: `dpicl --help` needs none.
_PLACES = {
    "dpicl.accounting": "dp_event",
    "dpicl.accounting.accountants": "epsilon",
    "dpicl.accounting.events": "bounded_range bounded_range_choice compose gaussian parallel",
    "dpicl.accounting.published": "dp_opt_epsilon prism_formula sampled_exponential_epsilon",
    "dpicl.api.evaluate": "evaluate",
    "dpicl.api.lists": "list_attacks list_mechanisms list_models list_suites list_tasks",
    "dpicl.attacks.base": "Attack AttackFinding AttackSetup",
    "dpicl.attacks.membership": "membership_finding",
    "dpicl.attacks.targets": "Target",
    "dpicl.cli.account": "account",
    "dpicl.cli.attack": "attack",
    "dpicl.cli.audit": "audit",
    "dpicl.cli.budget": "budget",
    "dpicl.cli.calibrate": "calibrate",
    "dpicl.cli.check": "check",
    "dpicl.cli.release": "answer release",
    "dpicl.cli.tune": "tune",
    "dpicl.core.errors": "DataError DpiclError PromptTooLong UsageError unknown_name",
    "dpicl.core.scripts": "fold_text split_words",
    "dpicl.core.vocabulary": "Demonstration FinalPrompt Knob Partition Query Record ReleasedPrompt Sizes",
    "dpicl.data.task": "PublicTask Task",
    "dpicl.leaderboards.cli.board": "board",
    "dpicl.leaderboards.cli.compare": "compare",
    "dpicl.leaderboards.cli.plot": "plot",
    "dpicl.mechanism.bases": "AnswerContext AnswerMechanism Context DemonstrationMechanism Mechanism Prepared "
    "PreparedContext PreparedMechanism Reader",
    "dpicl.mechanism.generation": "PromptWriter ReleasedText check_positive check_style cut_record draw_in_public "
    "label_endings public_log_probs public_vocabulary",
    "dpicl.mechanism.label_texts": "NextToken NoisyTokens OneSampleTexts softmax",
    "dpicl.mechanism.options": "LATER_OPTION",
    "dpicl.mechanism.public_candidates": "PublicChoice find_nearest public_slots write_request",
    "dpicl.mechanism.sampled_texts": "public_prompts sample_texts seeds_of write_texts",
    "dpicl.models.base": "Broken ChatPrompt Decoder LanguageModel ModelIdentity Prefix Tokens Usage",
    "dpicl.models.decoding": "Writer",
    "dpicl.models.embeddings": "check_embedding_name",
    "dpicl.models.rereading": "RereadingModel",
    "dpicl.own.released": "PrivateRelease UnsavedRelease",
    "dpicl.privacy.above_threshold": "AboveThreshold",
    "dpicl.privacy.cluster_tree": "ClusterTree",
    "dpicl.privacy.limited_domain": "LimitedDomain",
    "dpicl.privacy.near_centre": "NearCentre",
    "dpicl.privacy.primitives": "BoundedRangeChoice DifferenceChoice GaussianSum NearestToMean NoisySum ProductChoice",
    "dpicl.privacy.private_set": "PrivateRecord PrivateSet Sample sampling_rate",
    "dpicl.privacy.public_slots": "PublicSample PublicScheme",
    "dpicl.privacy.sampling_schemes": "JoiningScheme",
    "dpicl.privacy.top_k": "NoisyTopK",
    "dpicl.privacy.vote_histogram": "VoteHistogram",
}
_HOME = {name: place for place, names in _PLACES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("dpicl-bench")
    if name == "data":  # a package that is called
        return importlib.import_module("dpicl.data")
    if name not in _HOME:
        raise AttributeError(
            f"module 'dpicl' has no attribute '{name}'; docs/python.md lists what it has"
        )
    from dpicl.core.extras import require_extras

    with require_extras():
        value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
