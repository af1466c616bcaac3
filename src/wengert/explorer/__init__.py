"""The explorer: runs recorded as documents, and the pages that show them.

`wg.explore` is the front door. The package is named after the tool, so that the function can have the verb.
"""

from .api import Exploration, explore
from .document.document import Document, document
from .recording.recording import Recording
from .recording.script import record_script

__all__ = ["Document", "Exploration", "Recording", "document", "explore", "record_script"]
