"""Parts of a suite that know nothing of each other."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dpicl.core.cell import Cell
from dpicl.plan.selection import shard
from tests.leaderboards.factory import make_result


def cells(*of_models: int) -> list[Cell]:
    template = make_result().cell
    return [
        template.model_copy(update={"model": f"hf:{model}", "seed": seed})
        for model, number in enumerate(of_models)
        for seed in range(number)
    ]


@given(
    st.lists(
        st.integers(0, 9),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 12),
)
def test_every_cell_is_in_one_part_and_models_stay_together(of_models, parts):
    whole = cells(*of_models)
    shards = [shard(whole, number, parts) for number in range(1, parts + 1)]
    assert Counter(cell.id for part in shards for cell in part) == Counter(
        cell.id for cell in whole
    )
    sizes = [len(part) for part in shards]
    assert max(sizes) - min(sizes) <= 1
    borders = sum(len({cell.model for cell in part}) - 1 for part in shards if part)
    assert borders < max(1, len(of_models))  # a model begins in one part, and goes on in the next
    assert [cell.id for cell in shard(whole[::-1], 1, 1)] == [cell.id for cell in whole[::-1]]


def test_what_is_done_already_changes_no_part(dpicl, sim_suite, tmp_path):
    of_part = "--mechanism zero_shot --seed 0,1,2,3 --shard 2/3"
    words = f"{sim_suite} --results {tmp_path} {of_part} --json"
    planned = [cell["id"] for cell in dpicl(f"plan {words}").json["cells"]]
    assert dpicl(f"run {words}").json["counts"]["done"] == len(planned)
    again = dpicl(f"run {words}").json["counts"]
    assert again["done"] == 0
    assert again["present"] == len(planned)
    assert [cell["id"] for cell in dpicl(f"plan {words}").json["cells"]] == planned
