"""The devices that JAX has for ranks, and processors divided into several."""

from __future__ import annotations

from typing import Any

from ...core.errors import GraphError, fail
from .api import jax


def divide_processor(count: int) -> None:
    """Have JAX make so many devices of the processor. Raises GraphError where it has begun with other ones."""
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        have = len(jax.local_devices(backend="cpu"))
        if have != count:
            fail(
                GraphError,
                f"{count} devices of the processor where JAX has begun with {have}",
                "Ask for them before anything runs on XLA; a process has one number of them.",
            )


def of_ranks(ranks: int, what: str) -> list[Any]:
    """Return a device for each of so many ranks. Raises GraphError where this process has fewer."""
    found = list(jax.local_devices())
    if len(found) < ranks:
        kind = found[0].platform
        here = (
            f"Before anything runs on XLA: wg.distribute.cpu_devices({ranks}), or JAX_NUM_CPU_DEVICES={ranks} in the "
            "environment"
            if kind == "cpu"
            else "Take a smaller mesh"
        )
        fail(
            GraphError,
            f"{what} on XLA: a rank is a device, and JAX has {len(found)} {kind} device{'s' * (len(found) != 1)} here",
            f"{here}; or a process for each rank: `wengert launch --engine xla -n {ranks}`.",
        )
    return found[:ranks]


def join_processes(job: tuple[str, int, int] | None, patience: float) -> tuple[list[Any], int]:
    """Join the processes of a job; return a device for each, in their order, and the number of this one.

    `job` is the address at which the first one listens, how many there are, and which one this is; None where the
    cluster tells JAX. A process that has not been heard of for `patience` seconds is taken for dead.
    """
    address, count, number = job if job is not None else (None, None, None)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    waits = max(1, round(2 * patience))  # a rank that waits for it has told so by then
    jax.distributed.initialize(address, count, number, heartbeat_timeout_seconds=waits, shutdown_timeout_seconds=waits)
    first: dict[int, Any] = {}
    for device in jax.devices():
        first.setdefault(device.process_index, device)
    return [first[i] for i in range(jax.process_count())], int(jax.process_index())
