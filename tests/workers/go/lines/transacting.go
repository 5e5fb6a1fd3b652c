package lines

// This file has the parts of transactional programs.

// TransactionBatch is the number of records per transaction.
const TransactionBatch = 10

// Turns counts transactions and says which ones to abort.
type Turns struct{ Every, begun int }

// Begin reports the records of a transaction, and counts it; true means to abort it.
func (t *Turns) Begin(records []Record) bool {
	Consumed(records)
	t.begun++
	return t.begun%t.Every == 0
}

// Ended reports the end of a transaction.
func Ended(isCommit bool, records int) {
	say(event{"event": "ended", "is_commit": isCommit, "records": records})
}

// Report passes on a reader's records up to the last one of each partition.
type Report struct {
	Partitions int
	ended      map[int]bool
}

// Add reports a batch; true means that each partition has had its last record.
func (r *Report) Add(records []Record) bool {
	if r.ended == nil {
		r.ended = map[int]bool{}
	}
	kept := make([]Record, 0, len(records))
	for _, each := range records {
		if each.Key == "end" {
			r.ended[each.Partition] = true
		} else {
			kept = append(kept, each)
		}
	}
	if len(kept) > 0 {
		Consumed(kept)
	}
	return len(r.ended) == r.Partitions
}

// Program is a member that copies; it owns what its library says, and does not tell it.
type Program struct{ Shut func() error }

// Tell is missing: no play asks for it.
func (Program) Tell() { Note("a program does not tell") }

// Seek is missing: no play asks for it.
func (Program) Seek(int, int64) { Note("a program does not seek") }

// Close ends the program.
func (p Program) Close() error { return p.Shut() }
