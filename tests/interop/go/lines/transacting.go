package lines

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"time"
)

// This file is the worker's side of the protocol of transactional programs;
// workers/transacting.py describes the commands and events.

// TransactionBatch is the number of records per transaction.
const TransactionBatch = 10

// Transform has the settings of a program that transforms.
type Transform struct {
	Bootstrap          []string
	Topic, Out         string
	Group, Client      string
	Abort              int
	Session, Heartbeat time.Duration
}

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

// Transactional is a library's part. Transform returns a function that closes the
// program; Fence returns the error of the first producer; Read returns after the last
// record of each partition.
type Transactional struct {
	Transform func(Transform) (func() error, error)
	Fence     func(bootstrap []string, out, transactionalID string) (string, error)
	Read      func(bootstrap []string, out string, report *Report) error
}

// ServeTransactions answers commands until `close`.
func ServeTransactions(library Transactional) {
	closed := func() error { return nil }
	say(event{"event": "ready"})
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		fields := strings.Fields(commands.Text())
		words := map[string]string{}
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			words[key] = value
		}
		bootstrap := strings.Split(words["bootstrap"], ",")
		var err error
		switch fields[0] {
		case "transform":
			closed, err = library.Transform(Transform{
				Bootstrap: bootstrap,
				Topic:     words["topic"],
				Out:       words["out"],
				Group:     words["group"],
				Client:    words["client"],
				Abort:     integer(words["abort"]),
				Session:   milliseconds(words["session"]),
				Heartbeat: milliseconds(words["heartbeat"]),
			})
		case "leave":
			if err = closed(); err == nil {
				closed = func() error { return nil }
				say(event{"event": "left"})
			}
		case "fence":
			var text string
			text, err = library.Fence(bootstrap, words["out"], words["client"])
			if err == nil {
				say(event{"event": "fenced", "text": text})
			}
		case "read":
			err = library.Read(bootstrap, words["out"], &Report{Partitions: integer(words["partitions"])})
			if err == nil {
				say(event{"event": "read"})
			}
		case "close":
			if err = closed(); err == nil {
				say(event{"event": "closed"})
				return
			}
		default:
			Note("no such command: " + fields[0])
		}
		if err != nil {
			Fail(err)
		}
	}
	os.Exit(3) // the scene is gone
}

func integer(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		Fail(err)
	}
	return number
}
