"""Files that an interrupted compaction or deletion leaves in a partition's folder."""

from __future__ import annotations

from pathlib import Path

from kohort.broker.log import files
from kohort.broker.log.files import Files
from kohort.broker.log.replacement import CLEANED, DELETED, SWAP
from kohort.broker.log.segment import INDEXES, LOG, Segment
from kohort.broker.telemetry import Logger

log = Logger("kohort.log")

_UNFINISHED = (CLEANED, DELETED, ".tmp")


def clear(folder: Path, open_files: Files) -> None:
    """Finishes complete swaps and removes incomplete files, as Kafka does.

    Raises:
        StorageError: a file cannot be read, renamed or removed.
    """
    names = files.names_in(folder)
    swaps = [name for name in names if name.endswith(LOG + SWAP)]
    finished = {name.partition(".")[0] for name in swaps}
    for name in names:
        is_half = name.endswith(SWAP) and name.partition(".")[0] not in finished
        if is_half or name.endswith(_UNFINISHED):
            files.remove(folder / name)
    if swaps:
        # The new names may not be on the disk yet, and the replaced files are removed
        # next.
        files.sync_folder(folder)
    for name in swaps:
        _finish_swap(folder, int(name.partition(".")[0]), open_files)
    names = files.names_in(folder)
    logs = {name.partition(".")[0] for name in names if name.endswith(LOG)}
    for name in names:
        number, dot, kind = name.partition(".")
        if dot + kind in INDEXES and number not in logs:
            log.warning("index_without_segment", path=str(folder / name))
            files.remove(folder / name)


def _finish_swap(folder: Path, base_offset: int, open_files: Files) -> None:
    """Puts a finished segment in the place of those that it covers.

    Older segments behind its last offset may still exist. They stay: any record that
    deletes one of theirs is behind it, and still exists, too.
    """
    new = Segment(folder, base_offset, open_files, SWAP)
    new.size, _ = files.size_and_time(new.log.path)
    for header in new.headers(0):
        new.next_offset = header.last_offset + 1
    for name in files.names_in(folder):
        number, dot, kind = name.partition(".")
        if dot + kind == LOG and base_offset < int(number) < new.next_offset:
            Segment(folder, int(number), open_files).remove()
    new.close()
    files.sync_folder(folder)
    for kind in (*INDEXES, LOG):
        path = new.path(kind)
        if files.size_and_time(path)[0] >= 0:
            files.rename(path, path.with_name(path.name.removesuffix(SWAP)))
    files.sync_folder(folder)
    log.info("compaction_finished", folder=str(folder), offset=base_offset)
