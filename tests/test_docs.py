"""README and docs: links lead somewhere, commands and flags exist, and commands and Python blocks run.

A page of the manual is read from top to bottom as one session, in an empty folder with a home of its own, without data,
network or GPU. Commands that answer at once run in every test; the test marked slow runs all of them, with the
simulated model. Of a command only the flags are looked at where the text says that it needs something (`DPICL_DATA=…`
before it, or "needs" in its comment), where it is a template (`…`, brackets, NAMES in capitals), and in reports.
"""

import ast
import glob
import importlib.util
import inspect
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import dpicl as package
from dpicl import models
from dpicl.attacks.store import load_attacks
from dpicl.cli.commands import load
from dpicl.data import config as task_config
from dpicl.program import VERBS, main

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted(ROOT.glob("leaderboards/submissions/**/*.md")),
]
TYPED = [page for page in PAGES if page.name != "CHANGELOG.md" and "submissions" not in page.parts]

PROGRAMS = r"dpicl|make|python -m|printf|\(echo|cp|sed|git|ray|docker|lm_eval|llama-server"
COMMAND = re.compile(rf"(?P<env>(?:[A-Z_]+=\S+ )*)(?:\.venv/bin/)?(?P<line>(?:{PROGRAMS}) .+)")
TEMPLATE = re.compile(r"[…\[\]|<>]|\b[A-Z][A-Z_]+\b(?!=)|I/N")
#: What answers within a second.
QUICK = {"list", "new", "account", "printf", "(echo", "sed"}
#: What is made small where a page leaves it open, for commands that have the flag and read no committed results.
SMALL = {"--model": "sim", "--limit": "12", "--runs": "20", "--texts": "2", "--draws": "4"}
READS = {"board", "plot", "compare", "publish", "submit", "list", "plan"}
SMALL_PYTHON = {"model": "sim", "source": "synthetic", "progress": False, "train_records": 60}


@dataclass(frozen=True)
class Example:
    """A command line, or a block of Python. runs: whether the text leaves nothing open and needs nothing else."""

    text: str
    env: str = ""
    python: bool = False
    runs: bool = True


def examples(page: Path) -> Iterator[Example]:
    """All of a page, from top to bottom."""
    for part in re.split(
        r"^(```.*?^```)$", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    ):
        kind, _, code = (
            part.removeprefix("```").partition("\n") if part.startswith("```") else (None, "", part)
        )
        if kind == "python":
            yield Example(code.removesuffix("```"), python=True)
        lines = code.replace("\\\n", " ").splitlines() if kind in ("", "sh") else []
        spans = re.findall(r"`([^`]+)`", code) if kind is None else []
        for line in [
            *lines,
            *(" ".join(span.split()) for span in spans),
        ]:
            text, _, comment = line.partition(" #")
            for command in text.split(" && "):
                if match := COMMAND.fullmatch(command.strip()):
                    line = match["line"].strip()
                    is_whole = not line.startswith("dpicl") or not TEMPLATE.search(line)
                    runs = (
                        kind is not None
                        and is_whole
                        and "needs" not in comment
                        and "…" not in match["env"]
                    )
                    yield Example(line, match["env"], runs=runs)


_HELP: dict[tuple[str, ...], str] = {}


def help_of(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """The help of the command that these words begin with."""
    named = tuple(word for word in words[:2] if re.fullmatch("[a-z][a-z-]+", word))
    for name in (named, named[:1]):
        if name and name not in _HELP:
            capfd.readouterr()
            try:
                code: str | int | None = main([*name, "--help"])
            except SystemExit as end:
                code = end.code
            _HELP[name] = capfd.readouterr().out if not code else ""
        if name and _HELP[name]:
            return _HELP[name]
    raise AssertionError(f"there is no command dpicl {' '.join(named)}")


class Session:
    """One page, read in the working folder. quick: the commands that run; None: all."""

    def __init__(self, dpicl, capfd, quick: set[str] | None) -> None:
        self.dpicl, self.capfd, self.quick = dpicl, capfd, quick
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.shown: list[object] = []

    def read(self, example: Example) -> None:
        if example.python:
            self._python(example.text)
            return
        words = shlex.split(example.text) if example.runs else example.text.split()
        match words:
            case ["dpicl", *rest]:
                self._dpicl(rest, example)
            case ["make", *targets]:
                known = re.findall(
                    r"^([a-z-]+):|\$\(([A-Z]+)\)",
                    (ROOT / "Makefile").read_text("utf-8"),
                    re.MULTILINE,
                )
                assert {target.partition("=")[0] for target in targets} <= {
                    name for pair in known for name in pair
                }
            case ["python", "-m", module, *rest] if not TEMPLATE.search(module):
                spec = importlib.util.find_spec(module)
                assert spec is not None, f"there is no module {module}"
                source = Path(str(spec.origin)).read_text("utf-8")
                assert [word for word in rest if word.startswith("--") and word not in source] == []
            case ["cp" | "sed" | "printf" | "(echo", *_] if self._is_run(words[0], example):
                subprocess.run(["sh", "-c", example.text], check=True)

    def _is_run(self, verb: str, example: Example) -> bool:
        return example.runs and (
            self.quick is None or (verb in self.quick and "--source" not in example.text)
        )

    def _dpicl(self, words: list[str], example: Example) -> None:
        if words[0] == "--install-completion":  # it writes into the home folder
            return
        known = help_of(words, self.capfd)
        flags = re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(words))
        assert [flag for flag in flags if flag not in known] == []
        if not self._is_run(words[0], example):
            return
        reads = words[0] in READS and not {"--plugin", "--source", "--results"} & {*words}
        small = (
            []
            if reads
            else [pair for pair in SMALL.items() if pair[0] in known and pair[0] not in words]
        )
        if words[0] == "audit" and "--suite" in words:  # its rows have their own settings
            small = []
        elif words[0] == "audit":  # a sampled one refuses a limit, an exact one a number of runs
            small = [
                pair for pair in small if pair[0] != ("--runs" if "--exact" in words else "--limit")
            ]
        words = [path for word in words for path in sorted(glob.glob(word)) or [word]]
        with pytest.MonkeyPatch.context() as patch:
            for name, value in re.findall(r"([A-Z_]+)=(\S+)", example.env):
                patch.setenv(name, value)
            answer = self.dpicl(*words, *(word for pair in small for word in pair))
        assert answer.code == 0, answer.err or answer.out

    def _python(self, source: str) -> None:
        """A cell of a notebook, whose value is that of its last expression. One that names its file is a file."""
        if named := re.match(r'"""(\w+\.py): ', source):
            Path(named[1]).write_text(source, encoding="utf-8")
            return
        tree = ast.parse(source)
        if self.quick is None:
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "cell", "exec"), self.names)
            if last is not None:
                self.shown.append(
                    eval(compile(ast.Expression(last.value), "cell", "eval"), self.names)
                )


@pytest.fixture
def stranger(fresh_cache, tmp_path, monkeypatch):
    """The working folder of somebody with a clone, and files of their own, and nothing else."""
    for name in ("DPICL_DATA", "WANDB_API_KEY", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(models, "_given", {})
    monkeypatch.setattr(task_config, "_given", {})
    folder = tmp_path / "work"
    shutil.copytree(ROOT / "leaderboards" / "submissions", folder / "leaderboards" / "submissions")
    for name in ("harness", "mechanisms", "tasks", "tests", "leaderboards/suites"):
        (folder / name).symlink_to(ROOT / name)
    tickets = [
        f"ticket {n} on {label},{label}"
        for n in range(80)
        for label in ("billing", "technical", "refund")
    ]
    (folder / "tickets.csv").write_text("\n".join(["text,label", *tickets]))
    (folder / "public.csv").write_text("\n".join(["text,label", *tickets[:60]]))
    orders = [
        f"order {n} about {label},{label},C{n % 40}"
        for n in range(80)
        for label in ("billing", "refund")
    ]
    (folder / "orders.csv").write_text("\n".join(["text,label,customer_id", *orders]))
    questions = [
        json.dumps({"question": f"where is parcel {n}", "answer": f"on day {n}"}) for n in range(80)
    ]
    (folder / "faq.jsonl").write_text("\n".join(questions))
    coded = [f"mail {n} about {label},{label}" for n in range(40) for label in (0, 1)]
    (folder / "train.csv").write_text("\n".join(["text,label", *coded]))
    (folder / "test.csv").write_text(
        "\n".join(["text,label", "where is my money,1", "two bills,0"])
    )
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    "page",
    TYPED,
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_what_a_page_shows_exists_and_quick_commands_run(stranger, dpicl, capfd, page):
    (stranger / "results").symlink_to(ROOT / "results")
    runs = QUICK if page.parent in (ROOT, DOCS) else set()
    assert failures(Session(dpicl, capfd, runs), examples(page)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in TYPED if page.parent in (ROOT, DOCS)], ids=lambda page: page.name
)
def test_what_a_page_shows_runs(stranger, dpicl, capfd, monkeypatch, page):
    shutil.copytree(ROOT / "results", stranger / "results")
    load_model = models.load
    monkeypatch.setattr(
        models,
        "load",
        lambda name, *more, **how: load_model(
            "sim" if name == "embedded" else name,
            *more,
            **how,
        ),
    )
    for name in ("evaluate", "audit", "check", "release", "answer"):
        function = getattr(package, name)
        small = {
            key: SMALL_PYTHON[key]
            for key in SMALL_PYTHON.keys() & inspect.signature(function).parameters
        }
        monkeypatch.setattr(package, name, partial(function, **small))
    session = Session(dpicl, capfd, None)
    assert failures(session, examples(page)) == []
    if page.name == "python.md":
        assert_the_notebook_shows_tables(session.shown, session.names)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_examples_of_all_verbs_run(stranger, dpicl, capfd, sim_suite):
    """As one session, in the order of `dpicl --help`."""
    shutil.copytree(ROOT / "results", stranger / "results")
    (stranger / "new.txt").write_text("where is my money\ntwo bills\n")
    grid = "  - {name: pta, tune: {alpha: [1, 1.5, 2], top_k: [10, 100]}}\n"
    (stranger / "mine.yaml").write_text(sim_suite.read_text() + grid)
    lines = [
        line
        for place, _ in VERBS.values()
        for line in vars(load(place))["verb"].example.splitlines()
    ]
    assert failures(Session(dpicl, capfd, None), map(Example, lines)) == []


def failures(session: Session, shown: Iterable[Example]) -> list[str]:
    problems = []
    for example in shown:
        try:
            session.read(example)
        except (AssertionError, package.DpiclError, SyntaxError, ValueError) as error:
            problems.append(f"{example.text}: {error}")
    return problems


def assert_the_notebook_shows_tables(shown, names):
    means, *_ = shown
    assert set(means.index.get_level_values("mechanism")) == {
        "zero_shot",
        "tang",
        "real_demonstrations",
    }
    assert (
        names["audit"].to_frame().epsilon_audited <= names["audit"].to_frame().epsilon_proved
    ).all()
    assert 5.32 < names["cost"]["proved"] < 5.34
    for thing in (
        names["results"],
        names["findings"],
        names["audit"],
        names["board"],
    ):
        assert "<table" in thing._repr_html_() and repr(thing)


def test_readme_is_short_and_has_two_set_up_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 70 and len(text.split()) <= 650
    assert re.findall(r"^make (\w+)", text, re.MULTILINE) == ["leaderboard", "test"]


@pytest.mark.slow
def test_generated_tables_are_those_of_the_committed_results():
    generated = runpy.run_path(str(DOCS / "generated.py"))
    for page in generated["TABLES"]:
        assert generated["fill"](page) == (ROOT / page).read_text("utf-8"), "run `make reports`"


BENCHMARK = re.compile(
    r"\bbenchmarks[./]([a-z_]+(?:[./](?!json)[a-z_]+)*)|\bbenchmark `([a-z_.]+)`"
)
BENCHMARKS = {
    name.removesuffix(".py").replace("/", ".")
    for page in TYPED
    for pair in BENCHMARK.findall(page.read_text("utf-8"))
    for name in pair
    if name
}


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_every_benchmark_that_a_page_names_exists_and_has_help(name, monkeypatch, capsys):
    """Figures whose benchmark is gone cannot be measured again."""
    assert (ROOT / "benchmarks" / f"{name.replace('.', '/')}.py").is_file()
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    assert not end.value.code and "usage:" in capsys.readouterr().out


def prose(path: Path) -> str:
    """The page without its code blocks."""
    return re.sub(
        r"^```.*?^```",
        "",
        path.read_text("utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )


def anchors(path: Path) -> set[str]:
    """The anchors of the page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "path",
    PAGES,
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_link_leads_somewhere(path):
    lost = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)", prose(path)):
        page = path.parent / target if target else path
        if not page.exists() or (anchor and anchor not in anchors(page)):
            lost.append(f"{target}#{anchor}")
    assert lost == []


def test_the_navigation_has_every_page():
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert set(re.findall(r"[\w/-]+\.md", nav)) == pages


@pytest.mark.slow
def test_the_site_of_the_documentation_builds(tmp_path):
    pytest.importorskip("mkdocs")
    words = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "epsilon_proved" in (tmp_path / "site" / "files.html").read_text("utf-8")
    assert '<h2 id="publish">' in (tmp_path / "site" / "command-line.html").read_text("utf-8")


def test_the_reference_has_every_command_with_its_flags():
    """Its examples run with the tests of the commands."""
    text = runpy.run_path(str(DOCS / "reference.py"))["commands"]()
    sections = dict(re.findall(r"^## ([^\n]+)\n\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert sections.keys() == VERBS.keys()
    assert [name for name, section in sections.items() if f"`dpicl {name}" not in section] == []
    assert "| `--epsilon E` | proved epsilon of this release (required) |" in sections["release"]
    assert (
        "| `--epsilon E` | target epsilon ('inf' too); may be repeated (or 1,8) |"
        in text.partition("\n## ")[0]
    )


@pytest.fixture
def ballots(tmp_path):
    """The file of the example mechanism of docs/add-a-mechanism.md."""
    blocks = re.findall(
        r"^```python\n(.*?)^```",
        (DOCS / "add-a-mechanism.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    (source,) = (block for block in blocks if block.startswith('"""ballots.py'))
    path = tmp_path / "ballots.py"
    path.write_text(source, encoding="utf-8")
    return path


def test_the_example_mechanism_runs_at_its_proved_epsilon(dpicl, sim_suite, tmp_path, ballots):
    flags = ["--plugin", ballots, "--results", tmp_path / "results"]
    dpicl(
        "run",
        sim_suite,
        *flags,
        "--mechanism",
        "ballots",
        "--option",
        "slots=4",
        "--seed",
        0,
        "--json",
    ).succeed()
    board = dpicl("board", sim_suite, *flags, "--json").succeed()
    (table,) = board.json["sections"][0]["tasks"]
    (row,) = table["rows"]
    assert row["mechanism"] == "ballots"
    assert row["queries"] == 12
    assert 0.98 * 2 <= row["proved"] <= 2
    assert len(table["missing"]) == 2


def test_the_page_on_python_names_everything_public():
    text = (DOCS / "python.md").read_text("utf-8")
    assert [name for name in package.__all__ if not re.search(rf"\b{name}\b", text)] == []


def test_a_commit_holds_no_attack_result_that_cannot_be_read():
    results, damaged = load_attacks(ROOT / "results")
    assert damaged == []
    assert {result.manifest.dirty for result in results} <= {False}
