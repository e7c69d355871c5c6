"""ESA and SGA with public slots: the method without noise on records that everybody knows, and no private one in it."""

import pytest
from dp_accounting import dp_event as dp

from dpicl.accounting.ledger import Ledger
from dpicl.core.seeds import Streams
from dpicl.mechanism.bases import AnswerContext, Sizes
from dpicl.mechanism.options import fixed_epsilon
from dpicl.mechanism.public_candidates import public_slots
from dpicl.mechanisms.esa import ESA
from dpicl.mechanisms.esa_public import ESAPublic
from dpicl.mechanisms.sga import SGA
from dpicl.mechanisms.sga_public import SGAPublic
from dpicl.privacy.private_set import PrivateSet, Sample
from tests.mechanisms.answering import QUERIES, HashReader, TinyTask

SHARED = {"slots": 5, "examples_per_slot": 2}
PAIRS = [
    (ESAPublic(**SHARED, candidates=6), ESA(**SHARED, candidates=6)),
    (SGAPublic(**SHARED, public_slots=6), SGA(**SHARED, public_slots=6)),
    (
        SGAPublic(**SHARED, public_slots=6, public="out"),
        SGA(**SHARED, public_slots=6, public="out"),
    ),
]


class Unread:
    """A private record that nobody may look at."""

    label = ""

    @property
    def text(self):
        pytest.fail("a private record was read")


@pytest.mark.parametrize(("control", "method"), PAIRS)
@pytest.mark.parametrize("way", ["per_query", "one_sample"])
def test_a_control_is_its_method_without_noise_on_public_slots(control, method, way):
    control, method = (type(each)(**{**vars(each), "partition": way}) for each in (control, method))
    ledger = Ledger(None, 0.0)
    streams = Streams(0)
    task = TinyTask()
    sampling, noise = streams.source("sampling"), streams.source("noise")
    private = PrivateSet(
        [Unread()],
        ledger,
        sizes={None: 1},
        sampling=sampling,
        noise=noise,
    )
    sample_for = control.scheme.sampler(private, control.release(0.0), len(QUERIES))
    reader, slots_of_queries = HashReader(), []
    context = AnswerContext(task, reader, 0.0, streams.public)
    for query in QUERIES:
        answer = control.answer(query, sample_for(query.text), context)
        slots = public_slots(control, query, task.public_records(getattr(control, "public", "in")))
        same = Sample(slots, method.release(0.0), noise)
        assert answer == method.answer(
            query, same, AnswerContext(task, HashReader(), 0.0, streams.public)
        )
        slots_of_queries.append(slots)
    assert len(slots) == 5 and all(len(slot) == 2 for slot in slots)
    assert (slots_of_queries[0] == slots_of_queries[1]) == (way == "one_sample")
    questions = {
        text.lower()
        for entry in reader.asked
        if entry[0] == "texts"
        for text, *_ in _records(entry[2])
    }
    assert questions and all(text.startswith("public") for text in questions)
    assert ledger.event() == dp.NoOpDpEvent() and private.close() == 0


def _records(slot):
    return [(record.text,) for record in slot]


@pytest.mark.parametrize("control", [pair[0] for pair in PAIRS])
def test_it_costs_nothing_and_needs_public_records(control):
    assert fixed_epsilon(control) == 0.0
    assert control.events(0.0, Sizes.from_queries(10, 1000)) == dp.NoOpDpEvent()
    assert control.skip(TinyTask()) is None
    assert control.skip(TinyTask("classification", "agnews"))
    without = control.skip(TinyTask(public=0))
    assert (without is None) == (getattr(control, "public", "in") == "out")
