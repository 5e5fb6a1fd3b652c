package billing

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"example.com/billing/kohorttest"
	"github.com/twmb/franz-go/pkg/kgo"
)

var options = kohorttest.Options{Nodes: 2, Config: map[string]string{"num.partitions": "4"}}

func TestAHeldGroup(t *testing.T) {
	broker := kohorttest.Start(t, options)
	billing := broker.Group("billing")
	start(t, broker, "billing-1", nil)
	billing.Until(kohorttest.Members(1), kohorttest.Assigned())

	billing.Hold()
	start(t, broker, "billing-2", nil)
	billing.Until(kohorttest.Members(2), kohorttest.State("PreparingRebalance"))
	billing.Release()

	for _, member := range billing.Until(kohorttest.Members(2), kohorttest.Assigned()).Members {
		if owned := len(member.Assignment["orders"]); owned != 2 {
			t.Errorf("%s has %d partitions", member.ClientID, owned)
		}
	}
}

func TestAMemberIsKicked(t *testing.T) {
	broker := kohorttest.Start(t, options)
	billing := broker.Group("billing")
	start(t, broker, "billing-1", nil)
	start(t, broker, "billing-2", nil)
	before := billing.Stable(2)

	billing.Kick("billing-1", "as an operator would")

	// It joins again, under another member id.
	after := billing.Until(kohorttest.State("Stable"), kohorttest.Members(2), kohorttest.Generation(before.Generation+1))
	if before.Member("billing-1").MemberID == after.Member("billing-1").MemberID {
		t.Error("billing-1 is still the same member")
	}
}

func TestTheCoordinatorMoves(t *testing.T) {
	broker := kohorttest.Start(t, options)
	billing := broker.Group("billing")
	var billed sync.Map
	start(t, broker, "billing-1", func(order *kgo.Record) { billed.Store(string(order.Value), true) })
	produce(t, broker, 0, 50)
	billing.Until(kohorttest.Lag(0), kohorttest.Assigned())

	commits := broker.Faults().Fail("OffsetCommit", "NOT_COORDINATOR", kohorttest.Rule{"group": "billing", "once": true})
	billing.Move()
	produce(t, broker, 50, 50)
	billing.CaughtUp()

	for number := range 100 {
		if _, known := billed.Load(fmt.Sprint("order-", number)); !known {
			t.Errorf("order-%d is not billed", number)
		}
	}
	if strikes := commits.Strikes(); strikes != 1 {
		t.Errorf("the fault struck %d times", strikes)
	}
}

// start starts a service that stops when the test ends.
func start(t *testing.T, broker *kohorttest.Kohort, clientID string, bill func(*kgo.Record)) {
	t.Helper()
	if bill == nil {
		bill = func(*kgo.Record) {}
	}
	service, err := Start(broker.BootstrapServers, clientID, bill)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Stop)
}

func produce(t *testing.T, broker *kohorttest.Kohort, first, count int) {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(broker.BootstrapServers...), kgo.DefaultProduceTopic("orders"), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var orders []*kgo.Record
	for number := range count {
		orders = append(orders, kgo.StringRecord(fmt.Sprint("order-", first+number)))
	}
	if err := client.ProduceSync(context.Background(), orders...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
