// The program of franz-go.
package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"interop/lines"
)

const (
	batch    = 50
	pollWait = 100 * time.Millisecond
)

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
	// In a consumer group: the library asks for the broker's uniform assignor by this one.
	"uniform": kgo.StickyBalancer,
}

type member struct {
	topic   string
	service string
	client  *kgo.Client
	handled int
	pending map[int32]kgo.EpochOffset
	done    chan struct{} // closed when the polling goroutine has ended
	stop    context.CancelFunc

	lock sync.Mutex // callbacks come from the library's own goroutines
	held map[int32]bool
}

// changed makes each of the three callbacks: all of them name only the changed partitions.
func (m *member) changed(why string, owned bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, client *kgo.Client, named map[string][]int32) {
		if why == "revoked" && m.service == "released" {
			m.commit()
		}
		m.lock.Lock()
		defer m.lock.Unlock()
		for _, partition := range named[m.topic] {
			if owned {
				m.held[partition] = true
			} else {
				delete(m.held, partition)
			}
		}
		m.say(why, client)
	}
}

func (m *member) say(why string, client *kgo.Client) {
	owned := make([]int, 0, len(m.held))
	for partition := range m.held {
		owned = append(owned, int(partition))
	}
	_, generation := client.GroupMetadata()
	lines.Owns(why, owned, generation)
}

func join(wanted lines.Join) (lines.Member, error) {
	if wanted.Out != "" {
		return transform(wanted)
	}
	balancer, known := balancers[wanted.Assignor]
	if !known {
		return nil, fmt.Errorf("franz-go has no assignor %s", wanted.Assignor)
	}
	ctx, stop := context.WithCancel(context.Background())
	reset := kgo.NewOffset().AtStart()
	if wanted.Latest {
		reset = kgo.NewOffset().AtEnd()
	}
	m := &member{topic: wanted.Topic, service: wanted.Service, done: make(chan struct{}), stop: stop, held: map[int32]bool{}, pending: map[int32]kgo.EpochOffset{}}
	options := []kgo.Opt{
		kgo.SeedBrokers(wanted.Bootstrap...),
		kgo.ClientID(wanted.Client),
		kgo.ConsumeTopics(wanted.Topic),
		kgo.ConsumerGroup(wanted.Group),
		kgo.Balancers(balancer()),
		kgo.ConsumeResetOffset(reset),
		kgo.SessionTimeout(wanted.Session),
		kgo.HeartbeatInterval(wanted.Heartbeat),
		// A batch is committed before its partitions may go elsewhere.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.changed("assigned", true)),
		kgo.OnPartitionsRevoked(m.changed("revoked", false)),
		kgo.OnPartitionsLost(m.changed("lost", false)),
	}
	if wanted.IsConsumer {
		options = append(options, kgo.ServerSideBalancer())
	}
	if wanted.Service != "auto" {
		options = append(options, kgo.DisableAutoCommit())
	}
	if wanted.Instance != "" {
		options = append(options, kgo.InstanceID(wanted.Instance))
	}
	if wanted.Poll != 0 {
		options = append(options, kgo.RebalanceTimeout(wanted.Poll))
	}
	if wanted.Request != 0 {
		options = append(options, kgo.RequestTimeoutOverhead(wanted.Request))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	m.client = client
	go m.consume(ctx)
	return m, nil
}

func (m *member) consume(ctx context.Context) {
	defer close(m.done)
	for ctx.Err() == nil {
		polling, enough := context.WithTimeout(ctx, pollWait)
		fetches := m.client.PollRecords(polling, batch)
		fetches.EachError(func(_ string, partition int32, err error) {
			if polling.Err() == nil {
				lines.Note(fmt.Sprintf("partition %d: %v", partition, err))
			}
		})
		enough()
		m.handle(fetches.Records())
		m.client.AllowRebalance()
	}
}

// handle handles and commits a batch, in the order of the service.
func (m *member) handle(polled []*kgo.Record) {
	switch m.service {
	case "before":
		m.note(polled)
		m.commit()
		say(polled)
	case "late":
		for _, each := range polled {
			say([]*kgo.Record{each})
			m.note([]*kgo.Record{each})
			m.handled++
			if m.handled%lines.Late == 0 {
				m.commit()
			}
		}
	default:
		say(polled)
		m.note(polled)
	}
	// The library knows the consumed but uncommitted offsets of its partitions: a commit
	// that a rebalance refused is repeated.
	uncommitted := m.client.UncommittedOffsets()[m.topic]
	if m.service == "after" && len(uncommitted) > 0 {
		ends := map[int]int64{}
		for partition, end := range uncommitted {
			ends[int(partition)] = end.Offset
		}
		lines.Committed(ends, m.client.CommitUncommittedOffsets(context.Background()))
	}
}

func say(polled []*kgo.Record) {
	if len(polled) == 0 {
		return
	}
	lines.Consumed(rowsOf(polled))
}

func rowsOf(polled []*kgo.Record) []lines.Record {
	records := make([]lines.Record, 0, len(polled))
	for _, each := range polled {
		records = append(records, lines.Record{
			Partition: int(each.Partition),
			Offset:    each.Offset,
			Key:       string(each.Key),
			Value:     string(each.Value),
		})
	}
	return records
}

func (m *member) note(polled []*kgo.Record) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, each := range polled {
		m.pending[each.Partition] = kgo.EpochOffset{Epoch: -1, Offset: each.Offset + 1}
	}
}

// commit commits what was noted.
func (m *member) commit() {
	m.lock.Lock()
	noted := m.pending
	m.pending = map[int32]kgo.EpochOffset{}
	m.lock.Unlock()
	if len(noted) == 0 {
		return
	}
	ends := map[int]int64{}
	for partition, end := range noted {
		ends[int(partition)] = end.Offset
	}
	var failed error
	m.client.CommitOffsetsSync(
		context.Background(),
		map[string]map[int32]kgo.EpochOffset{m.topic: noted},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err == nil {
				failed = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
			}
		},
	)
	lines.Committed(ends, failed)
}

func (m *member) Seek(partition int, offset int64) {
	m.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{
		m.topic: {int32(partition): {Epoch: -1, Offset: offset}},
	})
}

func (m *member) Tell() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.say("told", m.client)
}

func (m *member) Close() error {
	m.stop()
	<-m.done
	if m.service == "released" {
		m.commit()
	}
	m.client.CloseAllowingRebalance()
	return nil
}

func produce(bootstrap []string, topic string, wanted []lines.Message, request time.Duration) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap...),
		kgo.ClientID("producer"),
		kgo.DefaultProduceTopic(topic),
	}
	if request != 0 {
		options = append(options, kgo.RequestTimeoutOverhead(request), kgo.ProduceRequestTimeout(request))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	records := make([]*kgo.Record, 0, len(wanted))
	for _, each := range wanted {
		records = append(records, &kgo.Record{Key: each.Key, Value: each.Value})
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	return client.ProduceSync(ctx, records...).FirstErr()
}

func main() {
	lines.Serve(lines.Library{Join: join, Produce: produce, Fence: fence, Read: read})
}
