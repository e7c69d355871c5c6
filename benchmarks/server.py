"""A model server against the same weights in this process: tokens a second, and how much of the processor works.

    python -m benchmarks.server --json

llama.cpp's server runs in a process of its own (wheel xllamacpp) with the embedded model's GGUF file, with one thread;
the model in this process has one thread too. Three questions, as mechanisms ask them: log-probabilities of 50 listed
tokens after each of 16 prompts (Tang), of four labels after 16 prompts (voting), and of the whole vocabulary (PRISM).

tokens: those of the prompts. processor: seconds of all threads of a process, which other work on the machine does not
change. utilisation: the server's processor seconds over the wall clock, so how much of its one thread the client keeps
busy; on a machine with other work it says little. difference: half the L1 distance of the next-token distributions of
both, the largest.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks._llama_cpp import LlamaServer, llama_server
from benchmarks._report import machine
from dpicl import models
from dpicl.models.base import LanguageModel
from dpicl.models.embedded import gguf_path

PROMPTS, LISTED, VOCABULARY_ROWS = 16, 50, 2
TEXT = "Text: Item {number}, shares of company {number} fell as oil prices rose again on Monday, traders said.\nTopic:"
LABELS = (" World", " Sports", " Business", " Technology")


def measured(ask: Callable[[], Any], tokens: int, server: LlamaServer | None) -> dict[str, float]:
    """Tokens a second of one question, and the server's share of the wall clock."""
    used, own, start = server.cpu_seconds() if server else 0.0, time.process_time(), time.perf_counter()
    ask()
    seconds, client = time.perf_counter() - start, time.process_time() - own
    theirs = server.cpu_seconds() - used if server else 0.0
    found = {"seconds": seconds, "tokens_per_second": tokens / seconds, "client_processor": client}
    if server:
        found |= {"server_processor": theirs, "utilisation": theirs / seconds}
    found["tokens_per_processor_second"] = tokens / (client + theirs)
    return {name: round(value, 3) for name, value in found.items()}


def questions(
    model: LanguageModel, prompts: list[list[int]], server: LlamaServer | None
) -> dict[str, dict[str, float]]:
    """Each question once, with prompts that the model has not read."""
    third = len(prompts) // 3
    parts = [prompts[:third], prompts[third : 2 * third], prompts[2 * third :][:VOCABULARY_ROWS]]
    labels = [model.encode(label) for label in LABELS]
    asked: dict[str, Callable[[], Any]] = {
        "listed": lambda: model.listed_log_probs(parts[0], range(1000, 1000 + LISTED)),
        "labels": lambda: model.score([(prompt, labels) for prompt in parts[1]]),
        "vocabulary": lambda: model.next_token_log_probs(parts[2]),
    }
    return {
        name: measured(ask, sum(map(len, part)), server) for (name, ask), part in zip(asked.items(), parts, strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--window", type=int, default=4, help="requests at the same time (default 4, the server's slots)"
    )
    parser.add_argument("--cache", choices=["yes", "no"], default="yes", help="whether the server may use kept prompts")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    here = models.load("embedded-float32")
    prompts = [here.encode(TEXT.format(number=number)) for number in range(100, 100 + 3 * PROMPTS)]
    with llama_server(gguf_path(), slots=4) as server:
        there = models.load(f"server:{server.url}?window={arguments.window}&cache={arguments.cache}")
        report = {
            "machine": machine(),
            "prompts": PROMPTS,
            "tokens_per_prompt": len(prompts[0]),
            "server": questions(there, prompts, server),
            "in_process": questions(here, prompts, None),
            "record": there.server.model_dump() if there.server else None,
        }
        rows = [model.next_token_log_probs(prompts[:2]).exp() for model in (here, there)]
        report["difference"] = round(float((rows[0] - rows[1]).abs().sum(dim=1).max()) / 2, 4)
    print(json.dumps(report, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
