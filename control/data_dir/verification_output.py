"""Output of ``kohort verify``: as text, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kohort.broker.log.examination import Finding
from kohort.control.data_dir.verification import PartitionReport, Verification
from kohort.control.terminal import counted


def write_verification(found: Verification, *, as_json: bool, out: IO[str]) -> None:
    """Prints the findings.

    Args:
        found: see `verify`.
        as_json: print one JSON document instead of text.
        out: where to print.
    """
    if as_json:
        json.dump(_document(found), out, ensure_ascii=False, indent=1)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for line in _lines(found))


# -- as JSON


def _document(found: Verification) -> dict[str, object]:
    return {
        "path": str(found.path),
        "kind": found.kind,
        "clean_stop": found.is_clean,
        "damaged": found.is_damaged,
        "start": "refused" if found.is_refused else "possible",
        "refusals": found.refusals,
        "findings": [_finding(each, found.path) for each in found.findings],
        "partitions": [_partition(each, found.path) for each in found.partitions],
    }


def _partition(report: PartitionReport, path: Path) -> dict[str, object]:
    return {
        "name": report.name,
        "segments": report.segments,
        "bytes": report.size,
        "log_start_offset": report.log_start,
        "log_end_offset": report.log_end,
        "records": report.records,
        "findings": [_finding(each, path) for each in report.findings],
        "start": "refused" if report.is_refused else "possible",
        "start_does": list(report.start),
    }


def _finding(found: Finding, path: Path) -> dict[str, object]:
    return {
        "file": _relative(found.path, path),
        "what": found.what,
        "damage": found.is_damage,
        "offset": found.offset,
        "next_whole_offset": found.next_offset,
    }


def _relative(path: Path, of: Path) -> str:
    return str(path.relative_to(of)) if path.is_relative_to(of) else str(path)


# -- as text


def _lines(found: Verification) -> Iterator[str]:
    reports = found.partitions
    size = sum(each.size for each in reports) / 1_000_000
    verdict = "damaged" if found.is_damaged else "sound"
    yield (
        f"{found.path}: {counted(len(reports), 'partition')}, "
        f"{counted(sum(each.segments for each in reports), 'segment')}, "
        f"{counted(sum(each.records for each in reports), 'whole record')} in "
        f"{size:.1f} MB: {verdict}"
    )
    yield from (_finding_line(each, found.path) for each in found.findings)
    for report in reports:
        if report.findings or report.is_refused:
            yield from _partition_lines(report, found.path)
    if found.kind == "kohort":
        stop = "stopped cleanly" if found.is_clean else "did not stop cleanly"
        can = "is refused" if found.is_refused else "is possible"
        yield f"the last run {stop}; a start {can}"
        yield from (f"  refused: {why}" for why in found.refusals)


def _partition_lines(report: PartitionReport, path: Path) -> Iterator[str]:
    yield (
        f"{report.name}: offsets {report.log_start} to {report.log_end}, "
        f"{counted(report.records, 'whole record')} in "
        f"{counted(report.segments, 'segment')}"
    )
    yield from (_finding_line(each, path) for each in report.findings)
    if report.is_refused:
        yield f"  a start is refused: {report.start[0]}"
    else:
        yield from (f"  a start {line}" for line in report.start)


def _finding_line(found: Finding, path: Path) -> str:
    kind = "damaged" if found.is_damage else "note"
    line = f"  {kind}: {_relative(found.path, path)}: {found.what}"
    if found.offset is None:
        return line
    if found.next_offset is None:
        return f"{line}; no whole record from offset {found.offset} on"
    last = found.next_offset - 1
    if last <= found.offset:
        return f"{line}; offset {found.offset} is lost"
    return f"{line}; offsets {found.offset} to {last} are lost"
