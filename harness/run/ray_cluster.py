"""A Ray cluster: connecting to it in bounded time, and how many workers its nodes hold."""

from __future__ import annotations

import logging
import os
import queue
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from dpicl.harness.core.errors import UsageError, told
from dpicl.harness.core.interrupts import undisturbed
from dpicl.harness.core.messages import count

#: Cores of a worker where nothing else is asked for.
_CPUS = 2
#: A cluster that has not answered by then is said not to.
_ANSWER_SECONDS = 9.0
_ADVICE = "check --address and RAY_ADDRESS, or give --address local for a cluster of this machine alone"


@dataclass(frozen=True)
class NodeResources:
    """A live node. name: for messages. cpus, gpus: in all, whoever uses them."""

    id: str
    name: str
    cpus: int
    gpus: int


@dataclass(frozen=True)
class Seat:
    """The place of one worker: its node, and its share of it."""

    node: NodeResources
    cpus: int
    gpus: int


def live_nodes(ray: Any) -> list[NodeResources]:
    """The nodes of the cluster that are alive and have processors."""
    found = []
    for node in ray.nodes():
        resources: Mapping[str, float] = node["Resources"]
        if node["Alive"] and resources.get("CPU", 0) >= 1:
            name = str(node.get("NodeName") or node["NodeManagerAddress"])
            found.append(NodeResources(node["NodeID"], name, int(resources["CPU"]), int(resources.get("GPU", 0))))
    return found


def seats(nodes: Iterable[NodeResources], workers: int | None, cpus: int | None, gpus: int | None) -> list[Seat]:
    """The places of all workers, spread over the nodes; each divides its node's cores with those beside it.

    workers: None means as many as there are GPUs, or one for `_CPUS` cores. cpus, gpus: of each worker; gpus None: one
    where any node has one. Raises UsageError where no node holds a worker, or all of them together hold fewer.
    """
    nodes = list(nodes)
    gpus = int(any(node.gpus for node in nodes)) if gpus is None else gpus
    most = {node.id: _holds(node, cpus or 1, gpus) for node in nodes}
    asked = count(cpus or 1, "CPU") + (f" and {count(gpus, 'GPU')}" if gpus else "")
    if not any(most.values()):
        largest = max(nodes, key=lambda node: (min(node.gpus, gpus), node.cpus), default=None)
        has = (
            f"the largest has {count(largest.cpus, 'CPU')} and {count(largest.gpus, 'GPU')}"
            if largest
            else "it has none"
        )
        raise UsageError(f"No node of the Ray cluster holds a worker of {asked}: {has}; change --cpus or --gpus.")
    if workers is None:
        return seats_of(nodes, cpus, gpus)
    if workers > sum(most.values()):
        raise UsageError(
            f"The Ray cluster holds {count(sum(most.values()), 'worker')} of {asked}, not {workers}; give fewer"
            " --workers, or leave the flag out."
        )
    chosen = dict.fromkeys(most, 0)
    for _ in range(workers):
        free = [node for node in nodes if chosen[node.id] < most[node.id]]
        chosen[max(free, key=lambda node: node.cpus / (1 + chosen[node.id])).id] += 1
    return [seat for node in nodes for seat in _divided(node, chosen[node.id], cpus, gpus)]


def seats_of(nodes: Iterable[NodeResources], cpus: int | None, gpus: int) -> list[Seat]:
    """As many places as the nodes hold, each of ``cpus`` cores, or of two where nothing is asked for."""
    found = []
    for node in nodes:
        most = _holds(node, cpus or 1, gpus)
        usual = most if cpus or gpus else max(1, node.cpus // _CPUS)
        found += _divided(node, min(most, usual), cpus, gpus)
    return found


def placed(ray: Any, worker: type, seat: Seat) -> Any:
    """A new actor in its seat. Ray never starts it again by itself."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    where = NodeAffinitySchedulingStrategy(node_id=seat.node.id, soft=False)
    options = {"num_cpus": seat.cpus, "num_gpus": seat.gpus, "max_restarts": 0, "scheduling_strategy": where}
    return ray.remote(**options)(worker).remote()


def _divided(node: NodeResources, workers: int, cpus: int | None, gpus: int) -> list[Seat]:
    return [Seat(node, cpus or node.cpus // workers, gpus) for _ in range(workers)]


def _holds(node: NodeResources, cpus: int, gpus: int) -> int:
    """How many workers of that size a node holds."""
    return min(node.cpus // cpus, node.gpus // gpus) if gpus else node.cpus // cpus


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster: that of an address, of RAY_ADDRESS, one that runs on this machine, or else one that
    is started here. One that the program is connected to stays connected.

    Raises UsageError, within `_ANSWER_SECONDS`, where the cluster does not answer or refuses us.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    found = _address(address)
    if found is not None:
        _require_answer(found)
    how: dict[str, Any] = {"address": "local", "include_dashboard": False} if found is None else {"address": found}
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **how)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise UsageError(f"Ray cannot be used: {told(error, 500)}") from error
    try:
        with redirect_stdout(sys.stderr):  # what Ray says of its nodes is not the answer of a command
            yield ray
    finally:
        with undisturbed():
            ray.shutdown()


def import_ray() -> Any:
    """Raises UsageError where Ray is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    try:
        import ray
    except ModuleNotFoundError:
        raise UsageError("Ray is not installed; run `pip install 'dpicl-bench[ray]'` or use --engine local.") from None
    return ray


def _address(given: str | None) -> str | None:
    """HOST:PORT of a cluster's head; None for one that is to be started here. Raises UsageError for what is neither."""
    from ray._private import services

    said = (os.environ.get("RAY_ADDRESS") or None) if given is None else given
    try:
        if said == "":  # of a variable that is not set: no reason to run here
            raise ValueError("it is empty")
        if said is not None and "://" in said:
            raise ValueError("it names a protocol")
        found: str | None = services.canonicalize_bootstrap_address(said)  # type: ignore[arg-type]
        if found is not None:
            host, _, port = found.rpartition(":")
            if not host or not 0 < int(port) < 2**16:
                raise ValueError("it has no port")
    except (ValueError, OSError) as error:
        raise UsageError(
            f"'{said}' is no address of a Ray cluster ({told(error, 100)}); give HOST:PORT of its head, as `ray start"
            " --head` prints it (usually port 6379), and run on one of its nodes."
        ) from None
    return found


def _require_answer(address: str) -> None:
    """Raises UsageError unless a cluster answers there, lets us in, and has this machine among its nodes."""
    host, _, port = address.rpartition(":")
    failure = f"No Ray cluster answers at {address}"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS / 2).close()
    except OSError as error:
        raise UsageError(f"{failure} ({error.strerror or told(error)}); {_ADVICE}.") from None
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    # What asks cannot be interrupted, and takes a minute where somebody else answers.
    threading.Thread(target=lambda: answers.put(_asked(address)), daemon=True).start()
    try:
        problem = answers.get(timeout=_ANSWER_SECONDS / 2)
    except queue.Empty:
        raise UsageError(f"{failure}: something else does, or it hangs; {_ADVICE}.") from None
    if problem:
        raise UsageError(f"{failure} as it should: {problem}")


def _asked(address: str) -> str:
    """What is wrong with a cluster, "" where nothing is."""
    from ray._private import services
    from ray._private.authentication import authentication_token_setup as tokens
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.exceptions import AuthenticationError

    try:
        tokens.ensure_token_if_auth_enabled(create_token_if_missing=False)
        try:
            client = GcsClient(address=address)
        except AuthenticationError:
            if not tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False):
                raise
            client = GcsClient(address=address)  # with the token that lies here
        alive = {node.hex() for node in client.get_all_node_info(timeout=_ANSWER_SECONDS / 3)}
    except AuthenticationError:
        return "it wants its token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH."
    except Exception as error:
        return f"{type(error).__name__}: {told(error, 300)}; {_ADVICE}."
    if not alive & set(services.find_node_ids()):
        return f"this machine is none of its nodes; run on one of them, or `ray start --address={address}` here first."
    return ""
