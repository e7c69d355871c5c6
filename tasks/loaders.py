"""Loads the test records of a task as an lm-eval data set, for `custom_dataset` of task.yaml.

lm-eval never sees a train record: demonstrations are a fixed prefix, so it has nothing to draw from them.
"""

from __future__ import annotations

import os
from typing import Any

import datasets

from dpicl.core.errors import UsageError
from dpicl.data.task import Task, find_served


def documents(*, name: str, **metadata: Any) -> dict[str, datasets.Dataset]:
    """{'test': documents of the task}; lm-eval passes everything under `metadata` of task.yaml.

    Inside `dpicl.data.task.serving(task)` they are that task's. Otherwise the source is $DPICL_SOURCE, or
    `source` from `lm_eval --metadata '{"source": "synthetic"}'`, or 'auto'; `limit_test` and `seed` may be given there
    as well.
    """
    up = find_served()
    if up is not None:
        task, served = up
        if task.name != name:
            raise UsageError(
                f"lm-eval asked for task '{name}' while '{task.name}' is being evaluated; run one at a time."
            )
        return {"test": datasets.Dataset.from_list([dict(document) for document in served])}
    task = Task.load(
        name,
        metadata.get("source") or os.environ.get("DPICL_SOURCE") or "auto",
        limit_train=1,
        limit_test=metadata.get("limit_test"),
        seed=metadata.get("seed", 0),
    )
    return {"test": datasets.Dataset.from_list(task.documents())}
