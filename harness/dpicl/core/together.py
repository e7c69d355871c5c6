"""Runs jobs concurrently in one thread, so that their requests can be served in batches.

A job runs until it waits: for a service (`wait_for`, such as a language model that reads the rows of many jobs in one
pass), for what another thread does (`result_of`), or for other jobs (`run_together`). Only then another job goes on. So
no two jobs ever run Python code at the same moment, and no lock is needed for what they share. Which job goes on first
must not matter to what a job computes.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import greenlet

T = TypeVar("T")


@dataclass(eq=False)
class ServiceRequest:
    """What a job waits for at a service. done: it has been served, or has failed with ``error``."""

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
    def serve(self) -> None:
        """Does one portion of what was requested, for as many requests as fit. A request that fails is done, with its
        error."""


class _Job(Generic[T]):
    """One job. ready: whether it may go on."""

    def __init__(self, call: Callable[[], T], scheduler: _Scheduler) -> None:
        self.call = call
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
    """Runs jobs, one at a time. services, futures: those that somebody waits for."""

    def __init__(self) -> None:
        self.thread = greenlet.getcurrent()
        self.jobs: list[_Job[Any]] = []
        self.services: list[Service] = []
        self.futures: set[Future[Any]] = set()
        self.running: _Job[Any] | None = None

    def run(self, over: Callable[[], bool]) -> None:
        """Runs jobs until it is ``over()``."""
        while not over():
            ready = [job for job in self.jobs if job.ready()]
            for job in ready:
                if not job.ended:
                    job.started, self.running = True, job
                    try:
                        job.thread.switch()
                    finally:
                        self.running = None
                if job.error is not None:
                    break  # first of all, it ends those who are with it
            self.jobs = [job for job in self.jobs if not job.ended]
            if not ready:
                self._serve()

    def _serve(self) -> None:
        """One portion of the service that was asked first; without one, until another thread has done something."""
        self.services = [service for service in self.services if service.pending]
        if self.services:
            self.services[0].serve()
        elif self.futures:
            wait(self.futures, return_when=FIRST_COMPLETED)
        else:
            raise RuntimeError("All jobs wait for each other.")

    def pause(self, job: _Job[Any], ready: Callable[[], bool]) -> None:
        """Lets others go on until ``ready()``; called by the job that runs."""
        while not ready():
            if job.cancelled:
                raise KeyboardInterrupt
            job.ready = ready
            self.thread.switch()
        job.ready = lambda: True


class _Local(threading.local):
    """The scheduler of this thread, None where no jobs run."""

    scheduler: _Scheduler | None = None


_local = _Local()


def _find_running() -> tuple[_Scheduler, _Job[Any]] | None:
    scheduler = _local.scheduler
    return (
        None if scheduler is None or scheduler.running is None else (scheduler, scheduler.running)
    )


def is_job() -> bool:
    """Whether this is called by a job."""
    return _find_running() is not None


def run_together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What the calls return, in their order, run at the same time.

    The first error ends the others where they wait, and is raised. Each call has a copy of the caller's context
    variables.
    """
    running, outer = _find_running(), _local.scheduler
    scheduler, parent = running or (_Scheduler(), None)
    jobs = [_Job(call, scheduler) for call in calls]
    scheduler.jobs += jobs

    def is_over() -> bool:
        return any(job.error is not None for job in jobs) or all(job.ended for job in jobs)

    try:
        if parent is not None:
            scheduler.pause(parent, is_over)
        else:
            _local.scheduler = scheduler
            scheduler.run(is_over)
        for job in jobs:
            if job.error is not None:
                raise job.error
    finally:
        for job in jobs:
            job.cancel()
        if parent is None:
            _local.scheduler = outer
    return [job.result for job in jobs]


def wait_for(service: Service, request: ServiceRequest) -> None:
    """Returns when the service has done the request. Raises its error. A request that nobody waits for any longer is
    done."""
    service.submit(request)
    running = _find_running()
    try:
        if running:
            scheduler, job = running
            if service not in scheduler.services:
                scheduler.services.append(service)
            scheduler.pause(job, lambda: request.done)
        while not request.done:
            service.serve()
    finally:
        request.done = True
    if request.error is not None:
        raise request.error


def result_of(future: Future[T]) -> T:
    """What a future gives, which another thread works on. One that nobody waits for any longer is cancelled."""
    running = _find_running()
    try:
        if running:
            scheduler, job = running
            scheduler.futures.add(future)
            scheduler.pause(job, future.done)
        return future.result()
    finally:
        future.cancel()
        if running:
            scheduler.futures.discard(future)


def take_turns() -> None:
    """Lets every other job go on once, where this is called by a job."""
    if running := _find_running():
        scheduler, job = running
        answers = iter((False, True))
        scheduler.pause(job, lambda: next(answers, True))
