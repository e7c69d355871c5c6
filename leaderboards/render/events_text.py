"""Events of a ledger in words, from the JSON that dpicl.harness.privacy.events writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def describe(event: Mapping[str, Any]) -> str:
    """An event in a few words; one of an unknown kind as its JSON."""
    match event:
        case {"event": "none"}:
            return "nothing private"
        case {"event": "non_private"}:
            return "records shown as they are"
        case {"event": "gaussian" | "laplace" as kind, "noise_multiplier": noise}:
            return f"{kind.capitalize()} noise, multiplier {noise:.4g}"
        case {"event": "zcdp", "rho": rho}:
            return f"zero-concentrated, ρ = {rho:.4g}"
        case {"event": "epsilon_delta", "epsilon": epsilon, "delta": delta}:
            return f"({epsilon:.4g}, {delta:.3g})-private"
        case {"event": "poisson", "rate": rate, "of": inner}:
            return f"Poisson sample, rate {rate:.4g}, of [{describe(inner)}]"
        case {"event": "fixed_size", "size": size, "sample": sample, "of": inner}:
            return f"{sample:,} of {size:,} records without replacement, of [{describe(inner)}]"
        case {"event": "repeat", "count": count, "of": inner}:
            return f"{count:,} × [{describe(inner)}]"
        case {"event": "compose", "of": parts}:
            return " and ".join(describe(part) for part in parts)
        case {"event": "parallel", "of": branches}:
            return "; ".join(f"{name}: {describe(branch)}" for name, branch in branches.items())
    return json.dumps(event)
