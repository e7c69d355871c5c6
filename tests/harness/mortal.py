"""Cells that kill their worker, for tests of engines."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpicl.results.store import Store

#: What two runs of one cell may differ in; for pydantic's ``exclude``.
MAY_DIFFER: Any = {"created": True, "cost": True, "manifest": {"commit", "dirty"}}
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


@dataclass
class Lab:
    """A suite of quick cells, one for each tag, which kill their worker as often as ``deaths`` says, and the log of
    their releases: the folder that DPICL_TEST_LOG names."""

    folder: Path
    deaths: dict[int, int]

    def __post_init__(self) -> None:
        self.plugin, self.suite, self.log = (
            self.folder / name for name in ("mortal.py", "mortal.yaml", "log")
        )
        self.plugin.write_text(PLUGIN)
        self.log.mkdir()
        rows = "".join(
            f"  - {{name: mortal, label: mortal{tag}, options: {{tag: {tag}, deaths: {number}}}}}\n"
            for tag, number in self.deaths.items()
        )
        self.suite.write_text(
            "name: mortal\nversion: 1\nsource: synthetic\nmodels: [sim]\nseeds: [0]\nepsilons: [1]\ntasks: [agnews]\n"
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
        releases, damaged = Store(self.folder / results, "mortal").load_all()
        assert damaged == []
        return {result.cell.label: result.model_dump(exclude=MAY_DIFFER) for result in releases}
