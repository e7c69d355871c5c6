"""What README and docs say is so: links lead somewhere; every command and every Python block runs where it stands.

A page is read from top to bottom as one session, in an empty folder with a home of its own, without data, network or
GPU, and with the simulated model where the text leaves the model open. The text itself says what cannot run here:

* `DPICL_DATA=…` before a command: real records. It runs as far as to the records, which are not there.
* "needs", in the comment behind a command: a server, a cluster, another model, a key. Its arguments are parsed.
* `…`, brackets and NAMES in capitals: a template. Its command and flags exist.
* a command's name alone names it.
"""

import ast
import glob
import importlib.util
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import dpicl as package
from dpicl import models
from dpicl.api.parameters import parameters
from dpicl.cli.commands import load
from dpicl.conformance.kit import TASKS
from dpicl.core.errors import DpiclError
from dpicl.data import config as task_config
from dpicl.data.task import PublicTask
from dpicl.program import VERBS, parse
from tests.test_reaccounting import ROWS, SLACK_ROWS

ROOT = Path(__file__).resolve().parent.parent
SUBMISSIONS = ROOT / "leaderboards" / "submissions"
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md")), *sorted(SUBMISSIONS.rglob("*.md"))]
EXAMPLES = {"ballots": "README.md", "vote": "docs/add-a-method.md"}
TYPED = [path for path in PAGES if path.parent.name in (ROOT.name, "docs") and path.name != "CHANGELOG.md"]

#: A command as a page shows it: variables, the program, its words.
COMMAND = re.compile(
    r"(?:\$ )?(?P<data>DPICL_DATA=… )?(?P<line>(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?"
    r"(?:dpicl|make|python -m|export|printf|cp|git|ray|lm_eval|llama-server) .+)"
)
TEMPLATE = re.compile(r"[…\[\]|<>]|\b[A-Z][A-Z_]+\b(?!=)|I/N")
#: Commands that answer within a second, so that the fast tests run them on every page, and those of the first pages.
QUICK = {"list", "new", "account", "cache", "data"}
SHOWN = {"board", "compare", "plan", "plot"}
FIRST = ("README.md", "quickstart.md")
#: Trains a model for minutes, which tests/harness/models/test_ginc.py does.
LONG = {"ginc"}
#: Flags of what reads the results of a run of the page's own, and not the committed ones.
OWN = {"--plugin", "--source", "--results"}
#: What the test makes small, where a page leaves it open.
FLAGS = {"--model": "sim", "--limit": "12", "--runs": "20", "--texts": "2", "--draws": "4"}
SMALL = {"model": "sim", "source": "synthetic", "progress": False, "train_records": 60}
#: Commands that tests/test_reaccounting.py runs, with the figures beside them.
FIGURES = {row.command for row in [*ROWS, *SLACK_ROWS]}
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
#: Verb -> its flags.
KNOWN = {
    name: {each.written for each in parameters(load(place)).values() if not each.positional and not each.flag.hidden}
    | {"--json", "--config", "--help"}
    for name, (place, _) in VERBS.items()
}


@dataclass(frozen=True)
class Example:
    """Something to run. python: whether it is a block of Python. needs: what the page says it needs, or ""."""

    text: str
    python: bool = False
    needs: str = ""


def examples(page: Path) -> Iterator[Example]:
    """All of a page, from top to bottom."""
    for part in re.split(r"^(```.*?^```)$", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL):
        kind, _, code = part.removeprefix("```").partition("\n") if part.startswith("```") else (None, "", part)
        if kind == "python":
            yield Example(code.removesuffix("```"), python=True)
        elif kind in ("", "sh"):
            for line in code.replace("\\\n", " ").splitlines():
                text, _, comment = line.partition(" #")
                if found := COMMAND.fullmatch(text.strip()):
                    yield Example(found["line"], needs=found["data"] or (comment if "needs" in comment else ""))
        elif kind is None:
            for span in re.findall(r"`([^`]+)`", code):
                if (found := COMMAND.fullmatch(" ".join(span.split()))) and found["line"].startswith(
                    ("dpicl", "make", "py")
                ):
                    yield Example(found["line"], needs=found["data"] or "")


class Session:
    """One page, read in the working folder. runs: whether a command, by its words, is run; the others are parsed."""

    def __init__(self, dpicl, runs: Callable[[list[str]], bool]) -> None:
        self.dpicl, self.runs, self.names, self.shown = dpicl, runs, {"__name__": "__main__"}, []

    def read(self, example: Example) -> None:
        if example.python:
            self._python(example.text)
            return
        for command in example.text.split(" && "):
            words = shlex.split(command.removeprefix(".venv/bin/"))
            with pytest.MonkeyPatch.context() as patch:
                while name := re.match("([A-Z_]+)=", words[0]):
                    patch.setenv(name[1], words.pop(0).partition("=")[2])
                self._command(command, words, example.needs)

    def _command(self, command: str, words: list[str], needs: str) -> None:
        match words:
            case ["dpicl", *rest]:
                self._dpicl(rest, needs)
            case ["make", *targets]:
                known = {*re.findall(r"^([a-z-]+):", MAKEFILE, re.M), *re.findall(r"\$\(([A-Z]+)\)", MAKEFILE)}
                assert {target.partition("=")[0] for target in targets} <= known
            case ["python", "-m", module, *rest] if not TEMPLATE.search(module):
                found = importlib.util.find_spec(module)
                assert found is not None, f"there is no module {module}"
                if module.startswith("benchmarks"):
                    known = Path(str(found.origin)).read_text("utf-8")
                    assert [word for word in rest if word.startswith("--") and word not in known] == []
            case ["cp" | "printf", *_]:
                if self.runs(words):
                    subprocess.run(["sh", "-c", command], check=True)
            case ["export" | "python", *_]:
                pass
            case _:
                assert needs, "a program of somebody else: say what it needs, behind a #"

    def _dpicl(self, words: list[str], needs: str) -> None:
        line = " ".join(words)
        if line == "--install-completion":  # it writes into the home folder
            return
        if line in KNOWN or line == "publish" or "--help" in words:  # the name of a command
            if line in ("doctor", "cache", "budget"):
                self._run(words)
            return
        if TEMPLATE.search(line) and not needs:
            name = " ".join(words[:2]) if " ".join(words[:2]) in KNOWN else words[0]
            flags = KNOWN[name]
            assert [word for word in re.findall(r"(?<=[ \[])--[a-z-]+", line) if word not in flags] == []
            return
        words = [path for word in words for path in sorted(glob.glob(word)) or [word]]
        parse(words)
        if needs.startswith("DPICL_DATA"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("DPICL_DATA", "no such folder")
                answer = self.dpicl(*words)
            assert (answer.code, "DPICL_DATA" in answer.err) == (2, True), (line, answer.err)
        elif not needs and line not in FIGURES and words[0] not in LONG and self.runs(words):
            self._run(words)

    def _run(self, words: list[str]) -> None:
        own = KNOWN.get(words[0], ())
        reads = words[0] in (*SHOWN, "track", "publish", "submit", "cache", "list") and not OWN & {*words}
        small = [(flag, value) for flag, value in FLAGS.items() if flag in own and flag not in words and not reads]
        answer = self.dpicl(*words, *(word for pair in small for word in pair))
        assert answer.code == 0, f"dpicl {' '.join(words)}: {answer.err or answer.out}"

    def _python(self, source: str) -> None:
        """A cell of a notebook; its value is that of its last expression. One that begins with the name of a file is a
        file."""
        if named := re.match(r'"""(\w+\.py): ', source):
            Path(named[1]).write_text(source, encoding="utf-8")
        elif "# -> " not in source and self.runs(["python"]):  # a signature
            tree = ast.parse(source)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "cell", "exec"), self.names)
            if last is not None:
                self.shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), self.names))


@pytest.fixture
def stranger(fresh_cache, tmp_path, monkeypatch):
    """The working folder of somebody with a clone, and files of their own, and nothing else."""
    for name in ("DPICL_DATA", "WANDB_API_KEY", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("evaluate", "audit", "check", "release", "answer"):
        function = getattr(package, name)
        small = {key: SMALL[key] for key in SMALL.keys() & parameters(function).keys()}
        monkeypatch.setattr(package, name, partial(function, **small))
    monkeypatch.setattr(models, "_given", {})
    monkeypatch.setattr(task_config, "_given", {})
    load = models.load
    monkeypatch.setattr(
        models, "load", lambda name, *more, **how: load("sim" if name == "embedded" else name, *more, **how)
    )
    folder = tmp_path / "work"
    shutil.copytree(ROOT / "leaderboards" / "submissions", folder / "leaderboards" / "submissions")
    (folder / "tasks").symlink_to(ROOT / "tasks")
    tickets = [f"ticket {n} on {label},{label}" for n in range(80) for label in ("billing", "technical", "refund")]
    (folder / "tickets.csv").write_text("\n".join(["text,label", *tickets]))
    coded = [f"mail {n} about {label},{label}" for n in range(40) for label in (0, 1)]
    (folder / "train.csv").write_text("\n".join(["text,label", *coded]))
    (folder / "test.csv").write_text("\n".join(["text,label", "where is my money,1", "two bills,0"]))
    (folder / "new.txt").write_text("I was charged two times\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["quick", "whole"])
@pytest.mark.parametrize("page", TYPED, ids=lambda path: path.name)
def test_what_a_page_shows_runs(stranger, dpicl, page, whole):
    quick = QUICK | SHOWN if page.name in FIRST else QUICK
    runs = lambda words: whole or words[0] in QUICK or (words[0] in quick and not OWN & {*words})  # noqa: E731
    session = Session(dpicl, runs)
    if session.runs(["board"]):
        shutil.copytree(ROOT / "results", "results")
    problems = []
    for example in examples(page):
        try:
            session.read(example)
        except (AssertionError, DpiclError, SyntaxError) as error:
            problems.append(f"{example.text}: {error}")
    assert not problems, "\n".join(problems)
    if whole and page.name == "python.md":
        assert_the_notebook_shows_tables(session.shown, session.names)


def assert_the_notebook_shows_tables(shown, names):
    first, means, ballots, *_ = shown
    assert {"score", "epsilon_proved"} <= set(first.columns) and len(first) == 2
    assert set(means.index.get_level_values("mechanism")) == {"zero_shot", "tang", "real_demonstrations"}
    assert set(ballots.mechanism) == {"ballots", "voting"} and (ballots.epsilon_proved <= 1).all()
    assert (names["audit"].to_frame().epsilon_audited <= names["audit"].to_frame().epsilon_proved).all()
    assert 5.32 < names["cost"]["proved"] < 5.34
    for thing in (names["results"], names["findings"], names["audit"], names["board"]):
        assert "<table" in thing._repr_html_() and repr(thing)


def test_every_page_with_commands_has_some_that_run():
    found = {page.name: list(examples(page)) for page in TYPED}
    assert sum(len(each) for each in found.values()) > 250
    assert not any(example.needs for example in found["README.md"])


def prose(path: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The anchors of the page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def example(name: str) -> str:
    """The source of an example mechanism, from its page."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / EXAMPLES[name]).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (source,) = (block for block in blocks if block.startswith(f'"""{name}.py'))
    return source


@pytest.fixture
def plugin(request, tmp_path):
    path = tmp_path / f"{request.param}.py"
    path.write_text(example(request.param), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path):
    lost = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)", prose(path)):
        page = path.parent / target if target else path
        if not page.exists() or (anchor and anchor not in anchors(page)):
            lost.append(f"{target}#{anchor}")
    assert lost == []


@pytest.mark.parametrize(
    ("plugin", "options", "queries"),
    [("ballots", ["slots=4"], 12), ("vote", ["slots=8", "tokens=4"], None)],
    indirect=["plugin"],
)
def test_the_example_mechanisms_run_at_their_proved_epsilon(dpicl, sim_suite, tmp_path, plugin, options, queries):
    flags = ["--plugin", plugin, "--results", tmp_path / "results"]
    chosen = [word for option in options for word in ("--option", option)]
    run = dpicl("run", sim_suite, *flags, "--mechanism", plugin.stem, *chosen, "--seed", 0, "--json")
    assert run.code == 0, run.err
    board = dpicl("board", sim_suite, *flags, "--json")
    assert board.code == 0, board.err
    (table,) = board.json["sections"][0]["tasks"]
    (row,) = table["rows"]
    assert (row["mechanism"], row["queries"]) == (plugin.stem, queries)
    assert 0.98 * 2 <= row["proved"] <= 2
    assert len(table["missing"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("plugin", ["ballots", "vote"], indirect=True)
def test_the_example_mechanisms_pass_the_conformance_kit(dpicl, plugin):
    checked = dpicl("check", plugin, "--task", "agnews")
    assert checked.code == 0, checked.out


def test_the_example_mechanism_says_which_tasks_it_cannot_do():
    found: dict[str, object] = {"__name__": "vote"}
    exec(example("vote"), found)
    skipped = {task: found["Vote"]().skip(PublicTask.without_records(task)) for task in TASKS}
    assert {task for task, reason in skipped.items() if reason} == {"samsum"}


def test_the_page_on_python_names_everything_public():
    text = (ROOT / "docs" / "python.md").read_text("utf-8")
    assert [name for name in package.__all__ if not re.search(rf"`{name}`|dpicl\.{name}\b", text)] == []


def test_a_commit_holds_no_attack_result_that_cannot_be_read():
    from dpicl.attacks.store import load_attacks

    results, damaged = load_attacks(ROOT / "results")
    assert damaged == []
    assert {result.manifest.dirty for result in results} <= {False}
