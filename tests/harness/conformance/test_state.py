"""What a mechanism keeps is read by content, and can be set back."""

import itertools
import threading
import warnings
import weakref
from collections import deque
from contextvars import ContextVar
from functools import lru_cache, partial
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from dpicl.conformance.clock import MOMENTS, clock_at
from dpicl.conformance.state import Checkpoint

SOURCE = """
import datetime, time
from datetime import date, datetime as moment

def counting():
    count = 0
    def more():
        nonlocal count
        count += 1
    return more

def remembering(value, seen=[]):
    seen.append(value)

class Kept:
    ALL = {}
"""


@pytest.fixture
def module():
    made = ModuleType("kept_by_a_plugin")
    exec(SOURCE, vars(made))
    made.numbers, made.queue, made.held = np.zeros(3), deque(), threading.local()
    made.variable, made.calls, made.generator = ContextVar("v"), itertools.count(), np.random.default_rng(0)
    made.length, made.more, made.own = lru_cache(len), made.counting(), SimpleNamespace()
    made.named = weakref.WeakValueDictionary()
    return made


WAYS = {
    "an array": lambda m: m.numbers.__setitem__(0, 1.5),
    "a queue": lambda m: m.queue.append(1.5),
    "a cache": lambda m: m.length("abc"),
    "a closure": lambda m: m.more(),
    "a default argument": lambda m: m.remembering(1.5),
    "a dictionary of a class": lambda m: m.Kept.ALL.setdefault("a", 1.5),
    "an attribute of a class": lambda m: setattr(m.Kept, "last", 1.5),
    "an attribute of an object": lambda m: setattr(m.own, "last", 1.5),
    "an attribute of a function": lambda m: setattr(m.counting, "last", 1.5),
    "a name": lambda m: setattr(m, "LAST", 1.5),
    "a weak reference": lambda m: m.named.__setitem__("a", m.Kept),
}
#: Seen, and not set back.
FOR_GOOD = {
    "a thread": lambda m: setattr(m.held, "last", 1.5),
    "a context": lambda m: m.variable.set(1.5),
    "an iterator": lambda m: next(m.calls),
    "a generator": lambda m: m.generator.random(),
}


@pytest.mark.parametrize("way", [*WAYS, *FOR_GOOD])
def test_whatever_is_kept_is_seen_and_most_of_it_is_set_back(way, module):
    checkpoint = Checkpoint({module.__name__: module}, SimpleNamespace(), SimpleNamespace())
    before = checkpoint.read()
    assert checkpoint.read() == before
    (WAYS | FOR_GOOD)[way](module)
    assert checkpoint.read() != before
    checkpoint.restore()
    assert (checkpoint.read() == before) == (way in WAYS)


def test_what_is_put_on_the_mechanism_or_on_the_model_is_seen_and_set_back(module):
    mechanism, model = SimpleNamespace(slots=5), SimpleNamespace(size=7)
    checkpoint = Checkpoint({module.__name__: module}, mechanism, model)
    before = checkpoint.read()
    mechanism.last, model.last = 1.5, 2.5
    assert {"the mechanism's own attribute last", "the model's attribute last"} == checkpoint.read().keys() - before
    checkpoint.restore()
    assert checkpoint.read() == before


def test_a_hook_that_libraries_set_is_no_finding_unless_it_is_the_mechanisms(module, monkeypatch):
    checkpoint = Checkpoint({module.__name__: module}, SimpleNamespace(), SimpleNamespace())
    with warnings.catch_warnings(record=True):
        assert checkpoint.find_replaced() is None
    monkeypatch.setattr(module.counting, "__module__", module.__name__)
    monkeypatch.setattr(warnings, "showwarning", module.counting)
    assert checkpoint.find_replaced() == "warnings.showwarning"


def test_code_of_others_that_is_replaced_is_named(module, monkeypatch):
    checkpoint = Checkpoint({module.__name__: module}, SimpleNamespace(), SimpleNamespace())
    assert checkpoint.find_replaced() is None
    monkeypatch.setattr(np, "median", partial(np.median))
    assert checkpoint.find_replaced() == "numpy.median"
    monkeypatch.undo()
    monkeypatch.setattr("builtins.last_counts", [1.5], raising=False)
    assert checkpoint.find_replaced() == "builtins.last_counts"
    monkeypatch.undo()
    monkeypatch.setattr("dpicl.privacy.primitives.GaussianSum.choose", module.counting)
    monkeypatch.setattr(module.counting, "__module__", module.__name__)
    late = Checkpoint({module.__name__: module}, SimpleNamespace(), SimpleNamespace())
    assert late.find_replaced() == "dpicl.privacy.primitives.GaussianSum.choose"


def test_the_clock_says_another_time_in_every_way_to_ask_it(module):
    year = module.moment.now().year
    with clock_at(MOMENTS[2], [module]):
        assert {module.datetime.datetime.now().year, module.moment.now().year, module.date.today().year} == {2031}
        assert module.time.time() == MOMENTS[2] and module.time.localtime().tm_year == 2031
        assert module.time.strftime("%Y") == "2031" and "2031" in module.time.ctime()
    assert module.moment.now().year == year and module.time.time() > 0
    assert len({module.time.gmtime(moment).tm_wday for moment in MOMENTS}) > 3
