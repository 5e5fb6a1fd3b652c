"""One run: lives of a broker, each on the disk that a power cut has left."""

from __future__ import annotations

import copy
import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.manual_clock import START
from tests.power import opening
from tests.power.disk import Disk, Kind, Sync, lay_out
from tests.power.model import Produce, Step, World
from tests.power.recorder import on_disk
from tests.power.story import Began, Ended, Life, follow

FLUSH = {"log.flush.interval.messages": 1}
STEPS = 60
"""Steps of one life."""
SHOWN = 5
CUTS = 30
"""Images of one life: all are checked, and one is the disk of the next life."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run.

    Attributes:
        seed: of all random choices.
        cuts: number of images to check.
        kind: of the file system.
        flushes_all: `log.flush.interval.messages=1`, or the default.
        folder: for directories; those with violations stay there.
        ignores_syncs: a disk that lies: for the test of this test.
    """

    seed: int
    cuts: int
    kind: Kind
    flushes_all: bool
    folder: Path
    ignores_syncs: bool = False


@dataclass(slots=True)
class Failure:
    """A directory with violations."""

    life: int
    cut: int
    step: str
    image: Path
    wrong: list[str]

    def __str__(self) -> str:
        """In words."""
        wrong = "; ".join(self.wrong[:SHOWN])
        return (
            f"life {self.life}, cut at {self.cut} in {self.step}: {wrong}: {self.image}"
        )


@dataclass(slots=True)
class Report:
    """Counts of a run."""

    lives: int = 0
    steps: int = 0
    calls: int = 0
    cuts: int = 0
    records: int = 0
    failures: list[Failure] = field(default_factory=list)


class Run:
    """Lives of a broker and the power cuts that end them.

    Args:
        settings: of the run.
        progress: called after each life.
    """

    def __init__(self, settings: Settings, progress: Callable[[Report], None]) -> None:
        self._settings = settings
        self._progress = progress
        self._config = FLUSH if settings.flushes_all else {}
        self.report = Report()

    def play(self) -> Report:
        """Plays the whole run."""
        settings, report = self._settings, self.report
        world, now = World(settings.flushes_all), START
        path = self._folder("live")
        path.mkdir(parents=True)
        while report.cuts < settings.cuts:
            report.lives += 1
            before = copy.deepcopy(world)
            life = Life(
                path, world, self._config, now, f"{settings.seed} {report.lives}"
            )
            following = None
            try:
                life.live(STEPS)
            except Exception as error:
                step = life.step.name
                wrong = f"{type(error).__name__}: {error}"
                report.failures.append(
                    Failure(report.lives, len(life.entries), step, path, [wrong])
                )
                report.cuts += 1
            else:
                left = min(CUTS, settings.cuts - report.cuts)
                following = self._cuts(life, before, path, left)
                shutil.rmtree(path)
            self._progress(report)
            now = life.now + 1
            if following is None:
                # The image cannot be used: a new broker begins.
                world = World(settings.flushes_all)
                path = self._folder("live")
                path.mkdir()
            else:
                world, path = following
        shutil.rmtree(path, ignore_errors=True)
        return report

    def _cuts(
        self, life: Life, world: World, path: Path, count: int
    ) -> tuple[World, Path] | None:
        """Checks images of one life; returns one of them, for the next life."""
        draw = random.Random(f"{self._settings.seed} cuts {self.report.lives}")
        began = next(i for i, e in enumerate(life.entries) if isinstance(e, Began))
        last = len(life.entries) - 1
        cuts = Counter(draw.randint(began, last) for _ in range(count))
        lived_on = draw.randint(began, last)
        is_lying = self._settings.ignores_syncs
        disk = Disk(self._settings.kind)
        step: Step | None = None
        following = None
        for number, entry in enumerate(life.entries):
            for _ in range(cuts[number]):
                then, image = copy.deepcopy(world), disk.cut(draw)
                is_right = self._look(life, number, step, then, image, draw)
                if is_right and number >= lived_on and following is None:
                    following = then, image
            if isinstance(entry, Began):
                step = entry.step
            elif isinstance(entry, Ended):
                self._count(entry.step)
                step = None
            else:
                self.report.calls += 1
                if not (is_lying and isinstance(entry, Sync) and number > began):
                    disk.do(entry)
            follow(entry, world)
        assert disk.whole() == on_disk(path), "the disk has unrecorded changes"
        if following is None:
            return None
        path = self._folder("live")
        lay_out(following[1], path)
        return following[0], path

    def _count(self, step: Step) -> None:
        self.report.steps += 1
        if isinstance(step, Produce):
            self.report.records += len(step.sent.records)

    def _look(
        self,
        life: Life,
        number: int,
        step: Step | None,
        world: World,
        image: Mapping[str, bytes | None],
        draw: random.Random,
    ) -> bool:
        """Opens an image; reports its violations, and keeps it if there are any."""
        report = self.report
        report.cuts += 1
        path = self._folder("opened")
        lay_out(image, path)
        wrong = opening.looked_at(path, world, step, self._config, life.now, draw)
        shutil.rmtree(path)
        if wrong:
            kept = self._folder("image")
            lay_out(image, kept)
            name = step.name if step else "nothing"
            report.failures.append(Failure(report.lives, number, name, kept, wrong))
        return not wrong

    def _folder(self, what: str) -> Path:
        return self._settings.folder / f"{what}-{self.report.lives}-{self.report.cuts}"
