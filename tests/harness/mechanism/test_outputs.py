"""What a mechanism returns is checked and made anew; how much noise it drew is known; it sees the public task alone."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from dp_accounting import dp_event as dp

from dpicl import models
from dpicl.accounting.events import gaussian, parallel
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import Concealed, PluginError
from dpicl.data.task import PublicTask, Record, Task
from dpicl.mechanism.bases import Demonstration, DemonstrationMechanism, Knob, Sizes
from dpicl.privacy.private_set import sampling_rate
from dpicl.releasing import release as releasing
from tests.harness.parrot import Parrot


@dataclass(frozen=True)
class OneDraw(DemonstrationMechanism):
    """Samples once for each shot and draws one noisy sum; the text is what `say` makes of it."""

    name = "one_draw"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)

    def events(self, knob, sizes: Sizes):
        def one(group):
            return dp.PoissonSampledDpEvent(
                sampling_rate(8, sizes.records[group], group), gaussian(knob)
            )

        return parallel(
            {
                group: dp.SelfComposedDpEvent(one(group), shots)
                for group, shots in sizes.shots.items()
            }
        )

    def release(self, private, context):
        return context.for_each_shot(lambda label: self.write(label, private, context))

    def write(self, label, private, context):
        group = private.partition_of(label)
        sample = private.poisson_slots(
            8, 8, partition=group, releases=gaussian(context.knob)
        ).draw()
        return self.say(label, sample, context)

    def say(self, label, sample, context):
        total = sample.spend(gaussian(context.knob)).noisy_sum(
            np.array([float(sum(map(len, sample.slots)))]), 1.0
        )
        return Demonstration(text=f"number {total[0]:.1f}", label=label)


def release(mechanism, task, noise="seeded", epsilon=1.0, shots=2):
    task = (
        replace(
            task,
            declared=dict.fromkeys(task.labels, 60),
        )
        if noise == "secure"
        else task
    )
    config = ReleaseConfig(epsilon=epsilon, delta=1e-5, noise=noise, shots=shots)
    return releasing.release(
        mechanism, task, models.load("sim"), config, charge=lambda new: ("records",)
    )


@pytest.mark.usefixtures("fresh_cache")  # secure noise is charged
@pytest.mark.parametrize("noise", ["seeded", "secure"])
def test_a_mechanism_sees_no_private_record(agnews, noise):
    """The plug-in of the review copied `context.task.train` into its texts, under proved epsilon 0."""

    class Copies(OneDraw):
        def say(self, label, sample, context):
            return Demonstration(text=context.task.train[0].text, label=label)

    with pytest.raises(PluginError if noise == "seeded" else Concealed) as caught:
        release(Copies(), agnews, noise)
    assert agnews.train[0].text not in str(caught.value)


def test_the_public_view_has_no_records_and_no_gold():
    task = Task.load("agnews", "synthetic", limit_train=5, limit_test=4)
    public = task.public_view()
    assert type(public) is PublicTask
    assert {each.name for each in fields(Task)} - {each.name for each in fields(PublicTask)} >= {
        "train",
        "fingerprint",
        "dropped",
    }
    for name in ("train", "fingerprint", "dropped", "size", "sizes", "documents", "queries"):
        assert not hasattr(public, name)
    assert public.test == tuple(Record(record.text, "") for record in task.test)
    assert all(record.label for record in task.test)
    assert public.prompts_hash == task.prompts_hash


def test_readers_and_skip_get_the_public_view_too(agnews):
    views = []

    class Looks(Parrot):
        def skip(self, task):
            views.append(task)

        def answer(self, query, sample, context):
            views.extend([context.task, context.reader._task])
            return super().answer(query, sample, context)

    release(Looks(slots=4, examples_per_slot=2), agnews)
    assert views and {type(each) for each in views} == {PublicTask}


@pytest.mark.parametrize("noise", ["seeded", "secure"])
def test_a_release_without_noise_is_refused(agnews, noise):
    """The plug-in of the review drew no noise where the source was not seeded, and got its epsilon proved."""
    error, word = (
        (PluginError, "drew no noise") if noise == "seeded" else (Concealed, "secure noise")
    )

    class Silent(OneDraw):
        def say(self, label, sample, context):
            return Demonstration(text=f"number {sum(map(len, sample.slots))}", label=label)

    with pytest.raises(error, match=word):
        release(Silent(), agnews, noise)

    class Plain(Parrot):
        def answer(self, query, sample, context):
            return context.task.labels[0]

    with pytest.raises(error, match=word):
        release(Plain(slots=4, examples_per_slot=2), agnews, noise)


def test_tokens_are_counted_by_the_harness(agnews):
    class Counts(OneDraw):
        def say(self, label, sample, context):
            plain = super().say(label, sample, context)
            return Demonstration(
                plain.text,
                label,
                tokens=sum(map(len, sample.slots)) + 1000,
            )

    model = models.load("sim")
    for demonstration in release(Counts(), agnews).demonstrations:
        assert demonstration.tokens == len(model.encode(demonstration.text))


class Talkative(str):
    """Text that says something else when it is looked at again."""

    def __str__(self):
        return "a private record"


@pytest.mark.parametrize("text", [Talkative("plain"), "plain", "pla\udc80in"])
def test_texts_are_plain_and_can_be_written(agnews, text):
    class Says(OneDraw):
        def say(self, label, sample, context):
            super().say(label, sample, context)
            return Demonstration(text, Talkative(label))

    for demonstration in release(Says(), agnews).demonstrations:
        assert type(demonstration.text) is type(demonstration.label) is str
        demonstration.text.encode()
        assert f"{demonstration.text}".startswith("pla") and demonstration.label in agnews.labels


@pytest.mark.parametrize(
    "change",
    [
        lambda demonstrations: demonstrations[:-1],
        lambda demonstrations: demonstrations[::-1],
        lambda demonstrations: [Demonstration(d.text, d.label.upper()) for d in demonstrations],
        lambda demonstrations: {"text": "x"},
        lambda demonstrations: [(d.text, d.label) for d in demonstrations],
        lambda demonstrations: [Demonstration(None, d.label) for d in demonstrations],
        lambda demonstrations: None,
    ],
)
def test_how_many_and_which_demonstrations_there_are_is_public(agnews, change):
    class Changes(OneDraw):
        def release(self, private, context):
            return change(super().release(private, context))

    with pytest.raises(PluginError, match="one_draw"):
        release(Changes(), agnews)


@pytest.mark.parametrize("claim", [float("nan"), -1.0, "1"])
def test_a_claim_that_is_no_number_is_refused_first(agnews, claim):
    class Claims(OneDraw):
        def paper_epsilon(self, knob, sizes, delta):
            return claim

        def release(self, private, context):
            pytest.fail("records were read")

    with pytest.raises(PluginError, match="claims epsilon"):
        release(Claims(), agnews)


def test_a_record_kept_from_an_earlier_sample_cannot_be_read(agnews):
    class Keeps(Parrot):
        def answer(self, query, sample, context):
            if not hasattr(self, "kept"):
                object.__setattr__(self, "kept", sample)
            return super().answer(query, self.kept, context)

    with pytest.raises(PluginError, match="closed sample"):
        release(Keeps(slots=4, examples_per_slot=2), agnews)


@pytest.mark.parametrize("channel", ["amount", "group", "count"])
def test_a_ledger_with_secure_noise_tells_nothing_of_the_records(agnews, channel):
    """Charges are published. A mechanism that charges what it reads would publish what it reads."""

    class Charges(OneDraw):
        def write(self, label, private, context):
            group, event = private.partition_of(label), gaussian(context.knob)
            first = private.poisson_slots(8, 8, partition=group, releases=event).draw()
            read = sum(map(len, first.slots))
            if channel == "amount":
                private.poisson_slots(1e-3, 8, partition=group, releases=gaussian(1e6 + read))
            elif channel == "group":
                private._sizes[f"{read} records"] = 40
                private.poisson_slots(1e-3, 8, partition=f"{read} records", releases=gaussian(1e6))
            first.spend(event).noisy_sum(np.zeros(1), 1.0)
            return Demonstration(text="a text", label=label)

    class Stops(OneDraw):
        def events(self, knob, sizes):
            return parallel(
                {
                    group: dp.SelfComposedDpEvent(event, 3)
                    for group, event in super().events(knob, sizes).branches
                }
            )

    if channel != "count":
        with pytest.raises(Concealed):
            release(Charges(), agnews, "secure", shots=4)
        return
    out = release(Stops(), agnews, "secure", shots=4)
    assert [row["count"] for row in out.ledger.to_json()] == [3] * 4
    assert out.bounds.upper == out.calibration.bounds.upper


def test_changes_of_the_public_view_change_nothing(agnews):
    """The hash of the prompts is published, and the next cell has the same task."""
    before = agnews.prompts_hash

    class Writes(OneDraw):
        def say(self, label, sample, context):
            context.task.config.metadata.prompts.stop[:] = [str(sum(map(len, sample.slots)))]
            context.task.config.doc_to_choice.clear()
            return super().say(label, sample, context)

    release(Writes(), agnews)
    assert agnews.prompts_hash == before and agnews.stop_strings


def test_the_manifest_describes_the_model_before_the_release(dpicl, tmp_path):
    plugin = tmp_path / "renames.py"
    plugin.write_text(
        "from dataclasses import replace\nfrom dpicl.mechanisms.public_demonstrations import PublicDemonstrations\n\n\n"
        "class Renames(PublicDemonstrations):\n    name = 'renames'\n\n"
        "    def release(self, private, context):\n"
        "        context.model.identity = replace(context.model.identity, revision='a private word')\n"
        "        return super().release(private, context)\n"
    )
    words = "--mechanism renames --task agnews --model sim --source synthetic --seed 0"
    dpicl(f"run quick --plugin {plugin} {words} --limit 2 --results {tmp_path}/results").succeed()
    (file,) = (tmp_path / "results").rglob("quick/**/*.json")
    assert "a private word" not in file.read_text()
