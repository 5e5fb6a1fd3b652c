"""Compiled templates, kept as Python keeps compiled modules.

To compile them takes longer than to render a report.
"""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Final

from jinja2 import BytecodeCache

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.bccache import Bucket

_HERE: Final = Path(__file__).parent


class Compiled(BytecodeCache):
    """Files in ``__pycache__``, or where ``PYTHONPYCACHEPREFIX`` has them.

    Without a right to write there, or if Python writes no bytecode at all, templates
    are compiled each time. A template is compiled again if its text, Python's version
    or the settings have changed.

    Args:
        environment: compiles the templates.
        folder: ``__pycache__`` is in it.
    """

    def __init__(self, environment: Environment, folder: Path = _HERE) -> None:
        self._folder = folder
        settings = ("autoescape", "trim_blocks", "lstrip_blocks")
        self._settings = metadata.version("jinja2") + "".join(
            f" {name}={getattr(environment, name)}" for name in settings
        )

    def get_source_checksum(self, source: str) -> str:
        """Identifies the text of a template, and the settings."""
        return super().get_source_checksum(f"{self._settings}\0{source}")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Reads the code of a template, if a whole file of it is there."""
        with contextlib.suppress(OSError, EOFError, UnpicklingError):
            bucket.bytecode_from_string(self._file(bucket).read_bytes())

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Stores the code of a template; another process may do so, too."""
        if sys.dont_write_bytecode:
            return
        path = self._file(bucket)
        partial = path.with_name(f"{path.name}.{os.getpid()}.{uuid.uuid4().hex}")
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                partial.write_bytes(bucket.bytecode_to_string())
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)

    def _file(self, bucket: Bucket) -> Path:
        return Path(cache_from_source(str(self._folder / f"_{bucket.key}.py")))
