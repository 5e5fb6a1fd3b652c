// Package lines is the worker's side of the protocol between a scene and one client
// library; lines.py describes the commands and events.
package lines

import (
	"bufio"
	"encoding/json"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Join has the settings of a member.
type Join struct {
	Bootstrap []string

	Topic, Group, Client, Assignor, Instance string

	Session, Heartbeat time.Duration

	Poll, Request time.Duration // 0: the library's own

	Service    string // after, before, late, released, never, auto
	Latest     bool   // auto.offset.reset
	IsConsumer bool   // of a consumer group (KIP-848)

	Out   string // a transactional program copies to this topic
	Abort int    // every so many transactions
}

// Late is the number of records per commit of a service that commits late.
const Late = 7

// Record is one consumed record.
type Record struct {
	Partition  int
	Offset     int64
	Key, Value string
}

// Message is one record to send.
type Message struct{ Key, Value []byte }

// Member is one consumer of some library. It reports its partitions and its consumed
// records without being asked; Tell and Close are called on the goroutine that reads the commands.
type Member interface {
	Tell()
	Seek(partition int, offset int64)
	Close() error
}

var (
	writing sync.Mutex
	out     = json.NewEncoder(os.Stdout)
)

type event = map[string]any

func say(what event) {
	writing.Lock()
	defer writing.Unlock()
	what["at_ns"] = time.Now().UnixNano()
	if err := out.Encode(what); err != nil {
		os.Exit(4) // the scene has ended
	}
}

// Owns reports the whole present assignment; a generation below zero is none.
func Owns(why string, partitions []int, generation int32) {
	sorted := append([]int{}, partitions...)
	sort.Ints(sorted)
	what := event{"event": "owns", "why": why, "partitions": sorted, "generation": nil}
	if generation >= 0 {
		what["generation"] = generation
	}
	say(what)
}

// Consumed reports a batch, before it is committed.
func Consumed(records []Record) {
	rows := make([][]any, 0, len(records))
	for _, each := range records {
		rows = append(rows, []any{each.Partition, each.Offset, each.Key, each.Value})
	}
	say(event{"event": "consumed", "records": rows})
}

// Ends gives the offsets to commit after a batch, by partition.
func Ends(records []Record) map[int]int64 {
	ends := map[int]int64{}
	for _, each := range records {
		ends[each.Partition] = max(ends[each.Partition], each.Offset+1)
	}
	return ends
}

// Committed reports the outcome of a commit.
func Committed(ends map[int]int64, err error) {
	if err != nil {
		Note("commit failed: " + err.Error())
		return
	}
	rows := make([][]int64, 0, len(ends))
	for partition, offset := range ends {
		rows = append(rows, []int64{int64(partition), offset})
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i][0] < rows[j][0] })
	say(event{"event": "committed", "offsets": rows})
}

// Note adds a line to the history that a failed scene prints.
func Note(text string) { say(event{"event": "note", "text": text}) }

// Fail reports that the worker cannot go on, and ends it.
func Fail(err error) {
	say(event{"event": "error", "text": err.Error()})
	os.Exit(1)
}

func milliseconds(text string) time.Duration {
	return time.Duration(integer(text)) * time.Millisecond
}

func optional(text string) time.Duration {
	if text == "" {
		return 0
	}
	return milliseconds(text)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func integer(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		Fail(err)
	}
	return number
}

func messages(first, count int) []Message {
	wanted := make([]Message, 0, count)
	for each := first; each < first+count; each++ {
		text := strconv.Itoa(each)
		wanted = append(wanted, Message{Key: []byte("key-" + text), Value: []byte("value-" + text)})
	}
	return wanted
}

// Library has the parts of a library's program. Join makes a member, or a transactional
// program if it has an Out; Fence returns the error of the first producer; Read returns after
// the last record of each partition.
type Library struct {
	Join    func(Join) (Member, error)
	Produce func(bootstrap []string, topic string, wanted []Message, request time.Duration) error
	Fence   func(bootstrap []string, out, transactionalID string) (string, error)
	Read    func(bootstrap []string, out string, report *Report) error
}

// Serve answers commands until `close`.
func Serve(library Library) {
	var member Member
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
		case "join":
			member, err = library.Join(joinOf(bootstrap, words))
		case "leave":
			if err = closed(member); err == nil {
				member = nil
				say(event{"event": "left"})
			}
		case "produce":
			wanted := messages(integer(words["first"]), integer(words["count"]))
			if err = library.Produce(bootstrap, words["topic"], wanted, optional(words["request"])); err == nil {
				say(event{"event": "produced", "count": len(wanted)})
			}
		case "fence":
			var text string
			if text, err = library.Fence(bootstrap, words["out"], words["client"]); err == nil {
				say(event{"event": "fenced", "text": text})
			}
		case "read":
			report := &Report{Partitions: integer(words["partitions"])}
			if err = library.Read(bootstrap, words["out"], report); err == nil {
				say(event{"event": "read"})
			}
		case "tell":
			member.Tell()
		case "seek":
			member.Seek(integer(words["partition"]), int64(integer(words["offset"])))
		case "close":
			if err = closed(member); err == nil {
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

func closed(member Member) error {
	if member == nil {
		return nil
	}
	return member.Close()
}

func joinOf(bootstrap []string, words map[string]string) Join {
	return Join{
		Bootstrap:  bootstrap,
		Topic:      words["topic"],
		Group:      words["group"],
		Client:     words["client"],
		Assignor:   words["assignor"],
		Instance:   words["instance"],
		Session:    milliseconds(words["session"]),
		Heartbeat:  milliseconds(words["heartbeat"]),
		Poll:       optional(words["poll"]),
		Request:    optional(words["request"]),
		Service:    orElse(words["service"], "after"),
		Latest:     words["reset"] == "latest",
		IsConsumer: words["protocol"] == "consumer",
		Out:        words["out"],
		Abort:      integer(orElse(words["abort"], "0")),
	}
}
