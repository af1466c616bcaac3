"""The sampler of one among several processes that share a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sized

from ....core.errors import ShapeError, fail
from ...absent import names_of
from . import chance
from .sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index, from `rank` on, of an order that all the processes agree on.

    Parameters
    ----------
    dataset: what is shared; its length is asked.
    num_replicas, rank: the number of processes, and that of this one. There is no process group to ask: both are given.
    shuffle: in an order by chance, which `seed` and the epoch decide.
    seed: the same in all processes.
    drop_last: leave out samples that do not fill a round; else the first ones come once more.

    Call :meth:`set_epoch` before each epoch: otherwise every epoch has the same order.

    Raises RuntimeError without `num_replicas` and `rank`, ShapeError for a rank out of range.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError(
                "DistributedSampler needs num_replicas and rank: there is no process group that it could ask"
            )
        if not 0 <= rank < num_replicas:
            fail(ShapeError, f"rank {rank} of {num_replicas} processes", f"It goes from 0 to {num_replicas - 1}.")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else -(-count // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = chance.permutation(count, chance.seeded(self.seed + self.epoch)) if self.shuffle else list(range(count))
        if count:
            order *= -(-self.total_size // count)
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Have the next pass in the order of this epoch."""
        self.epoch = epoch


__getattr__ = names_of(__name__)
