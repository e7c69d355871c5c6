"""``PrefixCachedLM``: lm-eval's Hugging Face model, with what the contexts share read once."""

from __future__ import annotations

from typing import Any

from lm_eval.models.huggingface import HFLM

from dpicl.harness.core.errors import UsageError
from dpicl.harness.evaluation.request_scoring import PrefixScoring
from dpicl.harness.models.base import ModelIdentity
from dpicl.harness.models.transformers import TransformersLM
from dpicl.harness.models.weights import dtype_name


class PrefixCachedLM(PrefixScoring, HFLM):
    """A drop-in for lm-eval's `HFLM`: the same log-probabilities, without reading the shared prefix for every request.

    pretrained: a TransformersLM, or whatever HFLM takes (a folder, a hub id, a transformers model); keyword arguments
    are HFLM's. Differences, on purpose: a context that is too long raises PromptTooLong instead of losing its left end,
    and generation is greedy only. Raises UsageError in several processes.
    """

    def __init__(self, pretrained: Any, **kwargs: Any) -> None:
        if isinstance(pretrained, TransformersLM):
            super().__init__(pretrained=pretrained.model, tokenizer=pretrained.tokenizer, backend="causal", **kwargs)
            self.reader = pretrained
        else:
            super().__init__(pretrained=pretrained, **kwargs)
            self.reader = TransformersLM(self.model, self.tokenizer, self._identity(pretrained))
        if self.world_size > 1:
            raise UsageError(
                "Shared-prefix evaluation runs in one process; start lm-eval without accelerate or torchrun."
            )
        self.reader.max_length = min(self.reader.max_length, self.max_length)

    def get_model_info(self) -> dict[str, Any]:
        """What pins the model down, from its own identity: lm-eval would ask the Hugging Face hub over the network."""
        identity = self.reader.identity
        return {
            "model_num_parameters": identity.parameters,
            "model_dtype": identity.dtype,
            "model_revision": identity.revision or "",
            "model_sha": identity.sha256 or "",
        }

    def _identity(self, pretrained: Any) -> ModelIdentity:
        return ModelIdentity(
            name=pretrained if isinstance(pretrained, str) else type(self.model).__name__,
            sha256=None,
            revision=getattr(self.model.config, "_commit_hash", None),
            dtype=dtype_name(self.model.dtype),
            device=str(self.model.device),
            parameters=self.model.num_parameters(),
        )
