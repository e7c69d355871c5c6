"""Differentially private in-context learning, compared at the same proved epsilon.

What a program or a notebook uses, and what a mechanism, task, model or attack of your own is made of, is named here:
docs/python.md shows both. Everything else may move from one release to the next.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl.harness.api.functions import account as account
    from dpicl.harness.api.functions import calibrate as calibrate
    from dpicl.harness.api.functions import check as check
    from dpicl.harness.api.functions import evaluate as evaluate
    from dpicl.harness.api.lists import list_attacks as list_attacks
    from dpicl.harness.api.lists import list_mechanisms as list_mechanisms
    from dpicl.harness.api.lists import list_models as list_models
    from dpicl.harness.api.lists import list_suites as list_suites
    from dpicl.harness.api.lists import list_tasks as list_tasks
    from dpicl.harness.attacks.base import (
        Attack as Attack,
    )
    from dpicl.harness.attacks.base import (
        AttackFinding as AttackFinding,
    )
    from dpicl.harness.attacks.base import (
        AttackSetup as AttackSetup,
    )
    from dpicl.harness.attacks.membership import (
        membership_finding as membership_finding,
    )
    from dpicl.harness.attacks.membership import (
        scored as scored,
    )
    from dpicl.harness.attacks.membership import (
        shown_finding as shown_finding,
    )
    from dpicl.harness.attacks.membership import (
        shows_records as shows_records,
    )
    from dpicl.harness.attacks.targets import (
        Target as Target,
    )
    from dpicl.harness.core.errors import (
        DpiclError as DpiclError,
    )
    from dpicl.harness.core.errors import (
        PromptTooLong as PromptTooLong,
    )
    from dpicl.harness.core.errors import (
        UsageError as UsageError,
    )
    from dpicl.harness.data.splits import (
        Record as Record,
    )
    from dpicl.harness.data.task import (
        PublicTask as PublicTask,
    )
    from dpicl.harness.data.task import (
        Task as Task,
    )
    from dpicl.harness.mechanism.bases import (
        AnswerContext as AnswerContext,
    )
    from dpicl.harness.mechanism.bases import (
        AnswerMechanism as AnswerMechanism,
    )
    from dpicl.harness.mechanism.bases import (
        Context as Context,
    )
    from dpicl.harness.mechanism.bases import (
        Demonstration as Demonstration,
    )
    from dpicl.harness.mechanism.bases import (
        DemonstrationMechanism as DemonstrationMechanism,
    )
    from dpicl.harness.mechanism.bases import (
        FinalPrompt as FinalPrompt,
    )
    from dpicl.harness.mechanism.bases import (
        Knob as Knob,
    )
    from dpicl.harness.mechanism.bases import (
        Mechanism as Mechanism,
    )
    from dpicl.harness.mechanism.bases import (
        Query as Query,
    )
    from dpicl.harness.mechanism.bases import (
        Sizes as Sizes,
    )
    from dpicl.harness.mechanism.generation import (
        PromptWriter as PromptWriter,
    )
    from dpicl.harness.mechanism.generation import (
        ReleasedText as ReleasedText,
    )
    from dpicl.harness.mechanism.generation import (
        check_positive as check_positive,
    )
    from dpicl.harness.mechanism.generation import (
        public_log_probs as public_log_probs,
    )
    from dpicl.harness.mechanism.generation import (
        public_vocabulary as public_vocabulary,
    )
    from dpicl.harness.models.base import (
        Broken as Broken,
    )
    from dpicl.harness.models.base import (
        ChatPrompt as ChatPrompt,
    )
    from dpicl.harness.models.base import (
        Decoder as Decoder,
    )
    from dpicl.harness.models.base import (
        LanguageModel as LanguageModel,
    )
    from dpicl.harness.models.base import (
        ModelIdentity as ModelIdentity,
    )
    from dpicl.harness.models.base import (
        Prefix as Prefix,
    )
    from dpicl.harness.models.base import (
        Tokens as Tokens,
    )
    from dpicl.harness.models.base import (
        Usage as Usage,
    )
    from dpicl.harness.models.decoding import (
        Writer as Writer,
    )
    from dpicl.harness.privacy.cluster_tree import (
        ClusterTree as ClusterTree,
    )
    from dpicl.harness.privacy.events import (
        bounded_range_choice as bounded_range_choice,
    )
    from dpicl.harness.privacy.events import (
        compose as compose,
    )
    from dpicl.harness.privacy.events import (
        gaussian as gaussian,
    )
    from dpicl.harness.privacy.events import (
        parallel as parallel,
    )
    from dpicl.harness.privacy.primitives import (
        BoundedRangeChoice as BoundedRangeChoice,
    )
    from dpicl.harness.privacy.primitives import (
        GaussianSum as GaussianSum,
    )
    from dpicl.harness.privacy.primitives import (
        NearestToMean as NearestToMean,
    )
    from dpicl.harness.privacy.private_set import (
        PrivateRecord as PrivateRecord,
    )
    from dpicl.harness.privacy.private_set import (
        PrivateSet as PrivateSet,
    )
    from dpicl.harness.privacy.private_set import (
        Sample as Sample,
    )
    from dpicl.harness.privacy.private_set import (
        sampling_rate as sampling_rate,
    )
    from dpicl.harness.privacy.top_k import (
        NoisyTopK as NoisyTopK,
    )

#: Module -> the public names that it holds. They are imported when they are first used: `dpicl --help` needs none.
_PLACES = {
    "dpicl.harness.api.functions": "account calibrate check evaluate",
    "dpicl.harness.api.lists": "list_attacks list_mechanisms list_models list_suites list_tasks",
    "dpicl.harness.attacks.base": "Attack AttackFinding AttackSetup",
    "dpicl.harness.attacks.membership": "membership_finding scored shown_finding shows_records",
    "dpicl.harness.attacks.targets": "Target",
    "dpicl.harness.core.errors": "DpiclError PromptTooLong UsageError",
    "dpicl.harness.data.splits": "Record",
    "dpicl.harness.data.task": "PublicTask Task",
    "dpicl.harness.mechanism.bases": "AnswerContext AnswerMechanism Context Demonstration DemonstrationMechanism"
    " FinalPrompt Knob Mechanism Query Sizes",
    "dpicl.harness.mechanism.generation": "PromptWriter ReleasedText check_positive public_log_probs public_vocabulary",
    "dpicl.harness.models.base": "Broken ChatPrompt Decoder LanguageModel ModelIdentity Prefix Tokens Usage",
    "dpicl.harness.models.decoding": "Writer",
    "dpicl.harness.privacy.cluster_tree": "ClusterTree",
    "dpicl.harness.privacy.events": "bounded_range_choice compose gaussian parallel",
    "dpicl.harness.privacy.primitives": "BoundedRangeChoice GaussianSum NearestToMean",
    "dpicl.harness.privacy.private_set": "PrivateRecord PrivateSet Sample sampling_rate",
    "dpicl.harness.privacy.top_k": "NoisyTopK",
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
