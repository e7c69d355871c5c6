"""Jobs that wait for a service and for each other, and errors that end them."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from dpicl.core.together import Service, ServiceRequest, is_job, result_of, run_together, wait_for


@dataclass(eq=False)
class Square(ServiceRequest):
    number: int = 0
    square: int = 0


class Squares(Service):
    """Squares all numbers that wait in one portion. Negative numbers fail."""

    def __init__(self) -> None:
        self.queue: list[Square] = []
        self.portions: list[list[int]] = []

    @property
    def pending(self) -> bool:
        self.queue = [request for request in self.queue if not request.done]
        return bool(self.queue)

    def submit(self, request: Square) -> None:
        self.queue.append(request)

    def serve(self) -> None:
        portion, self.queue = self.queue, []
        self.portions.append([request.number for request in portion])
        for request in portion:
            if request.number < 0:
                request.error = ValueError(f"{request.number} is negative")
            request.square, request.done = request.number**2, True

    def of(self, number: int) -> int:
        request = Square(number=number)
        wait_for(self, request)
        return request.square


def squares_of(service: Squares, *numbers: int) -> list[int]:
    return [service.of(number) for number in numbers]


def test_what_several_wait_for_is_served_at_once() -> None:
    service = Squares()
    run_together([partial(squares_of, service, number, number + 10) for number in range(4)])
    assert service.portions == [
        [0, 1, 2, 3],
        [10, 11, 12, 13],
    ]


def test_jobs_start_jobs() -> None:
    service = Squares()

    def sum_of_squares(numbers: range) -> int:
        return sum(run_together([partial(service.of, number) for number in numbers]))

    assert run_together([partial(sum_of_squares, range(n)) for n in (2, 4, 0)]) == [1, 14, 0]
    assert service.portions == [[0, 1, 0, 1, 2, 3]]


class Opened:
    """Notes who is inside."""

    def __init__(self) -> None:
        self.open: set[object] = set()

    @contextmanager
    def __call__(self, name: object) -> Iterator[None]:
        self.open.add(name)
        try:
            yield
        finally:
            self.open.remove(name)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_the_first_error_ends_the_others(error: type[BaseException], nested: bool) -> None:
    service, opened, finished = Squares(), Opened(), []

    def wait(name: str) -> None:
        with opened(name):
            squares_of(service, 1, 2, 3, 4, 5)
            finished.append(name)

    def wait_for_jobs() -> None:
        with opened("outer"):
            run_together([partial(wait, "inner 1"), partial(wait, "inner 2")])

    def fail() -> None:
        service.of(1)
        assert len(opened.open) == (5 if nested else 2)
        raise error("stop")

    calls: list[Callable[[], Any]] = [
        partial(wait, "a"),
        fail,
        partial(wait, "b"),
    ]
    if nested:
        calls.append(wait_for_jobs)
    with pytest.raises(error, match="stop"):
        run_together(calls)
    assert opened.open == set()
    assert finished == []
    assert not service.pending
    assert not is_job()
    assert run_together([partial(service.of, 3)]) == [9]


def test_a_request_that_fails_fails_for_its_own_job() -> None:
    service = Squares()

    def attempt(number: int) -> int | str:
        try:
            return service.of(number)
        except ValueError as error:
            return str(error)

    assert run_together([partial(attempt, number) for number in (1, -2, 3)]) == [
        1,
        "-2 is negative",
        9,
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_of_the_service_itself_ends_all(error: type[BaseException]) -> None:
    opened = Opened()

    class Broken(Squares):
        def serve(self) -> None:
            raise error

    service = Broken()

    def wait(name: int) -> None:
        with opened(name):
            service.of(name)

    with pytest.raises(error):
        run_together([partial(wait, name) for name in range(3)])
    assert opened.open == set()
    assert not service.pending
    with pytest.raises(error):
        service.of(1)
    assert not service.pending


def test_a_job_that_is_ended_cannot_go_on_waiting() -> None:
    service, steps = Squares(), []

    def ask_stubbornly() -> None:
        try:
            service.of(1)
        finally:
            steps.append(service.of(2))  # outside of jobs now: served at once

    def fail() -> None:
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        run_together([ask_stubbornly, fail])
    assert steps == [4]


def test_other_threads_work_at_the_same_time() -> None:
    meet, service = threading.Barrier(2), Squares()
    with ThreadPoolExecutor(2) as pool:
        calls = [lambda: result_of(pool.submit(meet.wait, 60))] * 2
        assert sorted(run_together([*calls, partial(service.of, 3)])) == [0, 1, 9]
        assert result_of(pool.submit(service.of, 4)) == 16


def test_work_of_other_threads_for_an_ended_job_is_cancelled() -> None:
    never = Future[int]()

    def fail() -> None:
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        run_together([partial(result_of, never), fail])
    assert never.cancelled()


def test_each_job_has_context_variables_of_its_own() -> None:
    service, variable = Squares(), ContextVar("variable", default="outer")

    def job(name: str) -> tuple[str, str]:
        before = variable.get()
        variable.set(name)
        service.of(1)
        return before, variable.get()

    variable.set("caller")
    assert run_together([partial(job, "a"), partial(job, "b")]) == [
        ("caller", "a"),
        ("caller", "b"),
    ]
    assert variable.get() == "caller"


def test_a_service_that_loses_a_request_is_an_error() -> None:
    class Forgetful(Squares):
        def submit(self, request: Square) -> None:
            pass

    opened, service = Opened(), Forgetful()

    def wait(name: int) -> None:
        with opened(name):
            service.of(name)

    with pytest.raises(RuntimeError, match="wait for each other"):
        run_together([partial(wait, 1), partial(wait, 2)])
    assert opened.open == set()
