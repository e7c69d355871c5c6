"""The Ray engine on a real cluster of two nodes on this machine: one cluster for all tests of this file."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpicl.core.errors import UsageError
from dpicl.engines.local import make_engine
from dpicl.engines.worker import Job
from dpicl.results.schema import SuiteReference
from dpicl.results.store import Store
from tests.faults.harness import MAY_DIFFER
from tests.leaderboards.factory import make_result

pytestmark = pytest.mark.cluster

#: Waits while it is asked to, dies as often as it is asked to, and writes down what a node opens of the results.
PLUGIN = """\
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from dp_accounting import dp_event as dp

from dpicl.mechanism.bases import Demonstration, DemonstrationMechanism

if "default_worker" in sys.argv[0]:  # a worker of Ray
    log = Path(os.environ["DPICL_TEST_LOG"])
    log.joinpath(f"worker-{os.getpid()}").write_text(os.environ["DPICL_CACHE"])

    def watch(event, words):
        if any("only-here" in str(word) for word in words):
            log.joinpath("trespass").write_text(f"{event} {words}")

    sys.addaudithook(watch)


@dataclass(frozen=True)
class Mortal(DemonstrationMechanism):
    name = "mortal"
    knob = None
    tag: int = 0
    deaths: int = 0

    def events(self, knob, sizes):
        return dp.NoOpDpEvent()

    def release(self, private, context):
        folder = Path(os.environ["DPICL_TEST_LOG"])
        with (folder / "releases").open("a") as file:
            file.write(f"{self.tag} {os.getpid()}\\n")
        while (folder / "hold").exists():
            time.sleep(0.1)
        tags = [line.split()[0] for line in (folder / "releases").read_text().splitlines()]
        if tags.count(str(self.tag)) <= self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        return [Demonstration(f"text {self.tag}", label, 2) for label in context.shots]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and one more node, of one core each; no shared working folder matters to them."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=small)
    yield made
    made.shutdown()


@dataclass
class Lab:
    """A suite of quick cells, one for each tag, and the log of their releases."""

    folder: Path
    deaths: dict[int, int]

    def __post_init__(self) -> None:
        self.plugin, self.suite, self.log = (self.folder / name for name in ("mortal.py", "mortal.yaml", "log"))
        self.plugin.write_text(PLUGIN)
        self.log.mkdir()
        rows = "".join(
            f"  - {{name: mortal, label: mortal{tag}, options: {{tag: {tag}, deaths: {number}}}}}\n"
            for tag, number in self.deaths.items()
        )
        self.suite.write_text(
            "name: mortal\nversion: 1\nsource: synthetic\nmodel: sim\nseeds: [0]\nepsilons: [1]\ntasks: [agnews]\n"
            f"test_records: 4\ntrain_records: 60\nmechanisms:\n{rows}"
        )

    def words(self, results: str, *flags: object) -> list[object]:
        folder = self.folder / results
        return ["run", self.suite, "--plugin", self.plugin, "--json", "--results", folder, *flags]

    def releases(self) -> list[tuple[int, int]]:
        """(tag, process) of every release."""
        path = self.log / "releases"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(tag), int(process)) for tag, process in map(str.split, lines)]

    def outcomes(self, results: str) -> dict[str, Any]:
        """Label -> what a cell's result says, but for when and how fast."""
        found, damaged = Store(self.folder / results, "mortal").load_all()
        assert damaged == []
        return {result.cell.label: result.model_dump(exclude=MAY_DIFFER) for result in found}


def wait_until(condition: Callable[[], bool], process: Any, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.timeout(1800)
def test_every_cell_is_done_once_whatever_dies_and_nothing_is_shared(
    cluster, dpicl, dpicl_process, tmp_path, monkeypatch
):
    lab = Lab(tmp_path, {0: 0, 1: 0, 2: 0, 3: 1, 4: 0, 5: 0})
    monkeypatch.setenv("DPICL_TEST_LOG", str(lab.log))  # the nodes were started without it
    second = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    hold = lab.log / "hold"
    hold.touch()
    words = lab.words("only-here", "--engine", "ray", "--address", cluster.address)

    stopped = dpicl_process(*words, process_group=0)
    wait_until(lambda: len({process for _, process in lab.releases()}) == 2, stopped)  # one worker for each node
    workers = {process for _, process in lab.releases()}
    os.killpg(stopped.pid, signal.SIGINT)  # as a terminal does
    _, err = stopped.communicate()
    assert stopped.returncode == 130 and "Traceback" not in err
    assert not [path for path in (tmp_path / "only-here").rglob("*") if path.suffix in (".lock", ".tmp")]
    assert not any(map(alive, workers))

    (lab.log / "releases").unlink()
    run = dpicl_process(*words)
    wait_until(lambda: len({process for _, process in lab.releases()}) == 2, run)
    held = {tag for tag, _ in lab.releases()}
    cluster.remove_node(second, allow_graceful=False)
    time.sleep(1)
    hold.unlink()
    out, err = run.communicate()
    assert run.returncode == 0, err
    assert json.loads(out)["counts"] == {"done": 6, "present": 0, "skipped": 0, "failed": 0}
    counts = Counter(tag for tag, _ in lab.releases())
    assert counts[3] >= 2 and all(counts[tag] == 1 for tag in counts.keys() - held - {3})
    assert not (lab.log / "trespass").exists()
    carried = {path.read_text() for path in lab.log.glob("worker-*")}
    assert carried == {os.environ["DPICL_CACHE"]}

    assert dpicl(*lab.words("inline")).code == 0
    assert lab.outcomes("only-here") == lab.outcomes("inline")


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"cpus": 4}, "--cpus"), ({"gpus": 1}, "--gpus")],
)
def test_what_no_node_holds_is_refused(cluster, tmp_path, settings, word):
    engine = make_engine("ray", None, address=cluster.address, **settings)
    job = Job(SuiteReference(name="quick", version=1, hash="a" * 64), tmp_path)
    with pytest.raises(UsageError, match=word):
        engine.run([make_result().cell], job, lambda event: pytest.fail("nothing can run"))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://head:10001", "head", "127.0.0.1:99999"])
def test_an_address_without_a_cluster_is_named(tmp_path, address):
    pytest.importorskip("ray")
    job = Job(SuiteReference(name="quick", version=1, hash="a" * 64), tmp_path)
    with pytest.raises(UsageError, match="address"):
        make_engine("ray", None, address=address).run([make_result().cell], job, print)
