"""The seconds that the passes of a model take, by kind of operator."""

from __future__ import annotations

import functools
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from transformers.models.llama import modeling_llama as llama

from dpicl.models import attention
from dpicl.models.pieces import Piece
from dpicl.models.reading import Passes

#: Operators whose kind does not depend on where they are called.
KINDS = {
    "products": ("linear", "mm", "addmm", "_linear_pointwise"),
    "attention": ("bmm", "baddbmm", "scaled_dot_product_attention"),
    "softmax": ("softmax", "log_softmax"),
}
#: The functions whose other operators are of a kind: (where, name, kind).
PARTS: tuple[tuple[Any, str, str], ...] = (
    (llama.LlamaRMSNorm, "forward", "norms"),
    (llama, "apply_rotary_pos_emb", "rotary"),
    (llama.LlamaMLP, "forward", "activation"),
    (attention, "attend", "copies"),
)
_OF_NAME = {name: kind for kind, names in KINDS.items() for name in names}


class _Clock(TorchDispatchMode):
    """Adds up the seconds of each operator. kinds: of the functions that are running, the innermost last."""

    def __init__(self, seconds: dict[str, float], kinds: list[str]) -> None:
        super().__init__()
        self._seconds, self._kinds = seconds, kinds

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        start = time.perf_counter()
        result = operator(*args, **(kwargs or {}))
        taken, name = time.perf_counter() - start, operator.name().split("::")[1].split(".")[0]
        self._seconds[_OF_NAME.get(name, self._kinds[-1])] += taken
        return result


@contextmanager
def by_kind() -> Iterator[dict[str, float]]:
    """Seconds by kind of all passes inside this block, of models that are loaded in it; what no kind has is "rest"."""
    seconds, kinds = defaultdict[str, float](float), ["rest"]
    read_pass = Passes._read
    before: list[tuple[Any, str, Any]] = [(Passes, "_read", read_pass)]
    before += [(where, name, getattr(where, name)) for where, name, _ in PARTS]

    def within(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            kinds.append(kind)
            try:
                return function(*args, **kwargs)
            finally:
                kinds.pop()

        return wrapped

    def clocked(passes: Passes, pieces: Sequence[Piece]) -> None:
        with _Clock(seconds, kinds):
            read_pass(passes, pieces)

    setattr(Passes, "_read", clocked)  # noqa: B010
    for where, name, kind in PARTS:
        setattr(where, name, within(getattr(where, name), kind))
    attention.AttentionInterface.register(attention.NAME, attention.attend)
    try:
        yield seconds
    finally:
        for where, name, function in before:
            setattr(where, name, function)
        attention.AttentionInterface.register(attention.NAME, attention.attend)


def noted(main: Callable[[], int], path: str) -> int:
    """Runs the command line, and writes the seconds by kind to a file. Returns its exit code."""
    with by_kind() as seconds:
        code = main()
    Path(path).write_text(json.dumps(seconds))
    return code
