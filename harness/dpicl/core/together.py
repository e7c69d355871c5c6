"""Jobs that run at the same time in one thread, so that what they wait for can be done for all of them at once.

A job runs until it waits: for a service (`wait_for`, such as a language model that reads the rows of many jobs in one
pass), for other jobs (`together`), or for a condition (`wait_until`). Only then another job goes on. So no two jobs
ever run Python code at the same moment, and no lock is needed for what they share. Which job goes on first depends on
nothing but the jobs themselves; what a job computes must not depend on it.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import greenlet

T = TypeVar("T")


@dataclass(eq=False)
class Account:
    """What a job and the jobs that it started have used: seconds of computing, and tokens that a model read."""

    seconds: float = 0.0
    tokens: int = 0


@dataclass(eq=False)
class ServiceRequest:
    """What a job waits for at a service. done: it has been served, or has failed with ``error``."""

    account: Account = field(default_factory=lambda: current_account())
    done: bool = False
    error: Exception | None = None


class Service(ABC):
    """What several jobs may wait for at the same time."""

    @property
    @abstractmethod
    def pending(self) -> bool:
        """Whether a request is left."""

    @abstractmethod
    def submit(self, request: Any) -> None:
        """Takes a request; nothing is done yet."""

    @abstractmethod
    def serve(self) -> Mapping[Account, int]:
        """Does one portion of what was requested, for as many requests as fit. Returns how many tokens were read for
        whom. A request that fails is done, with its error."""


class _Job(Generic[T]):
    """One job. ready: whether it may go on."""

    def __init__(self, call: Callable[[], T], parent: _Job[Any] | None, scheduler: _Scheduler) -> None:
        self.call = call
        self.account: Account = parent.account if parent else Account()
        self.ready: Callable[[], bool] = lambda: True
        self.result: T
        self.error: BaseException | None = None
        self.started = self.ended = self.cancelled = False
        self.thread = greenlet.greenlet(self._run, scheduler.thread)
        self.thread.gr_context = copy_context()

    def _run(self) -> None:
        try:
            self.result = self.call()
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True

    def cancel(self) -> None:
        """Ends it where it waits, so that it closes what it has open."""
        self.cancelled = True
        if self.started and not self.ended:
            self.thread.parent = greenlet.getcurrent()
            self.thread.throw(KeyboardInterrupt())  # what nobody takes for a failure of the job
        self.ended = True


class _Scheduler:
    """Runs jobs, one at a time, until all have ended. services: those that somebody waits for."""

    def __init__(self) -> None:
        self.thread = greenlet.getcurrent()
        self.jobs: list[_Job[Any]] = []
        self.services: list[Service] = []
        self.running: _Job[Any] | None = None
        self.since = 0.0

    def run(self, unfinished: Callable[[], bool]) -> None:
        """Runs jobs as long as some are ``unfinished()``."""
        while unfinished():
            ready = [job for job in self.jobs if job.ready()]
            for job in ready:
                if not job.ended:
                    self._go_on(job)
                if job.error is not None:
                    break  # first of all, it ends those who are with it
            self.jobs = [job for job in self.jobs if not job.ended]
            if not ready:
                self._serve()

    def _go_on(self, job: _Job[Any]) -> None:
        job.started = True
        self.running, self.since = job, time.perf_counter()
        try:
            job.thread.switch()
        finally:
            self.running = None
            job.account.seconds += time.perf_counter() - self.since

    def _serve(self) -> None:
        """One portion of the service that was asked first."""
        self.services = [service for service in self.services if service.pending]
        if not self.services:
            raise RuntimeError("All jobs wait for each other.")
        start, read = time.perf_counter(), self.services[0].serve()
        seconds, total = time.perf_counter() - start, sum(read.values())
        for account, tokens in read.items():
            account.seconds += seconds * tokens / max(1, total)
            account.tokens += tokens

    def pause(self, job: _Job[Any], ready: Callable[[], bool]) -> None:
        """Lets others go on until ``ready()``; called by the job that runs."""
        while not ready():
            if job.cancelled:
                raise KeyboardInterrupt
            job.ready = ready
            self.thread.switch()
        job.ready = lambda: True


class _Local(threading.local):
    """The scheduler of this thread, None where no jobs run, and what was used outside of jobs."""

    scheduler: _Scheduler | None = None

    def __init__(self) -> None:
        self.account = Account()


_local = _Local()


def _running() -> tuple[_Scheduler, _Job[Any]] | None:
    scheduler = _local.scheduler
    return None if scheduler is None or scheduler.running is None else (scheduler, scheduler.running)


def active() -> bool:
    """Whether this is called by a job."""
    return _running() is not None


def current_account() -> Account:
    """What the job that runs has used so far; outside of jobs, what this thread has."""
    running = _running()
    return running[1].account if running else _local.account


def clock() -> float:
    """Seconds of computing of the job that runs, with its share of what was served; outside of jobs, of the clock."""
    running, now = _running(), time.perf_counter()
    return running[1].account.seconds + now - running[0].since if running else now


def together(calls: Sequence[Callable[[], T]], most: int | None = None) -> list[T]:
    """What the calls return, in their order, run at the same time: at most ``most`` of them (None: all).

    The first error ends the others where they wait, and is raised. Each call has a copy of the caller's context
    variables.
    """
    running, outer = _running(), _local.scheduler
    scheduler, parent = running or (_Scheduler(), None)
    jobs = [_Job(call, parent, scheduler) for call in calls]
    waiting, going = deque(jobs), list[_Job[T]]()

    def unfinished() -> bool:
        """Starts what may start; whether some job goes on. Raises the error of one."""
        for job in going:
            if job.error is not None:
                raise job.error
        going[:] = [job for job in going if not job.ended]
        while waiting and len(going) < (most or len(jobs)):
            going.append(waiting.popleft())
            scheduler.jobs.append(going[-1])
        return bool(going)

    try:
        if parent is not None:
            while unfinished():
                scheduler.pause(parent, lambda: any(job.ended for job in going))
        else:
            _local.scheduler = scheduler
            scheduler.run(unfinished)
    finally:
        for job in jobs:
            job.cancel()
        if parent is None:
            _local.scheduler = outer
            for job in jobs:
                _local.account.seconds += job.account.seconds
                _local.account.tokens += job.account.tokens
    return [job.result for job in jobs]


def wait_for(service: Service, request: ServiceRequest) -> None:
    """Returns when the service has done the request. Raises its error. A request that nobody waits for any longer is
    done."""
    service.submit(request)
    running = _running()
    try:
        if running:
            scheduler, job = running
            if service not in scheduler.services:
                scheduler.services.append(service)
            scheduler.pause(job, lambda: request.done)
        while not request.done:
            for each, tokens in service.serve().items():
                each.tokens += tokens
    finally:
        request.done = True
    if request.error is not None:
        raise request.error


def wait_until(condition: Callable[[], bool]) -> None:
    """Lets other jobs go on until the condition holds. Raises RuntimeError outside of jobs where it does not."""
    running = _running()
    if running:
        scheduler, job = running
        scheduler.pause(job, condition)
    elif not condition():
        raise RuntimeError("Nobody else is at work who could make the condition true.")


class Exclusive:
    """What only one job at a time may do, such as calling a library that keeps its state in global variables."""

    def __init__(self) -> None:
        self._taken = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Waits until nobody holds it."""
        wait_until(lambda: not self._taken)
        self._taken = True
        try:
            yield
        finally:
            self._taken = False
