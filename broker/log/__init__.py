"""Partitions of topics: appending, reading, waiting for records.

A batch through the files:

1. Produce: `partition.append_or_read` checks the header, then `validation` reads the
   records, then `producers` checks the sequence. The batch gets its offsets and goes
   into the store: `memory`, or `segments` of files (`segment`, `index`, `files`). Last,
   `Partition.wake` calls the waiting fetches.
2. Fetch: `partition.read` returns batches from the one with the offset on, up to a
   limit. `store` describes the interface that both kinds of store implement.
3. Retention and DeleteRecords move the start of the log (`Partition.expire`,
   `delete_records`); `compaction` rewrites it, and `replacement` swaps segments.
4. `directory` is the data directory with all partitions. When it opens one, `recovery`
   checks its files; `journal` has the cluster's own state.
"""
