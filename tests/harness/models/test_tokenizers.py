"""Where a text may be cut without changing its tokens: known for tokenizers that split words off at blanks."""

from __future__ import annotations

import json

import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken
from tokenizers import Tokenizer as Rules

from dpicl.models.tokenizers import Tokenizer
from tests.harness.models.tiny import save_tiny_llama

DIGITS = {"type": "Digits", "individual_digits": True}
#: Pieces of texts: white space of all kinds, contractions, digits, letters of other scripts, special tokens.
PIECES = [
    "a",
    "the",
    "'s",
    "12",
    " ",
    "  ",
    "\n",
    "\u00a0",
    "\u3000",
    "\x1c",
    "é",
    "中",
    "!",
    "<s>",
    "</s>",
]


@pytest.fixture(scope="module")
def rules(tmp_path_factory) -> Rules:
    folder = save_tiny_llama(tmp_path_factory.mktemp("llama"))
    return transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer


def tokenizer_of(rules: Rules, **changed: object) -> Tokenizer:
    """The tiny model's tokenizer with other rules."""
    content = json.loads(rules.to_str())
    backend = Rules.from_str(json.dumps({**content, **changed}))
    return Tokenizer(
        transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    )


def with_digits(rules: Rules) -> dict[str, object]:
    splitter = json.loads(rules.to_str())["pre_tokenizer"]
    return {"type": "Sequence", "pretokenizers": [DIGITS, splitter]}


@given(
    st.lists(st.sampled_from(PIECES)).map("".join), st.lists(st.sampled_from(PIECES)).map("".join)
)
def test_tokens_of_two_parts_are_those_of_the_whole(rules, first, second):
    context, continuation = first.rstrip() or "x", f" {second}"
    for tokenizer in (tokenizer_of(rules), tokenizer_of(rules, pre_tokenizer=with_digits(rules))):
        assert tokenizer.splits_at_blanks
        whole = tokenizer.encode(context + continuation)
        assert whole == tokenizer.encode(context) + tokenizer.encode(continuation)


@pytest.mark.parametrize(
    "changed",
    [
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}},
    ],
    ids=["normalized", "not split", "SentencePiece"],
)
def test_other_rules_are_not_trusted(rules, changed):
    assert not tokenizer_of(rules, **changed).splits_at_blanks


def test_a_special_token_that_takes_the_blank_behind_it_is_seen(rules):
    tokenizer = tokenizer_of(rules)
    tokenizer.tokenizer.add_special_tokens(
        {"additional_special_tokens": [AddedToken("<x>", rstrip=True)]}
    )
    assert not tokenizer.splits_at_blanks
