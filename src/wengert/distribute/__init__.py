"""Programs on many ranks: meshes, collectives, placements, and the engines that run them.

>>> import wengert as wg
>>> job = wg.distribute.simulate(2)
>>> job.run(lambda: int(wg.distribute.axis_index("ranks")))
[0, 1]
"""

from .checkpoints import load_checkpoint, save_checkpoint
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
from .engines.job import launch, rank, run, size
from .engines.simulation import Simulation, simulate
from .mesh import Mesh
from .pipeline.program import Pipeline
from .placing.placement import PartitionSpec
from .placing.sharded import Sharded
from .predict import Cluster, Prediction, measure, predict
from .program import Program, partition, place, whole
from .sharding import shard
from .spmd import shard_map
from .suggest import Plan, Suggestion, suggest
from .training import jit

__all__ = [
    "Cluster",
    "Mesh",
    "PartitionSpec",
    "Pipeline",
    "Plan",
    "Prediction",
    "Program",
    "Sharded",
    "Simulation",
    "Suggestion",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "axis_index",
    "broadcast",
    "jit",
    "launch",
    "load_checkpoint",
    "measure",
    "own_part",
    "partition",
    "pcast",
    "permute",
    "place",
    "predict",
    "rank",
    "reduce_scatter",
    "run",
    "save_checkpoint",
    "shard",
    "shard_map",
    "simulate",
    "size",
    "suggest",
    "whole",
]


def __dir__() -> list[str]:
    return sorted(__all__)
