"""The explorer: runs recorded as documents, and the pages that show them.

`wg.explore` is the front door. The package is named after the tool, so that the function can have the verb.
"""

from .api import Exploration, explore, open_file
from .document.document import Document, document
from .recording.recording import Recording
from .recording.script import record_script
from .watch import watch

# `wg.explore` is the function: what belongs to it is found there.
explore.watch = watch  # type: ignore[attr-defined]

__all__ = ["Document", "Exploration", "Recording", "document", "explore", "open_file", "record_script", "watch"]
