package main

// This file has the transactional program: the library's GroupTransactSession.

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"interop/lines"
)

const limit = 30 * time.Second

// transform copies in the background until it is closed.
func transform(wanted lines.Join) (lines.Member, error) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(wanted.Bootstrap...),
		kgo.ClientID(wanted.Client),
		kgo.TransactionalID(wanted.Client),
		kgo.DefaultProduceTopic(wanted.Out),
		kgo.ConsumeTopics(wanted.Topic),
		kgo.ConsumerGroup(wanted.Group),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(wanted.Session),
		kgo.HeartbeatInterval(wanted.Heartbeat),
	)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		turns := lines.Turns{Every: wanted.Abort}
		for ctx.Err() == nil {
			if err := step(session, &turns); err != nil {
				lines.Fail(err)
			}
		}
	}()
	return lines.Program{Shut: func() error {
		stop()
		<-done
		session.Close()
		return nil
	}}, nil
}

// step is a transaction of the records of one poll.
func step(session *kgo.GroupTransactSession, turns *lines.Turns) error {
	polling, enough := context.WithTimeout(context.Background(), pollWait)
	defer enough()
	records := session.PollRecords(polling, lines.TransactionBatch).Records()
	if len(records) == 0 {
		return nil
	}
	aborts := turns.Begin(rowsOf(records))
	if err := session.Begin(); err != nil {
		return err
	}
	copies := make([]*kgo.Record, 0, len(records))
	for _, each := range records {
		copies = append(copies, &kgo.Record{Key: each.Key, Value: each.Value})
	}
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	if err := session.ProduceSync(ctx, copies...).FirstErr(); err != nil {
		return err
	}
	// After an abort, the session itself goes back to the committed offsets.
	committed, err := session.End(ctx, kgo.TransactionEndTry(!aborts))
	if err != nil {
		return err
	}
	if !aborts && !committed {
		lines.Note("a rebalance has made the session abort")
	} else {
		lines.Ended(committed, len(records))
	}
	return nil
}

func producer(bootstrap []string, out, transactionalID string) (*kgo.Client, error) {
	return kgo.NewClient(
		kgo.SeedBrokers(bootstrap...),
		kgo.ClientID(transactionalID),
		kgo.TransactionalID(transactionalID),
		kgo.DefaultProduceTopic(out),
	)
}

func begin(ctx context.Context, client *kgo.Client, key string) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	record := &kgo.Record{Key: []byte(key), Value: []byte("value")}
	return client.ProduceSync(ctx, record).FirstErr()
}

func fence(bootstrap []string, out, transactionalID string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	first, err := producer(bootstrap, out, transactionalID)
	if err != nil {
		return "", err
	}
	defer first.Close()
	if err := begin(ctx, first, "fenced"); err != nil {
		return "", err
	}
	second, err := producer(bootstrap, out, transactionalID)
	if err != nil {
		return "", err
	}
	defer second.Close()
	// The library asks for its producer id when it begins to produce.
	if err := begin(ctx, second, "fencing"); err != nil {
		return "", err
	}
	fenced := first.EndTransaction(ctx, kgo.TryCommit)
	if err := second.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return "", err
	}
	if fenced == nil {
		return "", errors.New("the first producer has committed")
	}
	return fenced.Error(), nil
}

func read(bootstrap []string, out string, report *lines.Report) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap...),
		kgo.ConsumeTopics(out),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return err
		}
		if report.Add(rowsOf(fetches.Records())) {
			return nil
		}
	}
}
