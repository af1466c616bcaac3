"""Programs on many ranks: meshes, collectives, placements, and the engines that run them.

>>> import wengert as wg
>>> job = wg.distribute.simulate(2)
>>> job.run(lambda: int(wg.distribute.axis_index("ranks")))
[0, 1]
"""

from .collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    axis_index,
    broadcast,
    own_part,
    pcast,
    permute,
    reduce_scatter,
)
from .mesh import Mesh
from .simulation import Simulation, simulate

__all__ = [
    "Mesh",
    "Simulation",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "axis_index",
    "broadcast",
    "own_part",
    "pcast",
    "permute",
    "reduce_scatter",
    "simulate",
]


def __dir__() -> list[str]:
    return sorted(__all__)
