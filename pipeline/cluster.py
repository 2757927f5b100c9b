"""Ray, and the pool of workers on it. What the workers do and in which order is decided elsewhere."""

from __future__ import annotations

import itertools
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

import workers
from workers.actor import Order, Outcome, Worker
from workers.errors import UserError
from workers.runtime import CPU_ENVIRONMENT

OBJECT_STORE_BYTES = 300_000_000  # results are small tables; Ray would take 30 % of the memory
MAX_FAILED_STARTS = 3
CONNECT_S = 10.0

Launch = Callable[[str, int], Any]  # (name, place in the pool) -> actor handle


@dataclass(frozen=True)
class Ended:
    """An order that came back from its worker."""

    worker: str
    order: Order
    outcome: Outcome
    facts: dict[str, Any]


@dataclass(frozen=True)
class Lost:
    """A worker that died, with the order it held, if any."""

    worker: str
    order: Order | None
    message: str


@dataclass
class Seat:
    """One place in the pool: a worker that is starting (no facts yet), idle or busy (an order)."""

    place: int
    name: str
    handle: Any
    reference: Any
    facts: dict[str, Any] | None = None
    order: Order | None = None
    target: str | None = None
    since: float = 0.0


class Pool:
    """Workers that are replaced when they die. `launch(name, place)` starts one."""

    def __init__(self, launch: Launch, size: int) -> None:
        self._launch = launch
        self._names = itertools.count()
        self._failed_starts = 0
        self.seats: list[Seat] = [self._new_seat(place) for place in range(size)]

    @property
    def idle(self) -> dict[str, str | None]:
        """Workers that can take an order -> the target they hold."""
        return {seat.name: seat.target for seat in self.seats if seat.facts is not None and seat.order is None}

    @property
    def busy(self) -> list[Seat]:
        return [seat for seat in self.seats if seat.order is not None]

    def give(self, worker: str, order: Order, target: str | None) -> None:
        """Starts an order on an idle worker; the task carries the node's label in Ray's dashboard."""
        [seat] = [seat for seat in self.seats if seat.name == worker]
        seat.reference = seat.handle.run.options(name=order.label).remote(order)
        seat.order = order
        seat.target = target or seat.target
        seat.since = time.monotonic()

    def wait(self, timeout: float) -> list[Ended | Lost]:
        """What happened within `timeout` seconds, at the latest then. UserError if workers cannot be started at all."""
        references = {seat.reference: seat for seat in self.seats if seat.reference is not None}
        if not references:
            time.sleep(timeout)
            return []
        ready, _ = ray.wait(list(references), num_returns=1, timeout=timeout)
        if ready:
            ready, _ = ray.wait(list(references), num_returns=len(references), timeout=0)
        events = (self._settle(references[reference]) for reference in ready)
        return [event for event in events if event is not None]

    def stop(self) -> None:
        for seat in self.seats:
            ray.kill(seat.handle)

    def _settle(self, seat: Seat) -> Ended | Lost | None:
        order = seat.order
        try:
            value = ray.get(seat.reference)
        except RayActorError as error:
            return self._replace(seat, f"{seat.name} died: {_first_line(error)}")
        except RayError as error:  # the result could not be brought here; the worker's state is unknown
            ray.kill(seat.handle)
            return self._replace(seat, f"{seat.name} was given up: {_first_line(error)}")
        seat.reference = seat.order = None
        if order is None:
            seat.facts = value
            self._failed_starts = 0
            return None
        return Ended(seat.name, order, value, seat.facts or {})

    def _replace(self, seat: Seat, message: str) -> Lost:
        if seat.facts is None:
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise UserError(f"no worker can be started: {message}; `python -m pipeline doctor` checks the machine")
        self.seats[self.seats.index(seat)] = self._new_seat(seat.place)
        return Lost(seat.name, seat.order, message)

    def _new_seat(self, place: int) -> Seat:
        name = f"worker-{next(self._names)}"
        handle = self._launch(name, place)
        return Seat(place, name, handle, handle.describe.options(name=f"start/{name}").remote())


@contextmanager
def running_ray(address: str | None, slots: int | None, threads: int, dashboard: bool) -> Iterator[str | None]:
    """Ray for the time of a submit, yields the dashboard's URL: the cluster at `address`, else one on this machine.

    `slots` is the number of workers asked for, None for as many as fit; on this machine there is always room for them.
    """
    if ray.is_initialized():  # a notebook that has its own connection
        yield None
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's default of 15 lets every other process of the machine push a measurement aside.
    os.environ.setdefault("RAY_worker_niceness", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address:
        _check_reachable(address)
        code = {"py_modules": [str(Path(workers.__file__).parent)]}  # its machines need not have this version
        context = _init(address=address, runtime_env=code, **options)
    else:
        options["num_cpus"] = max(len(os.sched_getaffinity(0)), (slots or 1) * threads)
        context = _init_local(options, dashboard)
    try:
        url = context.dashboard_url
        yield f"http://{url}" if url else None
    finally:
        ray.shutdown()


def pool_size(slots: int | str, threads: int) -> int:
    """Workers to start: as asked, else one per GPU of the cluster, else one per `threads` cores."""
    if slots != "auto":
        return int(slots)
    resources = ray.cluster_resources()
    return int(resources.get("GPU", 0)) or max(int(resources.get("CPU", 1)) // threads, 1)


def launcher(worker_class: type[Worker], threads: int, size: int, address: str | None) -> Launch:
    """Starts workers, each alone on its GPU or, where the machine has cores to spare, on cores of its own.

    Where the workers fill the machine they are left to the system: Ray and the driver need a little of some core, and a
    worker that may move does not wait for it.
    """
    gpus = ray.cluster_resources().get("GPU", 0)
    cores = sorted(os.sched_getaffinity(0))
    pin = not address and not gpus and size * threads < len(cores)
    options: dict[str, Any] = {"num_gpus": 1, "num_cpus": 1} if gpus else {"num_cpus": threads}
    variables = CPU_ENVIRONMENT | {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    options["runtime_env"] = {"env_vars": variables}
    remote_class = ray.remote(worker_class)

    def launch(name: str, place: int) -> Any:
        own = cores[place * threads : (place + 1) * threads] if pin else None
        return remote_class.options(name=f"drafthouse-{name}", **options).remote(name, threads, own)

    return launch


def _init_local(options: dict[str, Any], dashboard: bool) -> Any:
    options = options | {"address": "local", "object_store_memory": OBJECT_STORE_BYTES}
    if dashboard:
        try:
            return ray.init(include_dashboard=True, **options)
        except (ImportError, RuntimeError, OSError) as error:  # a submit is worth more than its dashboard
            logging.getLogger("drafthouse").warning("no dashboard: %s", _first_line(error))
            ray.shutdown()
    return _init(include_dashboard=False, **options)


def _check_reachable(address: str) -> None:
    """UserError if nothing listens at host:port; Ray itself would try for ten minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():  # "auto" and the like
        return
    if host in ("localhost", "127.0.0.1"):  # where Ray itself looks then
        host = ray.util.get_node_ip_address()
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except OSError as error:
        raise UserError(f"no Ray cluster answers at {address}: {error.strerror or error}") from None


def _init(**options: Any) -> Any:
    try:
        return ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        place = options["address"]
        raise UserError(f"Ray cannot be reached or started ({place}): {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
