"""Lakes on Hadoop's file systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kohort.pipeline.lake import Lake, LakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_small_files_of_a_lake(spark: SparkSession, lake: Lake) -> None:
    """Written whole or not at all, on this machine, on a file system, and in a store.

    Hadoop serves a folder of this machine under the names of the other two.
    """
    conf = spark._jsc.hadoopConfiguration()
    fs = "org.apache.hadoop.fs"
    conf.set("fs.s3.impl", f"{fs}.viewfs.ViewFileSystemOverloadScheme")
    conf.set("fs.viewfs.overload.scheme.target.file.impl", f"{fs}.LocalFileSystem")
    for scheme in ("file", "viewfs", "s3"):
        where = Path(lake.path, scheme)
        where.mkdir(parents=True)
        conf.set(f"fs.viewfs.mounttable.{scheme}.link./lake", where.as_uri())
    paths = (f"file://{lake.path}/file", "viewfs://viewfs/lake", "s3://s3/lake")
    for each in (lake, *(Lake(spark, path) for path in paths)):
        assert (each.read_text("a/b.json"), each.names("a")) == (None, [])
        each.write_text("a/b.json", '{"x": 1}')
        each.write_text("a/b.json", '{"x": "\u00e9"}')
        assert each.read_json("a/b.json") == {"x": "\u00e9"}
        assert each.names("a") == ["b.json"]
        each.write_text("a/e.json", "[1]")
        with pytest.raises(LakeError, match=r"e\.json is no JSON object"):
            each.read_json("a/e.json")
        each.remove("a")
        each.remove("a")
        assert not each.exists("a")
        other = Lake(spark, each.path)
        with each.lock("x", "it") as must_hold:
            with (
                pytest.raises(LakeError, match="it: another process"),
                other.lock("x", "it"),
            ):
                pass
            must_hold()
            if not each.is_local:
                each.remove("locks/x")
                with pytest.raises(LakeError, match="another one has taken over"):
                    must_hold()
        with other.lock("x", "it"):
            pass
