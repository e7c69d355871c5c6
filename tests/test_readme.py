"""What README and docs say is so: links and anchors lead somewhere, the mechanisms run as they stand there."""

import re
import shlex
from pathlib import Path

import pytest

import dpicl as package
from dpicl.cli import build_parser
from dpicl.harness.cli.arguments import HELP, parse
from dpicl.harness.conformance.kit import TASKS
from dpicl.harness.data.task import PublicTask

ROOT = Path(__file__).resolve().parent.parent
SUBMISSIONS = ROOT / "leaderboards" / "submissions"
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md")), *sorted(SUBMISSIONS.rglob("*.md"))]
EXAMPLES = {"ballots": "README.md", "vote": "docs/add-a-method.md"}


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


def test_the_parser_knows_every_command_of_the_examples():
    """Blocks of commands in all pages; `dpicl run SUITE` and other templates parse too."""
    seen = 0
    for page in PAGES:
        for block in re.findall(r"^```(?:sh)?\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            for line in re.split(r"\n| && ", block.replace("\\\n", " ")):
                if command := re.match(r"\s*(?:\$ )?(?:\.venv/bin/)?dpicl (.*)", line):
                    parser, names = build_parser(), list(HELP)
                    parse(parser, shlex.split(command[1], comments=True), names)
                    seen += 1
    assert seen > 30


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
    from dpicl.harness.attacks.store import load_attacks

    results, damaged = load_attacks(ROOT / "results")
    assert damaged == []
    assert {result.manifest.dirty for result in results} <= {False}
