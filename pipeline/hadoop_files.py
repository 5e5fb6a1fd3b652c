"""Hadoop's file systems, for lakes on ``hdfs://``, ``s3a://`` and the like.

PySpark has no public calls for them: this module calls Hadoop's classes in Spark's Java
process, so it does not work over Spark Connect.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from kohort.pipeline.files import PARQUET, File, Footers, scheme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OBJECT_STORES: Final = frozenset({"s3a", "s3", "gs", "abfs", "abfss", "wasb", "wasbs"})
"""Stores where a rename copies, and a file appears as a whole when it is closed."""
_MISSING: Final = "java.io.FileNotFoundException"


class HadoopFiles:
    """Hadoop's file systems, as Spark's own files: ``hdfs://``, ``s3a://``."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._paths = _java(spark, "org.apache.hadoop.fs.Path")
        self._conf = spark._jsc.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        """See `Files`."""
        where = self._paths(path)
        return bool(self._system(where).exists(where))

    def names(self, path: str) -> list[str]:
        """See `Files`."""
        if not self.exists(path):
            return []
        where = self._paths(path)
        found = self._system(where).listStatus(where)
        names = (str(each.getPath().getName()) for each in found)
        return sorted(name for name in names if not name.startswith("."))

    def read_text(self, path: str) -> str | None:
        """See `Files`."""
        where = self._paths(path)
        utils = _java(self._spark, "org.apache.commons.io.IOUtils")
        try:
            stream = self._system(where).open(where)
            try:
                return str(utils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == _MISSING:
                return None
            raise

    def write_text(self, path: str, text: str) -> None:
        """See `Files`."""
        whole = scheme(path) in _OBJECT_STORES
        where = self._paths(path if whole else f"{path}.{uuid.uuid4().hex}.tmp")
        stream = self._system(where).create(where, True)
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()
        if not whole:
            self._rename_over(where, self._paths(path))

    def remove(self, path: str) -> None:
        """See `Files`."""
        where = self._paths(path)
        self._system(where).delete(where, True)

    def make(self, path: str) -> None:
        """See `Files`."""
        where = self._paths(path)
        self._system(where).mkdirs(where)

    def inputs(self, pattern: str) -> list[File]:
        """See `Files`."""
        where = self._paths(pattern)
        system = self._system(where)
        if system.exists(where):
            found = [system.getFileStatus(where)]
        else:
            found = [*(system.globStatus(where) or ())]
        files: dict[str, File] = {}
        for status in found:
            for file in _below(system, status):
                files[file.path] = file
        return [files[path] for path in sorted(files)]

    def footers(self, path: str) -> Footers:
        """See `Files`."""
        inputs = _java(self._spark, "org.apache.parquet.hadoop.util.HadoopInputFile")
        readers = _java(self._spark, "org.apache.parquet.hadoop.ParquetFileReader")
        rows = files = size = 0
        for name in self.names(path):
            if not name.endswith(PARQUET):
                continue
            file = inputs.fromPath(self._paths(f"{path}/{name}"), self._conf)
            reader = readers.open(file)
            try:
                rows += int(reader.getRecordCount())
            finally:
                reader.close()
            files += 1
            size += int(file.getLength())
        return Footers(rows, files, size)

    def _system(self, where: Any) -> Any:
        return where.getFileSystem(self._conf)

    def _rename_over(self, source: Any, target: Any) -> None:
        contexts = _java(self._spark, "org.apache.hadoop.fs.FileContext")
        context = contexts.getFileContext(target.toUri(), self._conf)
        rename = _java(self._spark, "org.apache.hadoop.fs.Options$Rename")
        gateway: Any = self._spark.sparkContext._gateway
        options = gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        context.rename(source, target, options)


def _below(system: Any, status: Any) -> Iterator[File]:
    if not status.isDirectory():
        where = str(status.getPath().toString())
        yield File(where, int(status.getLen()), int(status.getModificationTime()))
        return
    for each in system.listStatus(status.getPath()):
        if not str(each.getPath().getName()).startswith((".", "_")):
            yield from _below(system, each)


def _java(spark: SparkSession, name: str) -> Any:
    """A Java class, by its full name.

    Written with dots, ``jvm.org.apache...``, it costs more: each part of the name is
    looked for in all jars.
    """
    return getattr(spark._jvm, name)
