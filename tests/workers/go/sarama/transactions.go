package main

// This file has the transactional program: a producer for each member, used by its claims in turn.

import (
	"errors"
	"fmt"
	"sync"

	"github.com/IBM/sarama"

	"interop/lines"
)

func committedOnly(client string) *sarama.Config {
	config := settings(client)
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	return config
}

func producer(bootstrap []string, transactionalID string) (sarama.SyncProducer, error) {
	config := producing(transactionalID)
	config.Producer.Transaction.ID = transactionalID
	return sarama.NewSyncProducer(bootstrap, config)
}

type program struct {
	wanted   lines.Join
	producer sarama.SyncProducer

	using sync.Mutex // each claim has its goroutine
	turns lines.Turns
}

func transform(wanted lines.Join) (lines.Member, error) {
	config := committedOnly(wanted.Client)
	config.Consumer.Group.Session.Timeout = wanted.Session
	config.Consumer.Group.Heartbeat.Interval = wanted.Heartbeat
	config.Consumer.Group.Rebalance.Timeout = wanted.Session
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	transactional, err := producer(wanted.Bootstrap, wanted.Client)
	if err != nil {
		return nil, err
	}
	group, err := sarama.NewConsumerGroup(wanted.Bootstrap, wanted.Group, config)
	if err != nil {
		return nil, err
	}
	p := &program{wanted: wanted, producer: transactional, turns: lines.Turns{Every: wanted.Abort}}
	done := make(chan struct{})
	go consume(group, wanted.Topic, p, done)
	return lines.Program{Shut: func() error {
		err := group.Close()
		<-done
		return errors.Join(err, transactional.Close())
	}}, nil
}

func (p *program) Setup(session sarama.ConsumerGroupSession) error {
	lines.Note(fmt.Sprintf("assigned %v", session.Claims()[p.wanted.Topic]))
	return nil
}

func (p *program) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim copies a partition's records until the session ends.
func (p *program) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		records := receive(session, claim)
		if len(records) == 0 {
			return nil
		}
		// A claim cannot go back: an aborted batch is copied again from here.
		for {
			committed, err := p.transact(session, records)
			if err != nil {
				lines.Fail(err)
			}
			if committed {
				break
			}
			if session.Context().Err() != nil {
				return nil
			}
		}
	}
}

// receive waits for a record, and takes those that are there already. None if the session ends.
func receive(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) []*sarama.ConsumerMessage {
	var records []*sarama.ConsumerMessage
	select {
	case <-session.Context().Done():
		return nil
	case first, open := <-claim.Messages():
		if !open {
			return nil
		}
		records = append(records, first)
	}
	for len(records) < lines.TransactionBatch {
		select {
		case next, open := <-claim.Messages():
			if !open {
				return records
			}
			records = append(records, next)
		default:
			return records
		}
	}
	return records
}

// transact copies records in a transaction, and says whether it has committed.
func (p *program) transact(session sarama.ConsumerGroupSession, records []*sarama.ConsumerMessage) (bool, error) {
	p.using.Lock()
	defer p.using.Unlock()
	var rows []lines.Record
	for _, each := range records {
		rows = append(rows, rowOf(each))
	}
	aborts := p.turns.Begin(rows)
	err := p.copy(session, records, aborts)
	if err == nil {
		lines.Ended(!aborts, len(records))
		return !aborts, nil
	}
	if p.producer.TxnStatus()&sarama.ProducerTxnFlagFatalError != 0 {
		return false, err
	}
	lines.Note("aborts: " + err.Error())
	return false, p.producer.AbortTxn()
}

func rowOf(record *sarama.ConsumerMessage) lines.Record {
	return lines.Record{
		Partition: int(record.Partition),
		Offset:    record.Offset,
		Key:       string(record.Key),
		Value:     string(record.Value),
	}
}

func (p *program) copy(session sarama.ConsumerGroupSession, records []*sarama.ConsumerMessage, aborts bool) error {
	if err := p.producer.BeginTxn(); err != nil {
		return err
	}
	copies := make([]*sarama.ProducerMessage, 0, len(records))
	for _, each := range records {
		copies = append(copies, &sarama.ProducerMessage{
			Topic: p.wanted.Out,
			Key:   sarama.ByteEncoder(each.Key),
			Value: sarama.ByteEncoder(each.Value),
		})
	}
	if err := p.producer.SendMessages(copies); err != nil {
		return err
	}
	if aborts {
		return p.producer.AbortTxn()
	}
	member := &sarama.ConsumerGroupMetadata{
		GroupID:      p.wanted.Group,
		GenerationID: session.GenerationID(),
		MemberID:     session.MemberID(),
	}
	last := records[len(records)-1]
	if err := p.producer.AddMessageToTxnWithGroupMetadata(last, member, nil); err != nil {
		return err
	}
	return p.producer.CommitTxn()
}

func begin(transactional sarama.SyncProducer, out, key string) error {
	if err := transactional.BeginTxn(); err != nil {
		return err
	}
	_, _, err := transactional.SendMessage(&sarama.ProducerMessage{
		Topic: out,
		Key:   sarama.StringEncoder(key),
		Value: sarama.StringEncoder("value"),
	})
	return err
}

func fence(bootstrap []string, out, transactionalID string) (string, error) {
	first, err := producer(bootstrap, transactionalID)
	if err != nil {
		return "", err
	}
	if err := begin(first, out, "fenced"); err != nil {
		return "", err
	}
	second, err := producer(bootstrap, transactionalID)
	if err != nil {
		return "", err
	}
	fenced := first.CommitTxn()
	if fenced == nil {
		return "", errors.New("the first producer has committed")
	}
	if err := begin(second, out, "fencing"); err != nil {
		return "", err
	}
	return fenced.Error(), second.CommitTxn()
}

func read(bootstrap []string, out string, report *lines.Report) error {
	consumer, err := sarama.NewConsumer(bootstrap, committedOnly("reader"))
	if err != nil {
		return err
	}
	records := make(chan *sarama.ConsumerMessage)
	for partition := range report.Partitions {
		reading, err := consumer.ConsumePartition(out, int32(partition), sarama.OffsetOldest)
		if err != nil {
			return err
		}
		go func() {
			for each := range reading.Messages() {
				records <- each
			}
		}()
	}
	for each := range records {
		if report.Add([]lines.Record{rowOf(each)}) {
			return nil
		}
	}
	return errors.New("the reader has ended")
}
