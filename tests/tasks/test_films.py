"""Films as lines of JSON: what parses, what is valid, and distances of histograms counted by hand."""

import json

import pytest

from dpicl.tasks import films

pytestmark = pytest.mark.usefixtures("new_corpora")

FILM = {
    "title": "The Golden Rider",
    "year": 1955,
    "genres": ["Western", "Drama"],
    "cast": ["Ana Bell", "Leo Cruz"],
}


def line(**changes) -> str:
    return json.dumps({**FILM, **changes})


def drop_field(field: str) -> str:
    return json.dumps({key: value for key, value in FILM.items() if key != field})


@pytest.mark.parametrize(
    "text",
    [
        line(),
        "  \n" + line(),
        line() + ' END\nFilm: {"title"',
        line() + "}}}",
        line(title="{{ 1 + 1 }} %s 'quoted' \\ \" é \ud800", cast=[]),
        line(year=2030),
        json.dumps({key: FILM[key] for key in ("cast", "year", "genres", "title")}),
    ],
)
def test_a_film_is_valid_whatever_follows_it(text):
    assert films.results({}, [text]) == {"parses": 1.0, "valid": 1.0}


@pytest.mark.parametrize(
    "text",
    [
        line(title="  "),
        line(year="1955"),
        line(year=1955.0),
        line(year=1879),
        line(year=10**400),
        line(genres=[]),
        line(genres=["Western", "Yodelling"]),
        line(cast="Ana Bell"),
        line(cast=[1]),
        line(plot="a field too many"),
        drop_field("cast"),
        "{}",
    ],
)
def test_an_object_that_is_no_film_parses_and_is_not_valid(text):
    assert films.results({}, [text]) == {"parses": 1.0, "valid": 0.0}


@pytest.mark.parametrize(
    "text",
    [
        "A film: " + line(),
        json.dumps([FILM]),
        "null",
        line()[:-1],
        line().replace("1955", "NaN"),
        line()[:-1] + ', "year": 1956}',
        '{"title": "a", "year": 1955, "genres": ["War"], "cast": [{"a": 1, "a": 2}]}',
        "[" * 100_000,
        '{"title": ' * 900,
        line(title="x" * 6000),
        line(year=1).replace("1", "9" * 4900),
    ],
)
def test_what_is_no_json_object_does_not_parse(text):
    assert films.results({}, [text]) == {"parses": 0.0, "valid": 0.0}


def test_a_record_keeps_two_names_and_the_four_fields_in_order():
    text = films.text_of(
        {
            "extract": "SECRET",
            "cast": ["A", "B", "C"],
            "year": 1999,
            "genres": ["War"],
            "title": "É",
        }
    )
    assert text == '{"title": "É", "year": 1999, "genres": ["War"], "cast": ["A", "B"]}'
    assert films.is_valid(films.parse(text))


@pytest.mark.parametrize(
    "row",
    [
        {},
        {**FILM, "year": "1955"},
        {**FILM, "cast": "A"},
        {**FILM, "genres": [None]},
    ],
)
def test_a_row_of_wrong_types_is_refused_without_its_values(row):
    with pytest.raises(ValueError, match="needs title") as caught:
        films.text_of(row)
    assert "Golden" not in str(caught.value)


def test_distances_by_hand():
    records = [
        line(genres=["War"], year=1950),
        line(genres=["War", "Drama"], year=1961),
    ]
    # genres: War 2/3, Drama 1/3; decades: 195 1/2, 196 1/2
    texts = [
        line(genres=["War"], year=1959),
        line(genres=["Western"], year=1951),
        line(year=1),
        "no film",
    ]
    # valid ones: War 1/2, Western 1/2; decade 195 only
    assert films.genre_distance(texts, records) == pytest.approx(
        (abs(1 / 2 - 2 / 3) + 1 / 3 + 1 / 2) / 2
    )
    assert films.year_distance(texts, records) == pytest.approx(1 / 2)


def test_distances_are_0_for_the_same_and_1_without_overlap():
    same = [line(), line(year=1987, genres=["War"])]
    assert films.genre_distance(same * 3, same) == films.year_distance(same * 3, same) == 0.0
    assert (
        films.genre_distance(
            [line(genres=["War"])],
            [line(genres=["Drama"])],
        )
        == 1.0
    )
    assert (
        films.year_distance(
            [line(year=1990)],
            [line(year=1989)],
        )
        == 1.0
    )
    for nothing in ([], ["no film"], [line(year=1)]):
        assert films.genre_distance(nothing, same) == films.year_distance(nothing, same) == 1.0
