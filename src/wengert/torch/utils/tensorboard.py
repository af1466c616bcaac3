"""`torch.utils.tensorboard`: PyTorch's constructor over :class:`wengert.interop.tensorboard.SummaryWriter`."""

from __future__ import annotations

import datetime
import os
import socket
from typing import Any

from ...interop.tensorboard import SummaryWriter as PlainWriter
from ..absent import names_of

__all__ = ["SummaryWriter"]


class SummaryWriter(PlainWriter):
    """A writer of event files for TensorBoard, see :class:`wengert.interop.tensorboard.SummaryWriter`.

    Parameters
    ----------
    log_dir: the folder; by default `runs/` with the time and the name of the computer, and `comment` after it.
    comment: the end of the default folder's name.
    purge_step, max_queue, flush_secs, filename_suffix: taken.

    Raises GraphError where the package `tensorboard` is not installed.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        super().__init__(log_dir)

    def get_logdir(self) -> str:
        """Return the folder of the event files."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Add a point of the curve `tag`. Raises ShapeError, DTypeError for anything but one real number."""
        super().add_scalar(tag, scalar_value, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: int | str = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add the distribution of a tensor's elements, in intervals of equal width. Raises DTypeError."""
        count = {"bins": bins} if isinstance(bins, int) else {}
        super().add_histogram(tag, values, global_step, walltime=walltime, **count)

    def add_hparams(
        self,
        hparam_dict: Any,
        metric_dict: Any,
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Add hyperparameters and the final values of metrics, which TensorBoard compares over runs."""
        super().add_hparams(hparam_dict, metric_dict)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Add the graph that a model computes for an input, or a tuple of them."""
        inputs = input_to_model if isinstance(input_to_model, (tuple, list)) else (input_to_model,)
        super().add_graph(model, *inputs)


__getattr__ = names_of(__name__)
