// Package billing is an example: a service over franz-go that bills orders.
package billing

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Service bills orders as a member of the group "billing".
type Service struct {
	client *kgo.Client
	bill   func(*kgo.Record)
	ended  chan struct{}
}

// Start starts a service. Each order is billed before its offset is committed.
func Start(servers []string, clientID string, bill func(*kgo.Record)) (*Service, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(servers...),
		kgo.ClientID(clientID),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"),
		kgo.AllowAutoTopicCreation(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.DisableAutoCommit(),
		// Polled records are committed before their partitions move.
		kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		return nil, err
	}
	service := &Service{client: client, bill: bill, ended: make(chan struct{})}
	go service.run()
	return service, nil
}

func (s *Service) run() {
	defer close(s.ended)
	for {
		fetches := s.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachRecord(s.bill)
		// A commit that a rebalance refuses is repeated after it.
		_ = s.client.CommitUncommittedOffsets(context.Background())
		s.client.AllowRebalance()
	}
}

// Stop leaves the group.
func (s *Service) Stop() {
	s.client.CloseAllowingRebalance()
	<-s.ended
}
