"""Programs that leave Python: functions as objects, headers, weights and manifests for other processors and places."""

from .exporting import Exported, export

__all__ = ["Exported", "export"]


def __dir__() -> list[str]:
    return sorted(__all__)
