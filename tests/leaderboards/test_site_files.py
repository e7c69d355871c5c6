"""The site as files: what is downloaded and compared, where pages are written, the list of all suites."""

import pytest

from dpicl.core.errors import ResultError
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render import page
from dpicl.leaderboards.render.addresses import make_plain
from dpicl.leaderboards.render.html import pages
from dpicl.leaderboards.render.row_view import MOST_RIVALS
from tests.leaderboards.factory import ends, make_result
from tests.leaderboards.site_factory import Page, plain_results


def test_no_name_leaves_its_folder():
    assert make_plain("../../a b") == "a-b"


def test_a_row_s_page_says_how_it_stands_beside_the_rows_at_its_epsilon_controls_and_baselines():
    first = [
        *plain_results(),
        make_result("public_demonstrations", 0.5, epsilon=0.0),
        *ends(task="trec"),
    ]
    results = [
        one.model_copy(update={"cell": one.cell.model_copy(update={"seed": seed})})
        for one in first
        for seed in (0, 1)
    ]
    files = pages(build_board(results))
    (name,) = [name for name in files if name.startswith("rows/tang-agnews-e1-")]
    beside = {
        link.removeprefix("../") for link in Page(files[name]).links if link.startswith("../rows/")
    }
    assert beside <= files.keys()
    assert sorted(link.removeprefix("rows/").rpartition("-e")[0] for link in beside) == [
        "prism-agnews", "public_demonstrations-agnews", "real_demonstrations-agnews", "zero_shot-agnews",
    ]  # fmt: skip


def test_no_page_grows_with_the_pairs_of_rows():
    def rivals(number):
        rows = [make_result(f"row{i}", 0.3 + 0.4 * i / number, documents=30) for i in range(number)]
        files = pages(build_board([*ends(documents=30), *rows]))
        (own,) = [text for name, text in files.items() if name.startswith("rows/row1-")]
        return sum(link.startswith("../rows/") for link in Page(own).links)

    assert rivals(10) == 11 and rivals(60) == MOST_RIVALS


def test_a_site_is_written_into_a_new_folder_and_says_until_it_is_whole_that_it_is_not(
    tmp_path, monkeypatch
):
    folder, files = tmp_path / "new" / "site", pages(build_board(plain_results()))
    assert page.write(files, folder) == folder / "index.html"
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == set(files)
    assert (folder / "index.html").read_text(encoding="utf-8") == files["index.html"]
    (folder / "board.csv").unlink()
    (folder / "board.csv").mkdir()
    with pytest.raises(ResultError, match=r"board\.csv"):
        page.write(files, folder)
    assert "Not all pages are written" in (folder / "index.html").read_text()
    (folder / "board.csv").rmdir()
    page.write(files, folder)
    assert (folder / "index.html").read_text(encoding="utf-8") == files["index.html"]


def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ResultError, match="choose another folder"):
        page.write({"index.html": "new"}, tmp_path / "file" / "site")


@pytest.mark.parametrize("name", ["index.html", "row.html", "results.parquet"])
def test_a_file_of_somebody_else_is_not_replaced(tmp_path, name):
    (tmp_path / name).write_text("<p>my homepage")
    with pytest.raises(ResultError, match=f"{name} was not written by dpicl and stays as it is"):
        page.write({name: "", "board.csv": ""}, tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "<p>my homepage"


def test_a_folder_that_no_system_knows(tmp_path):
    with pytest.raises(ResultError, match="invalid file name"):
        page.write({"board.csv": ""}, tmp_path / "a\0b")
