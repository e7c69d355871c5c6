"""What is computed between the products of matrices, against the modules of transformers: the same bits."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM, CohereConfig, LlamaConfig, MistralConfig, PreTrainedConfig
from transformers.models.llama import modeling_llama as llama

from dpicl.models.operators import replaced, replacements

SIZES = {"hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 2, "vocab_size": 50}
HEADS = {"num_attention_heads": 6, "num_key_value_heads": 2}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("config", "number"),
    [
        (LlamaConfig(**SIZES, **HEADS), 5 + 2 + 2),
        (LlamaConfig(**SIZES, **HEADS, attention_bias=True, mlp_bias=True, hidden_act="gelu"), 5 + 2 + 2),
        (MistralConfig(**SIZES, **HEADS), 5 + 2),
        (CohereConfig(**SIZES, **HEADS), 2),
    ],
    ids=["llama", "biases", "mistral", "cohere"],
)
@torch.inference_mode()
def test_no_bit_differs_from_transformers(config: PreTrainedConfig, number: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.add_(torch.randn_like(weight))
    tokens = torch.randint(50, (2, 70))
    expected, found = model(tokens).logits, replacements(model)
    with replaced(found):
        assert torch.equal(model(tokens, use_cache=False).logits, expected)
    assert len(found) == number and "forward" not in vars(found[0][0])


def test_a_module_of_other_code_is_left_alone() -> None:
    class Norm(llama.LlamaRMSNorm):
        def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
            return hidden_states

    assert not replacements(Norm(3))
