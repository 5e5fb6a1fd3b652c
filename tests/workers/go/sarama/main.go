// The program of sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"interop/lines"
)

type member struct {
	wanted lines.Join
	group  sarama.ConsumerGroup
	done   chan struct{} // closed when the last session has ended

	lock    sync.Mutex // each claim has its goroutine
	session sarama.ConsumerGroupSession
	handled int
}

func join(wanted lines.Join) (lines.Member, error) {
	if wanted.Assignor != "range" {
		return nil, fmt.Errorf("no assignor %s", wanted.Assignor)
	}
	if wanted.Out != "" {
		return transform(wanted)
	}
	config := settings(wanted.Client)
	// Commits wait behind a Fetch, on the same connection.
	config.Consumer.MaxWaitTime = 50 * time.Millisecond
	if wanted.Latest {
		config.Consumer.Offsets.Initial = sarama.OffsetNewest
	}
	config.Consumer.Offsets.AutoCommit.Enable = wanted.Service == "auto"
	config.Consumer.Group.Session.Timeout = wanted.Session
	config.Consumer.Group.Heartbeat.Interval = wanted.Heartbeat
	config.Consumer.Group.Rebalance.Timeout = wanted.Session
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	config.Consumer.Group.InstanceId = wanted.Instance
	group, err := sarama.NewConsumerGroup(wanted.Bootstrap, wanted.Group, config)
	if err != nil {
		return nil, err
	}
	m := &member{wanted: wanted, group: group, done: make(chan struct{})}
	go consume(group, wanted.Topic, m, m.done)
	return m, nil
}

func settings(client string) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = client
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	return config
}

func producing(client string) *sarama.Config {
	config := settings(client)
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	return config
}

// consume takes one session after the other, until the group is closed.
func consume(group sarama.ConsumerGroup, topic string, handler sarama.ConsumerGroupHandler, done chan struct{}) {
	defer close(done)
	for {
		err := group.Consume(context.Background(), []string{topic}, handler)
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return
		}
		if err != nil {
			lines.Note(err.Error())
		}
	}
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	m.session = session
	m.lock.Unlock()
	m.Tell()
	return nil
}

// Cleanup is the end of a session: all claims have ended.
func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	if m.wanted.Service == "released" {
		session.Commit()
	}
	return nil
}

// ConsumeClaim handles a partition's records until the session ends.
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case record, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.handle(session, record)
		}
	}
}

func (m *member) handle(session sarama.ConsumerGroupSession, record *sarama.ConsumerMessage) {
	m.lock.Lock()
	defer m.lock.Unlock()
	service := m.wanted.Service
	if service == "before" {
		m.commit(session, record)
	}
	lines.Consumed([]lines.Record{rowOf(record)})
	m.handled++
	session.MarkMessage(record, "")
	if service == "after" || (service == "late" && m.handled%lines.Late == 0) {
		m.commit(session, record)
	}
}

func (m *member) commit(session sarama.ConsumerGroupSession, record *sarama.ConsumerMessage) {
	session.MarkMessage(record, "")
	session.Commit()
	lines.Committed(map[int]int64{int(record.Partition): record.Offset + 1}, nil)
}

func (m *member) Tell() {
	m.lock.Lock()
	defer m.lock.Unlock()
	owned := []int{}
	for _, partition := range m.session.Claims()[m.wanted.Topic] {
		owned = append(owned, int(partition))
	}
	lines.Owns("assigned", owned, m.session.GenerationID())
}

// Seek is missing in the library's groups.
func (m *member) Seek(int, int64) { lines.Note("sarama cannot seek in a session") }

func (m *member) Close() error {
	err := m.group.Close()
	<-m.done
	return err
}

func produce(bootstrap []string, topic string, wanted []lines.Message, _ time.Duration) error {
	producer, err := sarama.NewSyncProducer(bootstrap, producing("producer"))
	if err != nil {
		return err
	}
	messages := make([]*sarama.ProducerMessage, 0, len(wanted))
	for _, each := range wanted {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: topic,
			Key:   sarama.ByteEncoder(each.Key),
			Value: sarama.ByteEncoder(each.Value),
		})
	}
	return errors.Join(producer.SendMessages(messages), producer.Close())
}

func main() {
	lines.Serve(lines.Library{Join: join, Produce: produce, Fence: fence, Read: read})
}
