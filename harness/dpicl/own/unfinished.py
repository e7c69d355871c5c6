"""A release that was charged and is not written yet: after a kill the same command goes on with it.

`unfinished-KEY.jsonl` lies beside the budgets. KEY is a keyed hash of what the release is made from: its records,
settings and queries. The first line holds the number under which the release is charged, and is written before the
charge; each noisy value is a line that is written before the mechanism sees the value. The file is removed when the
release is saved.

*A release that goes on is one release.* Let run A be stopped after k noisy values, and let run B be given these k
values and draw the others. A mechanism is a function of public things and noisy values alone (the check
`post-processing` of the kit), so B comes to where A was stopped. Where every record is in a sample for certain (rate
1) in a slot of its own, B's sample is that of A, so its next value has the law that A's would have had, with fresh
noise of the same scale. So all values of B together have the law of one run without a stop, which is what was charged,
and A published nothing. A value is given to the group of records alone that it was drawn from, so none is drawn from
more often than was charged. QED.

Where records are drawn or dealt to slots at random, B's sample is another one than A's, and two parts from two samples
can cost more than the whole from one; in a round of AboveThreshold the noisy threshold would be another one. The file
is removed before either is used, and a release that is stopped after that is lost, and charged again. So is one of a
plug-in that has not passed the kit, and of a version or model that has changed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from dpicl.accounting import dp_event as dp
from dpicl.core.errors import PluginError, ResultError
from dpicl.core.files import append_synced, content_of, hold_lock, put_whole, remove_synced
from dpicl.core.paths import private_folder
from dpicl.core.seeds import current_shot
from dpicl.core.vocabulary import Partition
from dpicl.own.private_ledger import machine_key
from dpicl.privacy.private_set import Assigned
from dpicl.privacy.release_hooks import NoisyRelease, Permit
from dpicl.releasing.release import Recorder

#: Whose values a line holds: the shot that was written, and the group of records.
_Place = tuple[int | None, Partition]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class _Head(_Line):
    """charged_as: the number of the charge. version: a hash of the program and the model."""

    charged_as: str
    version: str


class _Value(_Line):
    """A noisy release of a group, as the mechanism saw it. scale: of its noise."""

    shot: int | None
    group: Partition
    kind: str
    scale: float
    shape: list[int]
    values: list[float]

    def fits(self, release: NoisyRelease, shape: list[int]) -> bool:
        return (self.kind, self.scale, self.shape) == (release.kind, release.scale, shape)


class UnfinishedRelease(Recorder):
    """Keeps the noisy values of one release, and gives those of a run that was stopped. charged_as: the number under
    which it is charged; '' before `begin`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._head, values = _read(path)
        self._kept: dict[_Place, list[_Value]] = defaultdict(list)
        for value in values:
            self._kept[value.shot, value.group].append(value)
        self._given: Counter[_Place] = Counter()
        self._groups: list[Partition] = []
        self._group_of_permit: dict[Permit, Partition] = {}

    @property
    def charged_as(self) -> str:
        return "" if self._head is None else self._head.charged_as

    @property
    def is_kept(self) -> bool:
        """Whether the same command goes on with it."""
        return self._head is not None

    def number_of(self, version: str) -> str:
        """The number of the run that was stopped, where it was of this version; else ''."""
        return "" if self._head is None or self._head.version != version else self.charged_as

    def begin(self, version: str) -> str:
        """Writes a number under which the release is to be charged. Raises ResultError."""
        self._head = _Head(charged_as=secrets.token_hex(16), version=version)
        self._kept.clear()
        try:
            put_whole(self._path, self._head.model_dump_json() + "\n", private=True)
        except OSError as error:
            raise ResultError(
                f"{self._path} cannot be written ({error.strerror}), so nothing was charged; fix its folder."
            ) from error
        return self._head.charged_as

    def remove(self) -> None:
        """From here on a run that is stopped is charged again. Raises OSError."""
        if self._head is not None:
            remove_synced(self._path)
        self._head = None

    def end_sample(self, assigned: Assigned) -> None:
        self._groups.append(assigned.partition)
        if assigned.rate < 1 or assigned.number is not None:
            self.remove()

    def note_spend(self, event: dp.DpEvent, permit: Permit, sample: int) -> None:
        self._group_of_permit[permit] = self._groups[sample]

    def note_reveal(self) -> None:
        self.remove()

    def intercept(self, noisy_release: NoisyRelease, draw: Callable[[], np.ndarray]) -> np.ndarray:
        if noisy_release.kind == "threshold":
            self.remove()
        if self._head is None or noisy_release.permit is None:
            return draw()
        place = current_shot(), self._group_of_permit[noisy_release.permit]
        is_choice = noisy_release.kind == "choice"
        shape = [noisy_release.count] if is_choice else [*noisy_release.clean.shape]
        number = self._given[place]
        self._given[place] += 1
        if number < len(self._kept[place]):
            value = self._kept[place][number]
            if not value.fits(noisy_release, shape):
                self.remove()
                raise PluginError(
                    "A release that was stopped cannot go on: it makes other noisy releases now."
                )
            values = np.array(value.values).reshape(shape)
            return values.astype(np.int64) if is_choice else values
        drawn = draw()
        line = _Value(
            shot=place[0],
            group=place[1],
            kind=noisy_release.kind,
            scale=noisy_release.scale,
            shape=shape,
            values=drawn.astype(float).ravel().tolist(),
        )
        append_synced(self._path, line.model_dump_json() + "\n")
        return drawn


@contextmanager
def hold_unfinished(made_from: Any) -> Iterator[UnfinishedRelease | None]:
    """The unfinished release of what is made from this (JSON): a new one, or that of a run that was stopped. None where
    another process is at the very same one. Raises ResultError for a file that cannot be used."""
    content = json.dumps(made_from, sort_keys=True, default=str).encode()
    name = f"unfinished-{hmac.new(machine_key(), content, hashlib.sha256).hexdigest()[:32]}"
    path = private_folder() / f"{name}.jsonl"
    lock = path.with_suffix(".lock")
    with ExitStack() as stack:
        try:
            is_held = stack.enter_context(hold_lock(lock, private=True))
            if is_held:
                stack.callback(lock.unlink, missing_ok=True)
            unfinished = UnfinishedRelease(path) if is_held else None
        except OSError as error:
            raise ResultError(
                f"{path} cannot be used ({error.strerror}), so nothing was charged; fix its folder."
            ) from error
        yield unfinished


def _read(path: Path) -> tuple[_Head | None, list[_Value]]:
    """What a file holds; (None, []) where there is none. A last line without its end was seen by nobody, and is cut
    off. Raises ResultError for a damaged file, and OSError."""
    if not path.exists():
        return None, []
    content = content_of(path)
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        put_whole(path, whole, private=True)
    if not whole:
        return None, []
    head, *lines = whole.decode("utf-8", "replace").splitlines()
    try:
        return _Head.model_validate_json(head), [_Value.model_validate_json(line) for line in lines]
    except ValidationError:
        raise ResultError(
            f"{path} is damaged, so the release that was stopped cannot go on; remove it, and the release is made, and"
            " charged, anew."
        ) from None
