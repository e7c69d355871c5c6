"""The prompts are the published ones, letter by letter (with full label words), and render as lm-eval renders them."""

from dataclasses import replace

import jinja2
import pytest

from dpicl.core.errors import UsageError
from dpicl.data.sources import Record
from dpicl.data.task import Task, list_tasks
from dpicl.mechanism.bases import Demonstration
from dpicl.models.base import ChatPrompt

TEXT = Record("a text", "Sports")


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    return {
        name: Task.load(name, source="synthetic", limit_train=2, limit_test=5)
        for name in list_tasks()
    }


def completion(task: Task, label: str, *examples: Record) -> str:
    prompt = task.generation_prompt(label, examples)
    assert isinstance(prompt, str)
    return prompt


GIVEN = "Given a label of {} type, generate {} accordingly.\n\n"
COMPLETIONS = {
    "agnews": (GIVEN.format("news", "the chosen type of news"), "News Type"),
    "dbpedia": (GIVEN.format("document", "the chosen type of document"), "Document Type"),
    "trec": (GIVEN.format("answer", "a question based on the given answer type"), "Answer Type"),
}


@pytest.mark.parametrize("name", COMPLETIONS)
def test_completion_prompts_are_tangs(tasks, name):
    (instruction, kind), label = COMPLETIONS[name], tasks[name].labels[0]
    shown, question = f'{kind}: "{label}"\nText: "a text END"\n', f'{kind}: "{label}"\nText: "'
    assert completion(tasks[name], label) == instruction + question
    assert (
        completion(tasks[name], label, *[Record("a text", label)] * 2)
        == instruction + shown * 2 + question
    )


@pytest.mark.parametrize(
    ("name", "slot"),
    [("mit_g", "Genre"), ("mit_d", "Director")],
)
def test_mit_completion_prompts_show_each_record_with_its_phrase(tasks, name, slot):
    assert completion(tasks[name], "asked", Record("a film", "its own")) == (
        f"Given a propety of {slot} for the film, generate a description accordingly and make sure to include the given"
        f' {slot} in the description.\n\n{slot}: "its own"\nSentence: "a film END"\n{slot}: "asked"\nSentence: "'
    )


def test_chat_prompts_are_prisms(tasks):
    agnews = tasks["agnews"]
    assert agnews.generation_prompt("World", (), style="chat") == ChatPrompt(
        "Generate only a text of news type World.", "Text:"
    )
    assert agnews.generation_prompt(
        "World", [TEXT, Record("b", "World")], style="chat"
    ) == ChatPrompt(
        "Here are texts with News Type: World.\n\na text\n\nb\n\nPlease give me another one.",
        "Text:",
    )
    assert tasks["mit_d"].generation_prompt("ang lee", (), style="chat") == ChatPrompt(
        "Give me text about a film and the extracted Phrase about its Director. IMPORTANT: The exact Director phrase"
        ' "ang lee" must be mentioned in Text.',
        'Phrase: "ang lee"\nText: "',
    )


def test_every_task_has_both_styles_and_refuses_a_third(tasks):
    for task in (task for task in tasks.values() if task.kind != "generation"):
        example = task.train[0]
        assert isinstance(
            task.generation_prompt(task.labels[0], [example], style="chat"), ChatPrompt
        )
        assert example.text in task.generation_prompt(task.labels[0], [example])
        with pytest.raises(UsageError, match="chat, completion"):
            task.generation_prompt(task.labels[0], [example], style="prose")


@pytest.mark.parametrize("name", ["samsum", "xsum", "chatdoctor"])
def test_a_generation_task_has_no_prompt_that_asks_for_records(tasks, name):
    with pytest.raises(UsageError, match="answer mechanism"):
        tasks[name].generation_prompt("example", ())


def test_a_film_is_shown_as_json_and_asked_for_without_a_label(tasks):
    wikimovies, film = tasks["wikimovies"], Record('{"title": "A {b}"}', "movie")
    skeleton = '{"title": "...", "year": 1950, "genres": ["..."], "cast": ["...", "..."]}'
    instruction = f"Write a film as one line of JSON like\n{skeleton}\n\n"
    assert (
        completion(wikimovies, "movie", film) == instruction + 'Film: {"title": "A {b}"} END\nFilm:'
    )
    assert (
        wikimovies.icl_prefix([film]) + wikimovies.query("")
        == instruction + 'Film: {"title": "A {b}"}\nFilm:'
    )
    assert wikimovies.generation_prompt("movie", (), style="chat") == ChatPrompt(
        f"Generate only one film as a line of JSON like\n{skeleton}", "JSON:"
    )
    assert wikimovies.generation_prompt("movie", [film], style="chat") == ChatPrompt(
        'Here are films, each as a line of JSON.\n\n{"title": "A {b}"}\n\nPlease give me another one.',
        "JSON:",
    )


ASKED = {
    "samsum": (
        "Summarize the following dialogue:\n\n",
        'Dialogue:"\n one" \nThe summary is: "1"\n\nDialogue:"\n two" \nThe summary is: "',
    ),
    "xsum": (
        "Summarize the following document:\n\n",
        'Document:"\n one" \nThe summary is: "1"\n\nDocument:"\n two" \nThe summary is: "',
    ),
    "chatdoctor": (
        "You are a doctor, please answer the medical questions based on the patient's description.\n",
        'Question: one\n\nAnswer: "1"\nQuestion: two\n\nAnswer: "',
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_generation_prompts_are_sgas_with_an_opened_quotation(tasks, name):
    instruction, shown = ASKED[name]
    assert tasks[name].icl_prefix([Demonstration("one", "1", tokens=1)]) + tasks[name].query(
        "two"
    ) == (instruction + shown)


INSTRUCTIONS = {
    "agnews": "Classify the news articles into the categories of World, Sports, Business, and Technology.\n\n",
    "dbpedia": "Classify the documents based on whether they are about a Company, School, Artist, Athlete, Politician,"
    " Transportation, Building, Nature, Village, Animal, Plant, Album, Film, or Book.\n\n",
    "trec": "Classify the questions based on whether their answer type is a Number, Location, Person, Description,"
    " Entity, or Abbreviation.\n\n",
    "mit_g": "",
    "mit_d": "",
}
FIELDS = {
    "agnews": ("Article", "Answer"),
    "dbpedia": ("Article", "Answer"),
    "trec": ("Question", "Answer Type"),
    "mit_g": ("Sentence", "Genre"),
    "mit_d": ("Sentence", "Director"),
}


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_icl_prompt_is_the_published_one(tasks, name):
    task, (field, answer) = tasks[name], FIELDS[name]
    demonstrations = [Demonstration("one", "First", tokens=3), Record("two", "Second")]
    assert task.icl_prefix(()) == INSTRUCTIONS[name]
    assert task.icl_prefix(demonstrations) + task.query("three") == (
        f"{INSTRUCTIONS[name]}{field}: one\n{answer}: First\n\n{field}: two\n{answer}: Second\n\n"
        f"{field}: three\n{answer}:"
    )


@pytest.mark.parametrize(
    "template",
    [
        "Text: {{text}}\nAnswer:\n",
        "{{text|upper}}{{text}}",
        "E-mail:",
        "{a} {{text}}\r\n",
    ],
)
def test_a_query_is_what_jinja_renders(tasks, template):
    text, config = (
        " {{ 1 + 1 }} é\n",
        tasks["agnews"].config.model_copy(update={"doc_to_text": template}),
    )
    rendered = (
        jinja2.Environment(keep_trailing_newline=True).from_string(template).render(text=text)
    )
    assert replace(tasks["agnews"], config=config).query(text) == rendered
