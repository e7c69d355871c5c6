"""Metrics of texts in scripts other than Latin, and of Latin texts as rouge-score has them."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from dpicl.attacks.pii import count_copied_spans
from dpicl.core.scripts import split_words
from dpicl.evaluation import text_metrics
from dpicl.mechanism.registry import load_mechanisms
from dpicl.tasks.metrics import extraction_results

TEXTS = {
    "Chinese": ("今天天气很好", "今天天气不好"),
    "Japanese": ("東京は晴れです。", "大阪は晴れです。"),
    "Thai": ("สวัสดีครับ", "สวัสดีค่ะ"),
    "Russian": ("кошка сидит на ковре", "кошка лежит на ковре"),
    "Hindi": ("बिल्ली चटाई पर है", "बिल्ली घर पर है"),
    "Arabic": ("القطة على السجادة", "الكلب على السجادة"),
    "Greek": ("η γάτα κοιμάται", "η γάτα τρώει"),
    "with Latin": ("我买了3部iPhone手机", "我卖了3部iPhone手机"),
    "Arabic digits": ("٣ ٤", "٣ ٥"),
}
LATIN = st.text(st.sampled_from("aBé Ñßıœñ09.,!?'’-_ \u0301\u00aa²½™µ\n"), max_size=30)


@pytest.mark.parametrize("script", TEXTS)
def test_equal_texts_of_any_script_score_1_and_others_less(script):
    text, other = TEXTS[script]
    same = text_metrics.scores(text, text)
    near = text_metrics.scores(other, text)
    assert [same[name] for name in ("rouge1", "rougeL", "bleu1")] == [1.0, 1.0, 1.0]
    assert all(0 < near[name] < 1 for name in ("rouge1", "rougeL", "bleu1")), near
    assert (
        text_metrics.scores("", text)["rouge1"]
        == 0
        == text_metrics.scores("the cat", text)["rouge1"]
    )


@given(LATIN, LATIN)
@example("The quick brown dog jumps on the log.", "The quick brown fox jumps over the lazy dog")
def test_latin_texts_score_as_in_rouge_score(answer, reference):
    theirs = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    scores = {name: score.fmeasure for name, score in theirs.score(reference, answer).items()}
    if any(theirs._tokenizer.tokenize(text) for text in (answer, reference)):
        assert text_metrics.rouge(answer, reference) == scores


def test_texts_without_a_word_are_compared_by_characters():
    assert text_metrics.rouge("👍 👍", "👍👍")["rouge1"] == 1
    assert text_metrics.rouge("👎", "👍")["rouge1"] == 0


def test_words_keep_their_accents_and_vowel_signs():
    assert split_words("cafe\u0301 की_1 3\ufe0f\u20e3 天a \ud800\0x \u0361") == [
        "café",
        "की",
        "1",
        "3",
        "天",
        "a",
        "x",
    ]
    assert split_words("ครั้งนี้") == ["ค", "รั้", "ง", "นี้"]


@pytest.mark.parametrize("answer", ["José", unicodedata.normalize("NFD", "José"), "Ｊｏｓé"])
def test_an_exact_match_is_one_in_any_unicode_form(answer):
    assert extraction_results({"label": "José"}, [f" {answer}\nmore"]) == {"exact_match": 1.0}
    assert extraction_results({"label": "Jose"}, [answer]) == {"exact_match": 0.0}


def test_ksa_suggests_words_of_every_script():
    ksa = load_mechanisms()["ksa"].cls
    module = __import__(ksa.__module__, fromlist=["public_words"])
    assert module.public_words("天气 很好") == ("天", "气", "很", "好")
    assert module.public_words("बिल्ली चटाई") == ("बिल्ली", "चटाई")
    assert module.public_words("Café naïve_2, the x²!") == ("café", "naïve", "2", "x²")


def test_copied_spans_are_found_where_words_have_no_blanks():
    text = "今天天气很好我们去公园散步然后回家吃饭睡觉"
    assert count_copied_spans([f"他说{text}。"], [text])["longest_copied_span"] == len(text)
