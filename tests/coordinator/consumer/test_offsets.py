"""Offsets of consumer groups."""

from __future__ import annotations

from tests.coordinator.consumer.context import Scene
from tests.coordinator.driver import Pending
from tests.coordinator.requests import start_commit

from kohort.broker.coordinator.effects import FetchOffsetsResult
from kohort.broker.coordinator.events import FetchOffsets
from kohort.protocol.errors import ErrorCode

_WEEK_MS = 7 * 24 * 60 * 60 * 1_000


def fetch(scene: Scene, member_id: str | None, epoch: int) -> FetchOffsetsResult:
    """OffsetFetch of a member for partition 0 of "t"."""
    pending: Pending[FetchOffsetsResult] = Pending("fetch")
    event = FetchOffsets(pending, "g", [("t", [0])], False, member_id, epoch)
    return scene.ask(event, pending).result


def test_a_member_commits_and_fetches_with_its_epoch() -> None:
    """Other epochs are stale."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    assert a.commit("t", 5) == 0
    assert a.commit("t", 6, generation_id=a.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert a.commit("t", 6, member_id="m-X") == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(scene, a.member_id, a.epoch).topics == [("t", [(0, 5, -1, "", 0)])]
    assert fetch(scene, None, -1).topics == [("t", [(0, 5, -1, "", 0)])]
    stale = fetch(scene, a.member_id, a.epoch - 1)
    assert stale.error_code == ErrorCode.STALE_MEMBER_EPOCH
    unknown = fetch(scene, "m-X", a.epoch)
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_before_version_9_knows_no_epochs() -> None:
    """UNSUPPORTED_VERSION."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    assert a.commit("t", 5, is_old=True) == ErrorCode.UNSUPPORTED_VERSION


def test_an_older_epoch_is_valid_for_partitions_kept_since() -> None:
    """Each partition has the epoch at which it was assigned."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    old = a.epoch
    b = scene.consumer("B", "t")
    b.join()
    scene.settle(a, b)
    assert a.assigned == {"t": [0]}
    assert a.commit("t", 5, generation_id=old) == 0
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert a.commit("t", 5, generation_id=old, partition=1) == stale
    assert a.commit("t", 5, partition=1) == 0, "its own epoch is valid for all"
    b.leave()
    scene.settle(a)
    assert a.commit("t", 5, generation_id=old, partition=1) == stale
    assert a.commit("t", 5, generation_id=old) == 0


def test_an_offset_with_too_much_metadata_needs_no_valid_epoch() -> None:
    """It is refused by itself; the epoch is checked for the others."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    old, member_id, long = a.epoch - 1, a.member_id, "x" * 4_097
    rows: list[tuple[str, int, int, int, str | None]] = [("t", 0, 5, -1, long)]
    result = start_commit(scene, rows, generation_id=old, member_id=member_id).result
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert (result.error_code, result.codes) == (0, [too_large])
    rows.append(("t", 1, 5, -1, None))
    result = start_commit(scene, rows, generation_id=old, member_id=member_id).result
    assert result.error_code == ErrorCode.STALE_MEMBER_EPOCH


def test_partitions_that_a_member_gives_up_are_still_its_own() -> None:
    """It commits them before it has given them up."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    scene.consumer("B", "t").join()
    a.beat()
    assert a.commit("t", 5, partition=1) == 0


def test_a_transaction_has_a_generation() -> None:
    """A stale epoch is ILLEGAL_GENERATION there; old clients name no member."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")

    def commit(**over: object) -> int:
        fields = {"generation_id": a.epoch, "member_id": a.member_id}
        return scene.start_pending(7, ("t", 5), **(fields | over)).result.error_code  # type: ignore[arg-type]

    assert commit() == 0
    assert commit(generation_id=a.epoch + 1) == ErrorCode.ILLEGAL_GENERATION
    assert commit(member_id="m-X") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(generation_id=-1, member_id="") == 0
    scene.end_transaction(7)
    assert scene.committed("t") == 5


def test_offsets_of_subscribed_topics_stay() -> None:
    """Others expire since their commit, although the group has members."""
    scene = Scene(consumer_session_timeout_ms=2 * _WEEK_MS)
    scene.topic()
    a = scene.consumer("A", "t")
    a.join()
    a.commit("t", 5)
    a.commit("u", 5)
    assert scene.delete_offsets(("t", [0])).topics == [
        ("t", [(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)])
    ]
    scene.sleep(_WEEK_MS + 600_000)
    assert (scene.committed("t"), scene.committed("u")) == (5, -1)


def test_an_empty_group_takes_commits_of_simple_consumers() -> None:
    """Not those of former members. It goes with its last offset."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    a.leave()
    assert a.commit("t", 5) == ErrorCode.UNKNOWN_MEMBER_ID
    assert a.commit("t", 6, generation_id=-1, member_id="") == 0
    assert scene.committed("t") == 6
    scene.sleep(_WEEK_MS + 600_000)
    assert not scene.coordinator.groups


def test_a_group_with_members_cannot_be_deleted() -> None:
    """Without, it is deleted with its offsets; then it starts anew."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    a.commit("t", 5)
    assert scene.delete() == ErrorCode.NON_EMPTY_GROUP
    a.leave()
    assert scene.delete() == 0
    assert not scene.coordinator.groups
    assert scene.describe_consumers().error_message == "Group g not found."
    assert a.beat().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    a.join()
    assert (a.epoch, scene.committed("t")) == (2, -1)
