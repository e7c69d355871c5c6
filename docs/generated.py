"""Writes the tables of README.md, own-records.md and reports, and the figure of claims, from the committed results:
make reports"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import dpicl
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.render.charts import (
    LONG,
    contrast_panel,
    figure,
    render,
    tested_claims,
)

ROOT = Path(__file__).resolve().parents[1]
#: Version 2 of the run of record.
NEXT = "leaderboards/next/record.yaml"

#: Title in the figure of claims -> suite.
SUITES = {
    "On real records, version 2": NEXT,
    "With known ground truth (GINC)": "ginc",
    "On real records, version 1": "record",
}

#: Method -> (its row of the suite ginc or "", the bound that is of its samples, the setting that claims epsilon = 1 as
#: docs/reports/re-accounting.md has it).
CLAIMS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "ESA (Wu et al. 2024)": (
        "",
        "proved",
        {"noise": 1.27186, "sensitivity": 2, "rate": 400 / 14732, "steps": 100, "delta": 5e-5},
    ),
    "SGA (Joo et al. 2025)": (
        "",
        "proved",
        {"family": "no-noise", "rate": 400 / 9821, "delta": 5e-5},
    ),
    "Tang et al. 2024": (
        "tang",
        "fixed_replace_one",
        {"noise": 1.33, "rate": 80 / 835, "steps": 15, "delta": 1 / 835},
    ),
    "PTA (Yamasaki et al. 2025)": (
        "pta",
        "proved",
        {"noise": 0.70, "rate": 20 / 1600, "steps": 40, "delta": 1 / 1600},
    ),
    "PRISM (Bhusal et al. 2025)": (
        "prism",
        "proved",
        {
            "family": "bounded-range",
            "temperature": 1.1295,
            "sensitivity": 10 / 760,
            "steps": 100,
            "delta": 1e-4,
        },
    ),
}
#: What somebody needs -> rows of the suite `record` on DBPedia that give it.
NEEDS = {
    "labels for new texts, however many": ("embedding_centroids", "embedding_logistic"),
    "a prompt with texts and labels": (
        "invisible_ink_small",
        "tang_small",
        "prism_small",
        "private_evolution",
    ),
    "the same without spending anything": (
        "public_greedy",
        "public_demonstrations",
        "repeated_label",
        "zero_shot",
    ),
    "for comparison: real records in the prompt, not private": ("real_demonstrations",),
}
#: Rows whose name is not that of a method.
COMMANDS = {
    "public_greedy": "`public_demonstrations --option greedy=true`",
    "embedding_logistic": "`embedding_centroids --option head=logistic`",
}


@cache
def read_board(suite: str) -> Any:
    return dpicl.board(suite, results=str(ROOT / "results"))


def claims_and_costs() -> list[str]:
    """README: what a published claim of epsilon = 1 costs at most, and what our row at 1 gave on GINC."""
    frame = read_board("ginc").to_frame()
    rows = frame[frame.epsilon == 1].set_index("label")
    lines = [
        "| method, whose paper claims ε = 1 | ε of its code, at most | audited ε of our row | recovery on GINC (95%) |",
        "|---|---|---|---|",
    ]
    for method, (label, bound, setting) in CLAIMS.items():
        costs = float(dpicl.account(**setting)[bound])
        cost = "no finite ε" if math.isinf(costs) else f"{costs:.2f}"
        audited, recovery = "–", "–"
        if label:
            row = rows.loc[label]
            audited = f"{row.audited:.3f}"
            recovery = interval(row.recovery, row.recovery_low, row.recovery_high, digits=2)
        lines.append(f"| {method} | {cost} | {audited} | {recovery} |")
    return lines


def choice_of_a_method() -> list[str]:
    """own-records.md: which method for which need, and what it gave on DBPedia."""
    frame = read_board("record").to_frame()
    on_dbpedia = (frame.task == "dbpedia") & (frame.model == "embedded-float32")
    rows = frame[on_dbpedia & (frame.epsilon != 8)].set_index("label")
    lines = [
        "| you need | method | ε | right answers on DBPedia, 14 classes |",
        "|---|---|---|---|",
    ]
    for need, labels in NEEDS.items():
        for place, label in enumerate(labels):
            row = rows.loc[label]
            method = COMMANDS.get(label, f"`{label.removesuffix('_small')}`")
            epsilon = "∞" if math.isinf(row.epsilon) else f"{row.epsilon:g}"
            score = f"{row.score:.3f}".removeprefix("0")
            lines.append(f"| {'' if place else need} | {method} | {epsilon} | {score} |")
    return lines


def scores(
    suite: str,
    tasks: Sequence[str],
    epsilons: Sequence[float] = (1,),
    model: str = "embedded-float32",
) -> list[str]:
    """results.md: every row's score with its 95% interval, and its possible ranks; a column a task and epsilon."""
    frame = read_board(suite).to_frame()
    frame = frame[(frame.model == model) & frame.task.isin(tasks)]
    metrics = frame.groupby("task").metric.first()
    columns = {
        (task, epsilon): f"{task}, {metrics[task]}" + (f", ε = {epsilon:g}" if epsilons[1:] else "")
        for task in tasks
        for epsilon in epsilons
    }
    lines = [f"| row | {' | '.join(columns.values())} |", "|---" * (len(columns) + 1) + "|"]
    for is_reference in (False, True):
        rows = frame[frame.epsilon.isin((0, math.inf)) == is_reference]
        rows = rows[is_reference | rows.epsilon.isin(epsilons)]
        best_first = rows.groupby("label").score.mean().sort_values(ascending=False)
        for label in best_first.index:
            of_label = rows[rows.label == label].set_index("task")
            cells = []
            for task, epsilon in columns:
                at_level = of_label[of_label.epsilon.isin((0, math.inf, epsilon))]
                cells.append(score_cell(at_level.loc[task]) if task in at_level.index else "–")
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def score_cell(row: Any) -> str:
    text = interval(row.score, row.score_low, row.score_high, digits=3)
    if not math.isnan(row.rank_high):
        text += f" [{row['rank']:g}–{row.rank_high:g}]"
    if row.seeds < 10 and row.score_low < row.score_high:
        text += f", {row.seeds} seeds"
    return text


def planned_claims(suite: str) -> list[str]:
    """findings.md: the differences that a suite plans, by task, for its first model."""
    lines = [
        "| claim | task | difference (95%) | p (Holm) | verdict | seeds |",
        "|---|---|---|---|---|---|",
    ]
    for claim in read_board(suite).board.sections[0].contrasts:
        if claim.test is None:
            continue  # too few seeds, no headroom or a row without a rank: the board says which
        difference = interval(claim.test.mean, claim.test.low, claim.test.high, digits=3)
        lines.append(
            f"| {claim.name} | {claim.task} | {difference} | {claim.test.adjusted:.3f} "
            f"| {claim.verdict} | {claim.seeds} |"
        )
    return lines


def claims_figure() -> bytes:
    """docs/figures/claims.svg: the differences of findings.md, a panel a suite."""
    panels = []
    for title, suite in SUITES.items():
        claims = tested_claims(read_board(suite).board.sections[0].contrasts)
        panels.append((title, contrast_panel(claims, LONG)))
    return render(figure(panels, columns=1), "svg")


def unseen_labels() -> list[str]:
    """tasks-and-models.md: what models gain from sixteen real demonstrations on codes, as benchmarks/instruments.json
    has it; bold where it is enough."""
    measured = json.loads((ROOT / "benchmarks/instruments.json").read_text("utf-8"))["measured"]
    rows: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for entry in measured:
        row = rows[entry["model"].removesuffix("-float32"), entry["task"]]
        for kind in ("over_chance", "headroom"):
            row[f"{kind} {entry['metric']}"] = gain_text(entry[kind])
    columns = {
        "over_chance acc": "over chance",
        "over_chance acc_calibrated": "calibrated",
        "headroom acc": "over the best control",
        "headroom acc_calibrated": "calibrated",
    }
    lines = [f"| model | task | {' | '.join(columns.values())} |", "|---|---|---|---|---|---|"]
    for (model, task), row in rows.items():
        cells = " | ".join(row[name] for name in columns)
        lines.append(f"| {model_name(model)} | {task} | {cells} |")
    return lines


def gain_text(gain: Mapping[str, Any] | None) -> str:
    if gain is None:
        return "–"
    text = interval(gain["gain"], gain["low"], gain["high"], digits=2)
    return f"**{text}**" if gain["enough"] else text


def interval(mean: float, low: float, high: float, digits: int) -> str:
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})".replace("-", "−")


#: Page -> name of a mark in it -> the lines of its table.
TABLES: Mapping[str, Mapping[str, Callable[[], list[str]]]] = {
    "README.md": {"table": claims_and_costs},
    "docs/own-records.md": {"choice": choice_of_a_method},
    "docs/tasks-and-models.md": {"unseen labels": unseen_labels},
    "docs/reports/findings.md": {
        "version 2": lambda: planned_claims(NEXT),
        "ginc": lambda: planned_claims("ginc"),
        "version 1": lambda: planned_claims("record"),
    },
    "docs/reports/results.md": {
        "version 2": lambda: scores(NEXT, ["mit_d", "trec", "agnews_codes"]),
        "ginc": lambda: scores("ginc", ["ginc"], [1, 8], "ginc"),
        "codes": lambda: scores("record", ["agnews_codes", "dbpedia_codes"]),
        "labels": lambda: scores("record", ["dbpedia", "trec"]),
        "texts": lambda: scores("record", ["mit_d"]),
        "second model": lambda: scores("record", ["mit_d"], [1, 8], "qwen2.5-coder-0.5b-float32"),
    },
}


def fill(page: str) -> str:
    """The text of a page with its tables of now, each between `<!-- name -->` and `<!-- end -->`."""
    text = (ROOT / page).read_text("utf-8")
    for name, table in TABLES[page].items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        assert end, f"{page} has no mark {name!r}"
        filled = "".join(f"{line}\n" for line in table())
        text = f"{before}<!-- {name} -->\n{filled}{end}{after}"
    return text


if __name__ == "__main__":
    for page in TABLES:
        (ROOT / page).write_text(fill(page), encoding="utf-8")
    (ROOT / "docs/figures/claims.svg").write_bytes(claims_figure())
