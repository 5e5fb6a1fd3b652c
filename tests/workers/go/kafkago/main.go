// A worker over kafka-go. Its groups use the oldest versions that Kafka 4 supports: JoinGroup v2, OffsetCommit v2, OffsetFetch v1, the rest v0.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"interop/lines"
)

var balancers = map[string]kafka.GroupBalancer{
	"range":      kafka.RangeGroupBalancer{},
	"roundrobin": kafka.RoundRobinGroupBalancer{},
}

// The wait of a Fetch, and so how long the end of a generation waits for its readers.
const fetchWait = 200 * time.Millisecond

type member struct {
	wanted lines.Join
	group  *kafka.ConsumerGroup
	done   chan struct{} // closed when there will be no further generation

	lock       sync.Mutex // each partition is read by a separate goroutine
	held       map[int]bool
	generation int32
}

func join(wanted lines.Join) (lines.Member, error) {
	balancer, known := balancers[wanted.Assignor]
	if !known {
		return nil, fmt.Errorf("kafka-go has no assignor %s", wanted.Assignor)
	}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                wanted.Group,
		Brokers:           wanted.Bootstrap,
		Dialer:            &kafka.Dialer{ClientID: wanted.Client, Timeout: 10 * time.Second},
		Topics:            []string{wanted.Topic},
		GroupBalancers:    []kafka.GroupBalancer{balancer},
		HeartbeatInterval: wanted.Heartbeat,
		SessionTimeout:    wanted.Session,
		RebalanceTimeout:  wanted.Session,
		JoinGroupBackoff:  100 * time.Millisecond,
		// It is also how long kafka-go waits for the answer to a JoinGroup beyond its
		// rebalance timeout, and for every other answer of the coordinator.
		Timeout: 30 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	m := &member{wanted: wanted, group: group, done: make(chan struct{}), generation: -1}
	go m.follow()
	return m, nil
}

// follow takes one generation after the other.
func (m *member) follow() {
	defer close(m.done)
	for {
		next, err := m.group.Next(context.Background())
		if errors.Is(err, kafka.ErrGroupClosed) {
			return
		}
		if err != nil {
			lines.Note("next generation: " + err.Error())
			continue
		}
		m.begin(next)
	}
}

func (m *member) begin(generation *kafka.Generation) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.generation = generation.ID
	m.held = map[int]bool{}
	assignments := generation.Assignments[m.wanted.Topic]
	for _, each := range assignments {
		m.held[each.ID] = true
	}
	m.say("assigned")
	for _, each := range assignments {
		generation.Start(func(ctx context.Context) { m.read(ctx, generation, each) })
	}
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		m.lock.Lock()
		defer m.lock.Unlock()
		m.held = map[int]bool{}
		m.say("revoked")
	})
}

// read consumes one partition until its generation ends.
func (m *member) read(ctx context.Context, generation *kafka.Generation, assigned kafka.PartitionAssignment) {
	for ctx.Err() == nil {
		err := m.readConnected(ctx, generation, assigned.ID, &assigned.Offset)
		if err != nil && ctx.Err() == nil {
			lines.Note(fmt.Sprintf("partition %d: %v", assigned.ID, err))
		}
	}
}

func (m *member) readConnected(ctx context.Context, generation *kafka.Generation, partition int, next *int64) error {
	dialer := &kafka.Dialer{ClientID: m.wanted.Client, Timeout: 10 * time.Second}
	conn, err := dialer.DialLeader(ctx, "tcp", m.wanted.Bootstrap[0], m.wanted.Topic, partition)
	if err != nil {
		return err
	}
	defer conn.Close()
	whence := kafka.SeekAbsolute
	if *next < 0 { // kafka.FirstOffset: nothing was committed
		whence, *next = kafka.SeekStart, 0
	}
	if *next, err = conn.Seek(*next, whence); err != nil {
		return err
	}
	for ctx.Err() == nil {
		records, err := m.fetch(conn, partition)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			continue
		}
		lines.Consumed(records)
		ends := lines.Ends(records)
		err = generation.CommitOffsets(map[string]map[int]int64{m.wanted.Topic: ends})
		lines.Committed(ends, err)
		if err != nil {
			return err // uncommitted records are read again, if the generation goes on
		}
		*next = ends[partition]
	}
	return nil
}

// fetch is one Fetch request; kafka.Conn counts the offset on.
func (m *member) fetch(conn *kafka.Conn, partition int) ([]lines.Record, error) {
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	batch := conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: 1 << 20, MaxWait: fetchWait})
	var records []lines.Record
	for {
		message, err := batch.ReadMessage()
		if err != nil {
			if closed := batch.Close(); closed != nil && !errors.Is(closed, io.EOF) {
				return records, closed
			}
			if !errors.Is(err, io.EOF) {
				return records, err
			}
			return records, nil
		}
		records = append(records, lines.Record{
			Partition: partition,
			Offset:    message.Offset,
			Key:       string(message.Key),
			Value:     string(message.Value),
		})
	}
}

func (m *member) say(why string) {
	owned := make([]int, 0, len(m.held))
	for partition := range m.held {
		owned = append(owned, partition)
	}
	lines.Owns(why, owned, m.generation)
}

// Seek is missing in the library's groups.
func (m *member) Seek(int, int64) { lines.Note("kafka-go cannot seek in a group") }

func (m *member) Tell() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.say("told")
}

func (m *member) Close() error {
	err := m.group.Close()
	<-m.done
	return err
}

func produce(bootstrap []string, topic string, wanted []lines.Message, _ time.Duration) error {
	writer := &kafka.Writer{
		Addr:         kafka.TCP(bootstrap...),
		Topic:        topic,
		Balancer:     &kafka.Hash{},
		BatchTimeout: 10 * time.Millisecond,
		RequiredAcks: kafka.RequireAll,
	}
	messages := make([]kafka.Message, 0, len(wanted))
	for _, each := range wanted {
		messages = append(messages, kafka.Message{Key: each.Key, Value: each.Value})
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	err := writer.WriteMessages(ctx, messages...)
	return errors.Join(err, writer.Close())
}

func main() { lines.Serve(lines.Library{Join: join, Produce: produce}) }
