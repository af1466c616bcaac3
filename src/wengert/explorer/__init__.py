"""The explorer: runs recorded as documents, and the pages that show them.

`wg.explore` is the front door. The package is named after the tool, so that the function can have the verb.
"""
