"""The Ray engine on a real cluster of two nodes on this machine: one cluster for all tests of this file."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpicl.core.errors import UsageError
from dpicl.engines.local import make_engine
from dpicl.engines.worker import Job
from dpicl.results.schema import SuiteReference
from tests.harness.mortal import Lab
from tests.leaderboards.factory import make_result

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and one more node, of one core each; no shared working folder matters to them."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    ray_cluster = Cluster(initialize_head=True, head_node_args=small)
    yield ray_cluster
    ray_cluster.shutdown()


def wait_until(condition: Callable[[], bool], process: Any, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.timeout(1800)
def test_every_cell_is_done_once_whatever_dies(
    cluster, dpicl, dpicl_process, tmp_path, monkeypatch
):
    lab = Lab(
        tmp_path,
        {0: 0, 1: 0, 2: 0, 3: 1, 4: 0, 5: 0},
    )
    monkeypatch.setenv("DPICL_TEST_LOG", str(lab.log))  # the nodes were started without it
    second = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    hold = lab.log / "hold"
    hold.touch()
    words = lab.words("only-here", "--engine", "ray", "--address", cluster.address)

    stopped = dpicl_process(*words, process_group=0)
    wait_until(
        lambda: len({process for _, process in lab.releases()}) == 2, stopped
    )  # one worker for each node
    workers = {process for _, process in lab.releases()}
    os.killpg(stopped.pid, signal.SIGINT)  # as a terminal does
    _, err = stopped.communicate()
    assert stopped.returncode == 130 and "Traceback" not in err
    assert not [
        path for path in (tmp_path / "only-here").rglob("*") if path.suffix in (".lock", ".tmp")
    ]
    assert not any(map(is_alive, workers))

    (lab.log / "releases").unlink()
    run = dpicl_process(*words)
    wait_until(
        lambda: len({process for _, process in lab.releases()}) == 2,
        run,
    )
    held = {tag for tag, _ in lab.releases()}
    cluster.remove_node(second, allow_graceful=False)
    time.sleep(1)
    hold.unlink()
    out, err = run.communicate()
    assert run.returncode == 0, err
    assert json.loads(out)["counts"] == {"done": 6, "present": 0, "skipped": 0, "failed": 0}
    counts = Counter(tag for tag, _ in lab.releases())
    assert counts[3] >= 2
    assert all(counts[tag] == 1 for tag in counts.keys() - held - {3})
    assert not (lab.log / "trespass").exists()
    carried = {path.read_text() for path in lab.log.glob("worker-*")}
    assert carried == {os.environ["DPICL_CACHE"]}

    dpicl(*lab.words("inline")).succeed()
    assert lab.outcomes("only-here") == lab.outcomes("inline")


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"cpus": 4}, "--cpus"),
        ({"gpus": 1}, "--gpus"),
    ],
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
