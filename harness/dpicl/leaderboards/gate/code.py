"""Running submitted code: only on request, in a process of its own, without credentials, and for a limited time.

The process has an empty environment (no DPICL_DATA, no keys and tokens; HOME, TMPDIR and the working folder are a
temporary one) and is killed with its children when its time is over. **This is no sandbox**: it can read the files that
its user can read, and use the network. Read the file first; for code that you do not trust use a machine without data.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from dpicl.core import json_text
from dpicl.core.errors import DpiclError, PluginError, UnsupportedEvent
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.findings import Finding, by_sentence, not_checked, verdict
from dpicl.leaderboards.gate.folder import read_plain
from dpicl.leaderboards.gate.ledgers import events_of
from dpicl.mechanism.registry import load_mechanisms
from dpicl.privacy.events import from_json, to_json
from dpicl.run.results import Result, to_text

#: Seconds that the conformance kit, and the declared events, may take.
CONFORMANCE_SECONDS = 900.0
EVENTS_SECONDS = 300.0
_ROOT = Path(str(resources.files("dpicl"))).parent
_KEPT = ("PATH", "LANG", "LC_ALL", "OMP_NUM_THREADS", "SYSTEMROOT")
_TAIL = 300
#: Bytes of what a process may answer.
_LARGEST_ANSWER = 50_000_000
#: What a check of the conformance kit can say.
STATUSES = ("passed", "failed", "not applicable")


def announcement(contents: Contents) -> str:
    """The line that stands before code runs."""
    assert contents.plugin is not None
    code = f"{contents.plugin.name}, sha256 {contents.plugin_hash}"
    return f"{contents.name}: running {code}, in a process of its own. This is no sandbox."


def trusting(contents: Contents) -> str:
    """The caveat of a passed check that ran submitted code: the code itself may have written the answer."""
    return "" if contents.plugin is None else "; this trusts the submitted code not to cheat, so read it first"


def may_run(contents: Contents, run_code: bool) -> str:
    """Why the mechanism's code may not run, or "". Code of the package always may."""
    if contents.card is None or not contents.results:
        return "there is no card or no result"
    used = {result.cell.plugin for result in contents.results.values()}
    if used != {None} and contents.plugin is None:
        return "its results are of a plugin file that was not submitted"
    if used not in ({None}, {contents.plugin_hash}):
        return "its results are of another file than the submitted one"
    if any(result.cell.model.partition(":")[0] == "server" for result in contents.results.values()):
        return "its model is behind a server, and no address that was submitted is asked"
    if contents.plugin is not None and not run_code:
        return "that runs the submitted code; read it, then give --run-code"
    return ""


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A temporary folder for one process."""
    with tempfile.TemporaryDirectory(prefix="dpicl-gate-") as folder:
        yield Path(folder)


def run_apart(words: Sequence[str], folder: Path, seconds: float, more: Mapping[str, str] | None = None) -> str:
    """The standard output of `python WORDS` in the folder. more: further environment variables.

    Raises PluginError when it does not end in time or ends badly (exit code 1 of `dpicl check` is no bad end).
    """
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment |= {"HOME": str(folder), "TMPDIR": str(folder), "DPICL_CACHE": str(folder / "cache")}
    environment |= {"PYTHONPATH": str(_ROOT), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"HF_HUB_OFFLINE": "1", **(more or {})}
    process = subprocess.Popen(
        [sys.executable, "-P", *words],  # -P: a file of the folder is never taken for a module of ours
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise PluginError(f"The mechanism did not end within {seconds:g} s; make its options smaller.") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it started
        process.wait()
    if process.returncode not in (0, 1) or (process.returncode == 1 and not out):
        last = (err.strip().splitlines() or ["no message"])[-1]
        raise PluginError(f"The mechanism's process ended with code {process.returncode}: {last[-_TAIL:]}")
    return out


def ask_worker(job: Mapping[str, Any], folder: Path, seconds: float, more: Mapping[str, str] | None = None) -> Any:
    """What dpicl.leaderboards.gate.worker answers. Raises PluginError with its sentence where it fails."""
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    answer = folder / "answer.json"
    run_apart(["-m", "dpicl.leaderboards.gate.worker", str(folder / "job.json"), str(answer)], folder, seconds, more)
    try:
        document = json_text.loads(read_plain(answer, _LARGEST_ANSWER) or b"")
        if "error" in document:
            raise PluginError(str(document["error"]))
        return document["answer"]
    except (ValueError, KeyError, TypeError):
        raise PluginError("The mechanism's process gave no answer; run it by hand with `dpicl run --plugin`.") from None


def plugins(contents: Contents, folder: Path) -> list[str]:
    """A copy of the submitted file, so that nothing can be written beside it; none for mechanisms of the package."""
    if contents.plugin is None:
        return []
    copy = folder / contents.plugin.name
    copy.write_bytes(contents.content[contents.plugin.name])  # what was hashed
    return [str(copy)]


def conformance_check(contents: Contents, run_code: bool, seconds: float = CONFORMANCE_SECONDS) -> Finding:
    """The conformance kit (`dpicl check`) on the mechanism of the submission."""
    if reason := may_run(contents, run_code):
        return not_checked("conformance", reason)
    if not run_code:
        return not_checked("conformance", "its mechanism is one of the package, whose tests run the kit; or --run-code")
    mechanisms = sorted({result.cell.mechanism for result in contents.results.values()})
    problems, passed = [], 0
    with workplace() as folder:
        submitted = plugins(contents, folder)
        known = mechanisms if submitted else load_mechanisms([])
        for name in submitted or mechanisms:
            if not submitted and name not in known:  # it may be a path, or a flag: nothing starts with such a word
                problems.append(f"There is no mechanism '{name}' in the package; send its file.")
                continue
            try:
                checks = _answers(run_apart(["-m", "dpicl", "check", name, "--json"], folder, seconds))
            except PluginError as error:
                problems.append(str(error))
                continue
            problems += _unanswered(checks, mechanisms if submitted else [name])
            passed += sum(check.status == "passed" for _, check in checks)
            problems += [f"{name}, {one.check}: {one.why[:500]}" for name, one in checks if one.status == "failed"]
    return verdict("conformance", problems, f"{passed} checks of `dpicl check` passed{trusting(contents)}")


class _Check(BaseModel):
    """What `dpicl check --json` says of one check."""

    check: str
    status: str
    why: str


class _Checked(BaseModel):
    mechanism: str
    checks: list[_Check]


class _Checks(BaseModel):
    mechanisms: list[_Checked]


def _answers(text: str) -> list[tuple[str, _Check]]:
    """(mechanism, check), read strictly: submitted code may have written it. Raises PluginError."""
    try:
        found = _Checks.model_validate_json(text)
    except ValidationError:
        raise PluginError("`dpicl check` gave no answer; run it by hand on the file.") from None
    return [(one.mechanism, check) for one in found.mechanisms for check in one.checks]


def _unanswered(checks: Sequence[tuple[str, _Check]], mechanisms: Sequence[str]) -> list[str]:
    """Mechanisms of the results for which `dpicl check` did not answer every check of the kit."""
    from dpicl.conformance.kit import CHECKS  # loads torch

    problems = []
    for mechanism in mechanisms:
        said = {check.check for name, check in checks if name == mechanism and check.status in STATUSES}
        if lacking := set(CHECKS) - said:
            problems.append(
                f"`dpicl check` did not answer {len(lacking)} of {len(CHECKS)} checks for {mechanism}; run it by hand"
                " on the file."
            )
    return problems


def events_check(contents: Contents, run_code: bool, seconds: float = EVENTS_SECONDS) -> Finding:
    """Is each ledger complete, that is, what the mechanism declares for these sizes at this noise?"""
    if reason := may_run(contents, run_code):
        return not_checked("ledger", f"whether ledgers are complete is seen by the mechanism's `events`: {reason}")
    try:
        own = contents.plugin is None
        answers = events_of(contents.results.values(), []) if own else _declared_apart(contents, seconds)
    except DpiclError as error:
        return verdict("ledger", [str(error)])
    pairs = zip(contents.results.items(), answers, strict=False)
    problems = by_sentence((name, _incomplete(result, answer)) for (name, result), answer in pairs)
    if len(answers) != len(contents.results):
        problems.append("The mechanism's process answered for other results than those that it got; report it.")
    return verdict("ledger", problems, f"{len(answers)} ledgers are what the mechanism declares{trusting(contents)}")


def _declared_apart(contents: Contents, seconds: float) -> Sequence[Any]:
    """What submitted code declares, in a process of its own."""
    with workplace() as folder:
        files = [folder / f"{i}.json" for i in range(len(contents.results))]
        for path, result in zip(files, contents.results.values(), strict=True):
            path.write_text(to_text(result), encoding="utf-8")
        job = {"kind": "events", "plugins": plugins(contents, folder), "results": list(map(str, files))}
        answers = ask_worker(job, folder, seconds)
    return answers if isinstance(answers, list) else []


def _incomplete(result: Result, answer: Any) -> str:
    """Why a ledger is not the event that the mechanism declares, or ""."""
    try:
        wanted, charged = to_json(from_json(answer)), to_json(from_json(result.privacy.event))
    except UnsupportedEvent as error:
        return f"the mechanism declares no event ({error}); fix its `events`."
    if wanted == charged:
        return ""
    return "its ledger is not what the mechanism declares for these sizes and this noise; send what `dpicl run` wrote."
