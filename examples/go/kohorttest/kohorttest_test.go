package kohorttest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/billing"
	. "example.com/billing/kohorttest"
	"github.com/twmb/franz-go/pkg/kgo"
)

const name = "billing-1"

func TestVerbs(t *testing.T) {
	broker := Start(t, Options{Nodes: 2, Config: map[string]string{"num.partitions": "4"}})
	for _, scene := range []struct {
		name string
		play func(t *testing.T, broker *Kohort, group *Group)
	}{
		{"views", views},
		{"the member is replaced", theMemberIsReplaced},
		{"the member is muted", theMemberIsMuted},
		{"the group is held", theGroupIsHeld},
		{"the coordinator moves", theCoordinatorMoves},
		{"faults strike", faultsStrike},
		{"time passes", timePasses},
		{"a transaction is held, fenced and moved", aTransactionIsHeld},
		{"refusals", refusals},
	} {
		t.Run(scene.name, func(t *testing.T) {
			service, err := billing.Start(broker.BootstrapServers, name, func(*kgo.Record) {})
			if err != nil {
				t.Fatal(err)
			}
			group := broker.In(t).Group("billing")
			t.Cleanup(func() {
				service.Stop()
				// A client that is looking for its coordinator does not leave.
				for _, left := range group.Describe().Members {
					group.Kick(left.MemberID, "")
				}
			})
			group.Until(Members(1), Assigned())
			scene.play(t, broker.In(t), group)
		})
	}
}

// again waits until the group is Stable in a later generation.
func again(group *Group, before Description) Description {
	return group.Until(State("Stable"), Members(1), Generation(before.Generation+1))
}

func check(t *testing.T, what string, got, wanted any) {
	t.Helper()
	if got != wanted {
		t.Errorf("%s: %v, not %v", what, got, wanted)
	}
}

func views(t *testing.T, _ *Kohort, group *Group) {
	owned := group.Describe().Member(name).Assignment["orders"]
	check(t, "partitions", slices.Equal(owned, []int32{0, 1, 2, 3}), true)
	group.Until(Rebalances(1), Lag(0), Within(5*time.Second))
}

func theMemberIsReplaced(t *testing.T, _ *Kohort, group *Group) {
	before := group.Describe()
	group.Kick(name, "by a test")
	kicked := again(group, before)
	check(t, "the member is another", kicked.Member(name).MemberID != before.Member(name).MemberID, true)
	group.Expire(name)
	again(group, kicked)
}

func theMemberIsMuted(t *testing.T, _ *Kohort, group *Group) {
	check(t, "is muted", group.Mute(name).Member(name).IsMuted, true)
	check(t, "is muted", group.Unmute(name).Member(name).IsMuted, false)
}

func theGroupIsHeld(t *testing.T, _ *Kohort, group *Group) {
	before := group.Describe()
	check(t, "held", group.Hold().Held, "PreparingRebalance")
	check(t, "state", group.Rebalance("by a test").State, "PreparingRebalance")
	group.Release()
	released := again(group, before)
	group.Hold("CompletingRebalance")
	group.Rebalance("")
	group.Until(State("CompletingRebalance"))
	group.Release()
	again(group, released)
	check(t, "limit", *group.Limit(1).MaxSize, 1)
	check(t, "no limit", group.Unlimit().MaxSize == nil, true)
}

func theCoordinatorMoves(t *testing.T, broker *Kohort, group *Group) {
	first := group.Describe().Coordinator
	second := group.Move().Coordinator
	check(t, "it moves", second != first, true)
	check(t, "coordinator", group.Move(first).Coordinator, first)
	broker.StopNode(first)
	check(t, "coordinator", group.Describe().Coordinator, second)
	broker.StartNode(first)
	broker.RestartNode(first)
	group.Stable(1)
}

func faultsStrike(t *testing.T, broker *Kohort, group *Group) {
	before := group.Describe()
	fault := broker.Faults().Fail("Heartbeat", "REBALANCE_IN_PROGRESS", Rule{"group": "billing", "once": true})
	broker.Faults().Delay("JoinGroup", time.Millisecond, Rule{"client_id": name})
	again(group, before)
	check(t, "strikes", fault.Strikes(), 1)
	fault.Remove()
	broker.Faults().Clear()
	var left struct{ Faults []Rule }
	if err := broker.Ask(http.MethodGet, "/v1/faults", nil, &left); err != nil {
		t.Fatal(err)
	}
	check(t, "faults", len(left.Faults), 0)
}

func timePasses(t *testing.T, broker *Kohort, group *Group) {
	before := group.Describe()
	broker.Advance(5 * time.Minute)
	check(t, "generation", group.Describe().Generation, before.Generation)
	broker.AdvanceUnheard(46 * time.Second) // its session is 45 s
	again(group, before)
}

func aTransactionIsHeld(t *testing.T, broker *Kohort, _ *Group) {
	transaction := broker.Transaction("orders-1")
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.BootstrapServers...), kgo.TransactionalID("orders-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	ctx := context.Background()
	send := func() error {
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
		return producer.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("one")}).FirstErr()
	}
	check(t, "sending", send(), nil)
	check(t, "partitions", len(transaction.Until("Ongoing").Partitions), 0)
	check(t, "partitions", len(transaction.Describe().Partitions), 1)
	transaction.Hold()
	check(t, "commit", producer.EndTransaction(ctx, kgo.TryCommit), nil)
	held := transaction.Until("PrepareCommit")
	check(t, "held", held.Held, "PrepareCommit")
	check(t, "it moves", transaction.Move().Coordinator != held.Coordinator, true)
	transaction.Release()
	done := transaction.Until("CompleteCommit")
	var refusal *Refusal
	err = broker.Ask(http.MethodPost, "/v1/transactions/orders-1/expire", Rule{}, nil)
	check(t, "nothing to expire", errors.As(err, &refusal) && refusal.Status == http.StatusConflict, true)
	check(t, "the epoch rises", transaction.Fence().ProducerEpoch > done.ProducerEpoch, true)
	check(t, "sending fails", send() != nil, true)
}

func refusals(t *testing.T, broker *Kohort, group *Group) {
	check(t, "partitions", len(group.Offsets()), 4)
	var refusal *Refusal
	err := broker.Ask(http.MethodPost, "/v1/groups/billing/kick", Rule{"member": "ben"}, nil)
	check(t, "a refusal", errors.As(err, &refusal) && refusal.Status == http.StatusNotFound, true)
	check(t, "it lists members", strings.Contains(fmt.Sprint(err), name), true)
}

// failing is a test that may fail; said has what it logged.
type failing struct {
	testing.TB
	said     []string
	failed   bool
	cleanups []func()
}

func (f *failing) Helper()                {}
func (f *failing) Failed() bool           { return f.failed }
func (f *failing) Cleanup(cleanup func()) { f.cleanups = append(f.cleanups, cleanup) }
func (f *failing) Logf(format string, values ...any) {
	f.said = append(f.said, fmt.Sprintf(format, values...))
}
func (f *failing) Fatal(values ...any) { f.Fatalf("%s", fmt.Sprint(values...)) }

func (f *failing) Fatalf(format string, values ...any) {
	f.Logf(format, values...)
	f.failed = true
	panic(f)
}

func said(test func(t testing.TB)) string {
	f := &failing{}
	func() {
		defer func() { _ = recover() }()
		test(f)
	}()
	for _, cleanup := range slices.Backward(f.cleanups) {
		cleanup()
	}
	return strings.Join(f.said, "\n")
}

func TestAFailedTestHasTheStory(t *testing.T) {
	story := said(func(t testing.TB) {
		broker := Start(t, Options{})
		broker.Group("idle").Until(Members(1), Within(time.Millisecond))
	})
	check(t, story, strings.Contains(story, "the group \"idle\":\ngroup idle: no events"), true)
}

func TestABrokerThatDoesNotStart(t *testing.T) {
	t.Setenv("KOHORT_HTTP", "")
	why := said(func(t testing.TB) { Start(t, Options{Config: map[string]string{"no.such.setting": "1"}}) })
	check(t, why, strings.Contains(why, "no.such.setting"), true)
}
