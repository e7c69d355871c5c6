"""What strangers wrote reaches the terminal as letters."""

import json
from pathlib import Path

import pytest

from dpicl.cli import output
from dpicl.core.messages import message
from dpicl.core.printable import make_printable
from dpicl.results.schema import to_text
from dpicl.tables.document import text_table
from tests.leaderboards.factory import make_result

EVIL = "\x1b[2J\x1b]0;title\x07\r\u202eabc\ud800\x9b31m\u2028"


def is_harmless(text: str) -> bool:
    return make_printable(text) == text and "\r" not in text


def test_control_characters_are_written_out_and_line_breaks_stay():
    text = make_printable(f"a\tb\n{EVIL}")
    assert (
        text.startswith("a\tb\n⟨U+001B⟩[2J")
        and "⟨U+202E⟩" in text
        and "⟨U+D800⟩" in text
        and "⟨U+000D⟩" in text
    )
    assert is_harmless(text)
    text.encode()


def test_colours_stay_in_a_styled_text_and_nothing_else_does():
    assert (
        make_printable("\x1b[1;31mred\x1b[0m \x1b[2J", styled=True)
        == "\x1b[1;31mred\x1b[0m ⟨U+001B⟩[2J"
    )


def test_answers_messages_and_tables_are_safe(capfd):
    output.emit(
        [
            EVIL,
            text_table(
                ["name"],
                [[EVIL]],
                title=EVIL,
            ),
        ]
    )
    message(EVIL)
    shown = capfd.readouterr()
    assert is_harmless(shown.out) and is_harmless(shown.err)
    assert "⟨U+202E⟩" in shown.out and "⟨U+202E⟩" in shown.err


@pytest.mark.parametrize("command", ["board", "run"])
def test_messages_about_damaged_files_are_safe(dpicl, sim_suite, tmp_path: Path, command):
    results = tmp_path / "results"
    folder = results / "sim_suite" / "a\x1b[2J"
    folder.mkdir(parents=True)
    data = json.loads(to_text(make_result()))
    data["scores"]["\x1b]0;evil\x07\u202e"] = {"value": "NaN"}
    (folder / "\x1b[31mname.json").write_text(json.dumps(data))
    few = "--mechanism zero_shot --task trec --seed 0" if command == "run" else ""
    answer = dpicl(f"{command} {sim_suite} --results {results} {few}")
    assert "damaged" in answer.err and is_harmless(answer.err) and is_harmless(answer.out)


def test_a_table_breaks_no_word_that_has_room(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    output.emit(
        [
            text_table(
                ["name", "about"], [["embedding_centroids", "noisy means of the classes " * 4]]
            )
        ]
    )
    assert "embedding_centroids" in capsys.readouterr().out
    output.emit(
        [text_table(["name", "about"], [["n" * 35, "m" * 35]])]
    )  # no room for both: nothing is lost
    shown = capsys.readouterr().out
    assert shown.count("n") == 35 + 1 and shown.count("m") == 35 + 1
