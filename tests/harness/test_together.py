"""Jobs that wait for a service, for each other, and for conditions; errors that end them; what each has used."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from dpicl.core.together import (
    Account,
    Exclusive,
    Service,
    ServiceRequest,
    active,
    clock,
    current_account,
    together,
    wait_for,
    wait_until,
)


@dataclass(eq=False)
class Square(ServiceRequest):
    number: int = 0
    square: int = 0


class Squares(Service):
    """Squares at most ``most`` numbers in a portion; each is read as one token. Negative numbers fail."""

    def __init__(self, most: int = 100, seconds: float = 0.0) -> None:
        self.most, self.seconds = most, seconds
        self.queue: list[Square] = []
        self.portions: list[list[int]] = []

    @property
    def pending(self) -> bool:
        self.queue = [request for request in self.queue if not request.done]
        return bool(self.queue)

    def submit(self, request: Square) -> None:
        self.queue.append(request)

    def serve(self) -> Mapping[Account, int]:
        portion, self.queue = self.queue[: self.most], self.queue[self.most :]
        self.portions.append([request.number for request in portion])
        time.sleep(self.seconds)
        read: dict[Account, int] = {}
        for request in portion:
            if request.number < 0:
                request.error = ValueError(f"{request.number} is negative")
            request.square, request.done = request.number**2, True
            read[request.account] = read.get(request.account, 0) + 1
        return read

    def of(self, number: int) -> int:
        request = Square(number=number)
        wait_for(self, request)
        return request.square


def squares_of(service: Squares, *numbers: int) -> list[int]:
    return [service.of(number) for number in numbers]


def test_what_several_wait_for_is_served_at_once() -> None:
    service = Squares()
    together([partial(squares_of, service, number, number + 10) for number in range(4)])
    assert service.portions == [[0, 1, 2, 3], [10, 11, 12, 13]]


def test_jobs_start_jobs() -> None:
    service = Squares()

    def sum_of_squares(numbers: range) -> int:
        return sum(together([partial(service.of, number) for number in numbers]))

    assert together([partial(sum_of_squares, range(n)) for n in (2, 4, 0)]) == [1, 14, 0]
    assert service.portions == [[0, 1, 0, 1, 2, 3]]


@pytest.mark.parametrize("most", [1, 2, 3, None])
def test_at_most_so_many_run_at_the_same_time(most: int | None) -> None:
    service, running, seen = Squares(), 0, []

    def job(number: int) -> int:
        nonlocal running
        running += 1
        seen.append(running)
        result = sum(squares_of(service, *range(number)))
        running -= 1
        return result

    assert together([partial(job, number) for number in (3, 1, 2, 3, 1)], most) == [5, 0, 1, 5, 0]
    assert max(seen) == min(most or 5, 5)


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
def test_the_first_error_ends_the_others_and_closes_what_they_have_open(
    error: type[BaseException], nested: bool
) -> None:
    service, opened, finished = Squares(), Opened(), []

    def waits(name: str) -> None:
        with opened(name):
            squares_of(service, 1, 2, 3, 4, 5)
            finished.append(name)

    def waits_for_jobs() -> None:
        with opened("outer"):
            together([partial(waits, "inner 1"), partial(waits, "inner 2")])

    def fails() -> None:
        service.of(1)
        assert len(opened.open) == (5 if nested else 2)
        raise error("stop")

    calls: list[Callable[[], Any]] = [partial(waits, "a"), fails, partial(waits, "b")]
    if nested:
        calls.append(waits_for_jobs)
    with pytest.raises(error, match="stop"):
        together(calls)
    assert opened.open == set()
    assert finished == []
    assert not service.pending
    assert not active()
    assert together([partial(service.of, 3)]) == [9]


def test_after_an_error_no_other_job_begins() -> None:
    begun = []

    def job(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        together([partial(job, number) for number in range(4)])
    assert begun == [0, 1]


def test_an_error_of_a_job_of_a_job_may_be_caught_there() -> None:
    service = Squares()

    def job() -> str:
        with pytest.raises(ValueError, match="-2"):
            together([partial(service.of, 1), partial(service.of, -2)])
        return f"still {service.of(3)}"

    assert together([job, partial(squares_of, service, 4, 5)]) == ["still 9", [16, 25]]


def test_a_request_that_fails_fails_for_its_own_job() -> None:
    service = Squares()

    def attempt(number: int) -> int | str:
        try:
            return service.of(number)
        except ValueError as error:
            return str(error)

    assert together([partial(attempt, number) for number in (1, -2, 3)]) == [1, "-2 is negative", 9]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_of_the_service_itself_ends_all(error: type[BaseException]) -> None:
    opened = Opened()

    class Broken(Squares):
        def serve(self) -> Mapping[Account, int]:
            raise error

    service = Broken()

    def waits(name: int) -> None:
        with opened(name):
            service.of(name)

    with pytest.raises(error):
        together([partial(waits, name) for name in range(3)])
    assert opened.open == set()
    assert not service.pending
    with pytest.raises(error):
        service.of(1)
    assert not service.pending


def test_a_job_that_is_ended_cannot_go_on_waiting() -> None:
    service, said = Squares(), []

    def stubborn() -> None:
        try:
            service.of(1)
        finally:
            said.append(service.of(2))  # outside of jobs now: served at once

    def fails() -> None:
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        together([stubborn, fails])
    assert said == [4]


def test_jobs_that_wait_for_each_other_are_an_error() -> None:
    opened = Opened()

    def waits(name: int) -> None:
        with opened(name):
            wait_until(lambda: False)

    with pytest.raises(RuntimeError, match="wait for each other"):
        together([partial(waits, 1), partial(waits, 2)])
    assert opened.open == set()
    with pytest.raises(RuntimeError, match="Nobody else"):
        wait_until(lambda: False)


def test_what_is_exclusive_is_held_by_one() -> None:
    service, lock, inside, most = Squares(), Exclusive(), Opened(), 0

    def job(name: int) -> None:
        nonlocal most
        service.of(name)
        with lock.held(), inside(name):
            most = max(most, len(inside.open))
            squares_of(service, 1, 2)
            if name == 2:
                raise ValueError("its holder fails")

    def attempt(name: int) -> bool:
        try:
            job(name)
        except ValueError:
            return False
        return True

    assert together([partial(attempt, name) for name in range(4)]) == [True, True, False, True]
    assert most == 1
    with lock.held():
        pass


def test_each_job_has_context_variables_of_its_own() -> None:
    service, variable = Squares(), ContextVar("variable", default="outer")

    def job(name: str) -> tuple[str, str]:
        before = variable.get()
        variable.set(name)
        service.of(1)
        return before, variable.get()

    variable.set("caller")
    assert together([partial(job, "a"), partial(job, "b")]) == [("caller", "a"), ("caller", "b")]
    assert variable.get() == "caller"


def test_tokens_are_accounted_to_who_asked_and_to_who_started_the_asking() -> None:
    service = Squares()

    def job(count: int) -> int:
        before = current_account().tokens
        service.of(0)
        together([partial(service.of, number) for number in range(count)])
        return current_account().tokens - before

    assert together([partial(job, 0), partial(job, 5), partial(job, 2)]) == [1, 6, 3]
    before = current_account().tokens
    service.of(1)
    assert current_account().tokens == before + 1
    together([partial(service.of, number) for number in range(3)])
    assert current_account().tokens == before + 1 + 3


def test_seconds_of_the_service_are_shared_and_waiting_costs_nothing() -> None:
    service = Squares(seconds=0.06)

    def job(numbers: int, own: float) -> float:
        start = clock()
        time.sleep(own)
        together([partial(service.of, number) for number in range(numbers)])
        return clock() - start

    start = time.perf_counter()
    quiet, one, two, busy = together([partial(job, *how) for how in ((0, 0.0), (1, 0.0), (2, 0.0), (0, 0.1))])
    whole = time.perf_counter() - start
    assert quiet < 0.05
    assert 0.015 < one < 0.1
    assert one < two
    assert busy >= 0.1
    assert quiet + one + two + busy <= whole + 0.01


def test_a_service_may_use_jobs_of_its_own() -> None:
    class Delegating(Squares):
        def serve(self) -> Mapping[Account, int]:
            together([lambda: None])
            return super().serve()

    service = Delegating()

    def job(number: int) -> tuple[int, bool]:
        return service.of(number), active()

    assert together([partial(job, 1), partial(job, 2)]) == [(1, True), (4, True)]
    assert service.portions == [[1, 2]]
