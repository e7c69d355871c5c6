"""`dpicl check` passes a plug-in only by a verdict of the kit, whatever the plug-in does to its process."""

import os
import sys
import time
from pathlib import Path

import pytest

from dpicl.cli import apart
from dpicl.cli.apart import run_apart
from dpicl.core.errors import PluginError, UsageError
from tests.harness.helpers import refuse

QUITS = "import os\nfrom dpicl.mechanisms.zero_shot import ZeroShot\n\n\nclass Quits(ZeroShot):\n    name = 'quits'\n\n"


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos._exit(0)\n",
        QUITS + "    def skip(self, task):\n        os._exit(0)\n",
        QUITS + "    def release(self, private, context):\n        os._exit(0)\n",
        QUITS + "    def release(self, private, context):\n        os.kill(os.getpid(), 9)\n",
    ],
    ids=["import", "skip", "release", "killed"],
)
def test_a_plugin_that_ends_the_program_is_no_pass(dpicl, tmp_path, text):
    (tmp_path / "quits.py").write_text(text)
    refuse(dpicl(f"check {tmp_path}/quits.py --task agnews"), "ended the program")


def test_a_failing_or_endless_thread_is_no_traceback_and_no_wait(dpicl, tmp_path):
    text = QUITS.replace("import os\n", "import threading\nimport time\n") + (
        "    def release(self, private, context):\n"
        "        threading.Thread(target=lambda: time.sleep(10**6)).start()\n"
        "        failing = threading.Thread(target=lambda: 1 / 0)\n"
        "        failing.start()\n        failing.join()\n"
        "        return []\n"
    )
    (tmp_path / "threads.py").write_text(text)
    answer = dpicl(f"check {tmp_path}/threads.py --task agnews")
    assert "ZeroDivisionError" in answer.err and "Traceback" not in answer.err


def test_work_that_gives_no_sign_of_life_is_stopped():
    def sleep() -> int:
        time.sleep(10**6)
        return 0

    with pytest.raises(PluginError, match="did not go on"):
        run_apart(sleep, silence=0.2)


def test_a_verdict_and_an_error_of_ours_come_through():
    def raise_refusal():
        raise UsageError("no such mechanism")

    assert run_apart(lambda: 7) == 7
    with pytest.raises(PluginError, match="no such mechanism"):
        run_apart(raise_refusal)


@pytest.mark.parametrize(
    "sent",
    [
        b'["0", 0]',
        b"0",
        b'["", 0]',
        b"{",
        b"x" * 10**5,
    ],
)
def test_a_verdict_without_the_key_is_none(sent):
    def forge() -> int:
        apart._pipe.send_bytes(sent)
        os._exit(0)

    with pytest.raises(PluginError, match="ended the program"):
        run_apart(forge)


STARTS = """
import subprocess, sys, tempfile
from pathlib import Path
from dpicl.mechanisms.zero_shot import ZeroShot

START = "import os, time; os.setsid(); time.sleep(10**6)"
process = subprocess.Popen([sys.executable, "-c", START])
Path(r"{folder}", "started").write_text(f"{{process.pid}} {{tempfile.mkdtemp()}}")


class Starts(ZeroShot):
    name = "starts"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux alone")
def test_a_check_leaves_no_process_and_no_temporary_folder(dpicl, tmp_path):
    (tmp_path / "starts.py").write_text(STARTS.format(folder=tmp_path))
    answer = dpicl(f"check {tmp_path}/starts.py --task agnews")
    assert answer.code == 1 and "starts a process" in " ".join(answer.out.split())
    process, folder = (tmp_path / "started").read_text().split()
    assert not Path(folder).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(process), 0)
