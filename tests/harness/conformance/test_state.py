"""What a mechanism keeps is read by content, and can be set back."""

import itertools
import threading
import warnings
import weakref
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

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
    plugin = ModuleType("kept_by_a_plugin")
    exec(SOURCE, vars(plugin))
    plugin.numbers = np.zeros(3)
    plugin.queue = deque()
    plugin.held = threading.local()
    plugin.variable, plugin.calls, plugin.generator = (
        ContextVar("v"),
        itertools.count(),
        np.random.default_rng(0),
    )
    plugin.length = lru_cache(len)
    plugin.more = plugin.counting()
    plugin.own = SimpleNamespace()
    plugin.named, plugin.members = weakref.WeakValueDictionary(), weakref.WeakSet()
    plugin.counter = Counter(a=2, b=1)
    plugin.ordered = OrderedDict(a=1, b=2)
    plugin.default = defaultdict(list, a=[1])
    plugin.recent = deque([1, 2, 3], maxlen=3)
    plugin.labels = {"a", "b"}
    plugin.bytes = bytearray(b"abc")
    plugin.longs = array("l", [1, 2])
    plugin.tensor = torch.ones(3)
    plugin.grown = np.arange(3.0)
    plugin.frozen = module_class(plugin, Frozen)
    plugin.slotted = module_class(plugin, Slotted)
    return plugin


def make_checkpoint(module, mechanism=None, model=None):
    objects = (mechanism or SimpleNamespace(), model or SimpleNamespace())
    return Checkpoint({module.__name__: module}, *objects)


@dataclass(frozen=True)
class Frozen:
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class Slotted:
    total: float = 0.0

    def __reduce__(self):
        return Slotted, ()  # it says nothing of what it holds


def module_class(module, cls):
    """An object of a class like this one that the module defines."""
    cls_of_module = type(
        cls.__name__,
        (cls,),
        {"__module__": module.__name__, "__slots__": getattr(cls, "__slots__", ())[:0]},
    )
    return cls_of_module()


WAYS = {
    "an array": lambda m: m.numbers.__setitem__(0, 1.5),
    "a queue": lambda m: m.queue.append(1.5),
    "a cache": lambda m: m.length("abc"),
    "a closure": lambda m: m.more(),
    "a default argument": lambda m: m.remembering(1.5),
    "a dictionary of a class": lambda m: m.Kept.ALL.setdefault("a", 1.5),
    "an attribute of a class": lambda m: setattr(m.Kept, "last", 1.5),
    "an attribute of an object": lambda m: setattr(m.own, "last", 1.5),
    "an attribute of a cached function": lambda m: setattr(m.length, "last", 1.5),
    "an attribute of a function": lambda m: setattr(m.counting, "last", 1.5),
    "a name": lambda m: setattr(m, "LAST", 1.5),
    "a weak reference": lambda m: m.named.__setitem__("a", m.Kept),
    "a weak set": lambda m: m.members.add(m.Kept),
    "a counter": lambda m: m.counter.update("abc"),
    "a counter with less": lambda m: m.counter.subtract("a"),
    "the order of a dictionary": lambda m: m.ordered.move_to_end("a"),
    "a default of a dictionary": lambda m: m.default["b"],
    "a queue of limited length": lambda m: m.recent.append(1.5),
    "a set": lambda m: m.labels.discard("a"),
    "bytes": lambda m: m.bytes.append(1),
    "an array of the standard library": lambda m: m.longs.append(1),
    "a tensor": lambda m: m.tensor.add_(1),
    "the size of an array": lambda m: m.grown.resize(5, refcheck=False),
    "a frozen object": lambda m: object.__setattr__(m.frozen, "total", 1.5),
    "an object with slots": lambda m: object.__setattr__(m.slotted, "total", 1.5),
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
    checkpoint = make_checkpoint(module)
    before = checkpoint.read()
    assert checkpoint.read() == before
    (WAYS | FOR_GOOD)[way](module)
    assert checkpoint.read() != before
    checkpoint.restore()
    assert (checkpoint.read() == before) == (way in WAYS)


def test_setting_back_what_nobody_changed_changes_nothing(module):
    """A counter adds what it is updated with, and a queue pushes out."""
    checkpoint = make_checkpoint(module)
    before = checkpoint.read()
    checkpoint.restore()
    assert module.counter == Counter(a=2, b=1)
    assert module.recent == deque([1, 2, 3], maxlen=3)
    assert type(module.default) is defaultdict and module.default.default_factory is list
    assert checkpoint.read() == before


@pytest.mark.parametrize("most", [None, 1, 1000])
def test_a_cache_that_is_set_back_is_empty_and_can_be_filled(most, module):
    """An entry put back behind Python's back crashed the process when it was asked for."""
    module.warm = lru_cache(most)(str.split)
    module.warm("a word")
    checkpoint = make_checkpoint(module)
    for _ in range(3):
        checkpoint.restore()
        assert module.warm.cache_info().currsize == 0
        assert module.warm("a word") == module.warm("a word") == ["a", "word"]


def test_what_is_put_on_mechanism_or_model_is_seen_and_set_back(module):
    mechanism, model = SimpleNamespace(slots=5), SimpleNamespace(size=7)
    checkpoint = make_checkpoint(module, mechanism, model)
    before = checkpoint.read()
    mechanism.last, model.last = 1.5, 2.5
    assert {
        "the mechanism's own attribute last",
        "the model's attribute last",
    } == checkpoint.read().keys() - before
    checkpoint.restore()
    assert checkpoint.read() == before


def test_a_hook_is_a_finding_only_where_it_is_the_mechanisms(module, monkeypatch):
    checkpoint = make_checkpoint(module)
    with warnings.catch_warnings(record=True):
        assert checkpoint.find_replaced() is None
    monkeypatch.setattr(module.counting, "__module__", module.__name__)
    monkeypatch.setattr(warnings, "showwarning", module.counting)
    assert checkpoint.find_replaced() == "warnings.showwarning"


def test_code_of_others_that_is_replaced_is_named(module, monkeypatch):
    checkpoint = make_checkpoint(module)
    assert checkpoint.find_replaced() is None
    monkeypatch.setattr(np, "median", partial(np.median))
    assert checkpoint.find_replaced() == "numpy.median"
    monkeypatch.undo()
    monkeypatch.setattr("builtins.last_counts", [1.5], raising=False)
    assert checkpoint.find_replaced() == "builtins.last_counts"
    monkeypatch.undo()
    monkeypatch.setattr("dpicl.privacy.primitives.GaussianSum.choose", module.counting)
    monkeypatch.setattr(module.counting, "__module__", module.__name__)
    late = make_checkpoint(module)
    assert late.find_replaced() == "dpicl.privacy.primitives.GaussianSum.choose"


def test_the_clock_says_another_time_in_every_way_to_ask_it(module):
    year = module.moment.now().year
    with clock_at(MOMENTS[2], [module]) as calls:
        assert not calls
        assert {
            module.datetime.datetime.now().year,
            module.moment.now().year,
            module.date.today().year,
        } == {2022}
        assert module.time.time() == MOMENTS[2]
        assert module.time.localtime().tm_year == 2022
        assert module.time.strftime("%Y") == "2022" and "2022" in module.time.ctime()
    assert module.moment.now().year == year and module.time.time() > 0
    assert {"now", "today", "time", "localtime", "strftime", "ctime"} == {*calls}
    moments = [module.time.gmtime(moment) for moment in MOMENTS]
    assert len({moment.tm_wday for moment in moments}) == 7
    assert len({moment.tm_mon for moment in moments}) == 12
    assert {moment.tm_hour for moment in moments} == {*range(24)}
