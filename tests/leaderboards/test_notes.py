"""Notes: by weight, what repeats once, with a count; never more than a page can show."""

from dpicl.leaderboards.model.notes import MOST_NOTES, Note, Weight, gathered, named


def test_what_is_said_of_one_thing_is_one_sentence_whatever_its_name():
    note = Note(Weight.SEEDS, "{0} %s {}", " has {} seeds", " have 1 seed")
    assert gathered([note, note]) == ("{0} %s {} has {} seeds.",)
    assert named(["a", "b", "a"]) == "a and b"


def test_many_different_notes_of_one_weight_end_in_a_count_of_the_rest():
    found = gathered(Note(Weight.REFUTED, f"row{i}", f": reason {i}") for i in range(100))
    assert len(found) == MOST_NOTES
    rest = 100 - MOST_NOTES + 1
    assert found[-1].startswith(f"{rest} more notes of this kind (row{MOST_NOTES - 1}, ")
