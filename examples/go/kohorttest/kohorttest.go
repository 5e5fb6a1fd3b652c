// Package kohorttest gives Go tests a Kafka broker with power over consumer groups.
//
// Copy this file. It needs kohort, installed as its README says, and no module besides the standard library.
//
//	func TestAMemberIsReplaced(t *testing.T) {
//		broker := kohorttest.Start(t, kohorttest.Options{Nodes: 3})
//		// ... start consumers on broker.BootstrapServers, in the group "billing"
//		billing := broker.Group("billing")
//		billing.Until(kohorttest.State("Stable"), kohorttest.Members(2))
//		billing.Kick("billing-1")
//		billing.Until(kohorttest.State("Stable"), kohorttest.Rebalances(3))
//	}
//
// Start runs "kohort serve", and stops it when the test ends; if the test's process is killed, the broker ends too.
// KOHORT_COMMAND in the environment is the command, split at spaces, if it is not "kohort". With KOHORT_HTTP and
// KAFKA_BOOTSTRAP_SERVERS, as in "kohort run -- go test ./...", tests use that broker and start none; its settings are
// those of "kohort run".
//
// A method that the broker refuses fails the test; call them on the test's goroutine. A test that failed ends with the
// story of each group that it asked for, in the sentences of "kohort why".
package kohorttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	startTime  = 30 * time.Second
	stopTime   = 10 * time.Second
	answerTime = 60 * time.Second
)

var ready = regexp.MustCompile(`^kohort accepts connections on (\S+) and (\S+) \(pid \d+\)$`)

// Options of a broker.
type Options struct {
	// Nodes of the cluster; 1 by default.
	Nodes int
	// Config has Kafka's broker settings. By default there is no initial rebalance delay, and sessions may be short.
	Config map[string]string
	// ManualClock makes the broker's time stand still but for Advance.
	ManualClock bool
	// Arguments are further ones of "kohort serve".
	Arguments []string
}

// Kohort is a broker. Its methods fail the test that started it if the broker refuses.
type Kohort struct {
	BootstrapServers []string
	URL              string // of the HTTP port

	t      testing.TB
	client *http.Client
	groups []string
}

// Start starts a broker, which stops when the test ends.
func Start(t testing.TB, options Options) *Kohort {
	t.Helper()
	// Loopback is never behind a proxy.
	k := &Kohort{t: t, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(k.client.CloseIdleConnections)
	servers := os.Getenv("KAFKA_BOOTSTRAP_SERVERS")
	k.URL = os.Getenv("KOHORT_HTTP")
	if k.URL != "" && servers != "" {
		t.Cleanup(func() { k.Faults().Clear() })
	} else {
		servers = k.serve(options)
	}
	k.BootstrapServers = strings.Split(servers, ",")
	t.Cleanup(k.tell)
	return k
}

// In returns the same broker for a subtest, which fails if the broker refuses.
func (k *Kohort) In(t testing.TB) *Kohort {
	same := &Kohort{BootstrapServers: k.BootstrapServers, URL: k.URL, t: t, client: k.client}
	t.Cleanup(same.tell)
	return same
}

// serve starts a process, and returns its bootstrap servers.
func (k *Kohort) serve(options Options) string {
	k.t.Helper()
	words := strings.Fields(os.Getenv("KOHORT_COMMAND"))
	if len(words) == 0 {
		words = []string{"kohort"}
	}
	words = append(words, "serve", "--port", "0", "--http", "0", "--until-stdin-closes", "--log-level", "warning",
		"--set", "group.initial.rebalance.delay.ms=0", "--set", "group.min.session.timeout.ms=1")
	if options.Nodes > 0 {
		words = append(words, "--nodes", strconv.Itoa(options.Nodes))
	}
	if options.ManualClock {
		words = append(words, "--clock", "manual")
	}
	for key, value := range options.Config {
		words = append(words, "--set", key+"="+value)
	}
	command := exec.Command(words[0], append(words[1:], options.Arguments...)...)
	stdin, err := command.StdinPipe()
	k.check(err)
	output, written := io.Pipe()
	command.Stdout, command.Stderr = written, written
	if err := command.Start(); err != nil {
		k.t.Fatalf("cannot run kohort (%v): install it as its README says, or set KOHORT_COMMAND", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		_ = written.Close()
		close(ended)
	}()
	k.t.Cleanup(func() {
		_ = stdin.Close() // ends it
		select {
		case <-ended:
		case <-time.After(stopTime):
			_ = command.Process.Kill()
			<-ended
		}
	})
	started := make(chan []string, 1)
	var said []string
	go func() {
		var found []string
		for scanner := bufio.NewScanner(output); found == nil && scanner.Scan(); {
			said = append(said, scanner.Text())
			found = ready.FindStringSubmatch(scanner.Text())
		}
		started <- found
		_, _ = io.Copy(io.Discard, output) // a full pipe would stop the broker
	}()
	select {
	case found := <-started:
		if found == nil {
			k.t.Fatalf("kohort did not start:\n%s", strings.Join(said, "\n"))
		}
		k.URL = found[2]
		return found[1]
	case <-time.After(startTime):
		k.t.Fatalf("kohort did not start within %v", startTime)
	}
	return ""
}

// tell adds the groups' stories to a test that failed.
func (k *Kohort) tell() {
	for _, id := range k.groups {
		if !k.t.Failed() {
			return
		}
		story, err := k.story(id)
		if err != nil {
			story = err.Error()
		}
		k.t.Logf("the group %q:\n%s", id, story)
	}
}

func (k *Kohort) story(group string) (string, error) {
	var why struct{ Text string }
	err := k.Ask(http.MethodGet, "/why.json?group="+url.QueryEscape(group), nil, &why)
	return why.Text, err
}

// Refusal is the broker's answer to a request that it did not fulfil.
type Refusal struct {
	Status  int // of HTTP: 404 for something missing, 409 for something impossible as things are, 504 for a time-out
	Message string
}

func (refusal *Refusal) Error() string { return refusal.Message }

// Ask sends a request to the broker's HTTP port, and decodes its JSON answer unless answer is nil.
// It returns a *Refusal if the broker refuses.
func (k *Kohort) Ask(method, path string, body, answer any) error {
	return k.ask(method, path, body, answer, answerTime)
}

func (k *Kohort) ask(method, path string, body, answer any, timeout time.Duration) error {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	ctx, done := context.WithTimeout(context.Background(), timeout)
	defer done()
	request, err := http.NewRequestWithContext(ctx, method, k.URL+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("KOHORT_HTTP_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := k.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(response.Body)
	if response.StatusCode >= 300 {
		var refusal struct{ Error string }
		_ = decoder.Decode(&refusal)
		return &Refusal{response.StatusCode, refusal.Error}
	}
	if answer == nil {
		return nil
	}
	return decoder.Decode(answer)
}

func (k *Kohort) check(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// post sends a POST like Ask, and fails the test on an error.
func (k *Kohort) post(path string, body, answer any) {
	k.t.Helper()
	k.check(k.Ask(http.MethodPost, path, body, answer))
}

// Group returns a consumer group, which need not exist yet.
func (k *Kohort) Group(id string) *Group {
	k.groups = append(k.groups, id)
	return &Group{k: k, id: id, path: "/v1/groups/" + url.PathEscape(id)}
}

// Group has verbs and views of a consumer group. Members are named by member id, group.instance.id or client.id.
type Group struct {
	k        *Kohort
	id, path string
}

// Description of a group at a moment.
type Description struct {
	State       string
	Generation  int
	Protocol    string
	Leader      string
	Coordinator int
	Held        string
	MaxSize     *int `json:"max_size"`
	Rebalances  int
	Members     []Member
}

// Member of a group at a moment.
type Member struct {
	MemberID   string             `json:"member_id"`
	InstanceID string             `json:"instance_id"` // empty for a dynamic member
	ClientID   string             `json:"client_id"`
	Host       string             `json:"host"`
	IsMuted    bool               `json:"is_muted"`
	WaitsFor   string             `json:"waits_for"` // "join", "sync" or nothing
	Assignment map[string][]int32 `json:"assignment"`
}

// Member returns the member of a client id; the zero Member if there is none.
func (d Description) Member(clientID string) Member {
	for _, each := range d.Members {
		if each.ClientID == clientID {
			return each
		}
	}
	return Member{}
}

// Offset is a partition's committed offset, end and lag; Committed is nil where nothing is committed.
type Offset struct {
	Topic     string
	Partition int32
	Committed *int64
	End       int64
	Lag       *int64
}

// Delivery is a group's account of delivery; Words has it in one sentence. Records sent again are counted as certain if
// they were committed before, else as possible.
type Delivery struct {
	Words          string
	Records        int64
	Committed      int64
	Uncommitted    int64
	AgainCertain   int64 `json:"again_certain"`
	AgainPossible  int64 `json:"again_possible"`
	SkippedRecords int64 `json:"skipped_records"`
	Again          []DeliveryRow
	Skipped        []DeliveryRow
	WentBack       []WentBack `json:"went_back"`
}

// DeliveryRow is a range of records, from First up to the one before End.
type DeliveryRow struct {
	Topic     string
	Partition int32
	First     int64
	End       int64
	Records   int64
	Reason    string
	Reader    string
	IsCertain bool `json:"is_certain"`
}

// WentBack is a commit below the committed offset.
type WentBack struct {
	Topic     string
	Partition int32
	Previous  int64
	Offset    int64
	Reason    string
	ClientID  string `json:"client_id"`
}

type fields = map[string]any

func (g *Group) verb(name string, body fields) Description {
	g.k.t.Helper()
	var found Description
	g.k.post(g.path+"/"+name, body, &found)
	return found
}

// Kick removes a member; it learns so from its next request, and may join again. The reason is in the group's story.
func (g *Group) Kick(member, reason string) Description {
	g.k.t.Helper()
	return g.verb("kick", fields{"member": member, "reason": reason})
}

// Expire ends a member's session now, whatever its session timeout is.
func (g *Group) Expire(member string) Description {
	g.k.t.Helper()
	return g.verb("expire", fields{"member": member})
}

// Mute lets nothing that a member sends count as a sign of life any more.
func (g *Group) Mute(member string) Description {
	g.k.t.Helper()
	return g.verb("mute", fields{"member": member})
}

// Unmute is the opposite of Mute.
func (g *Group) Unmute(member string) Description {
	g.k.t.Helper()
	return g.verb("unmute", fields{"member": member})
}

// Rebalance starts a rebalance. The reason is in the group's story.
func (g *Group) Rebalance(reason string) Description {
	g.k.t.Helper()
	return g.verb("rebalance", fields{"reason": reason})
}

// Hold holds the group in a state, PreparingRebalance or CompletingRebalance, until Release: now, or as soon as it is
// in that state. By default it is the state of the rebalance under way, else PreparingRebalance.
func (g *Group) Hold(state ...string) Description {
	g.k.t.Helper()
	if len(state) == 0 {
		return g.verb("hold", fields{})
	}
	return g.verb("hold", fields{"state": state[0]})
}

// Release is the opposite of Hold.
func (g *Group) Release() Description {
	g.k.t.Helper()
	return g.verb("release", fields{})
}

// Move makes a node the group's coordinator: the next running one, unless another is given.
func (g *Group) Move(node ...int) Description {
	g.k.t.Helper()
	if len(node) == 0 {
		return g.verb("move", fields{})
	}
	return g.verb("move", fields{"node": node[0]})
}

// Limit is group.max.size for this group (KIP-389).
func (g *Group) Limit(maxSize int) Description {
	g.k.t.Helper()
	return g.verb("limit", fields{"max_size": maxSize})
}

// Unlimit leaves the group's size to the broker's settings.
func (g *Group) Unlimit() Description {
	g.k.t.Helper()
	return g.verb("limit", fields{"max_size": nil})
}

// Describe returns the group as it is.
func (g *Group) Describe() Description {
	g.k.t.Helper()
	var found Description
	g.k.check(g.k.Ask(http.MethodGet, g.path, nil, &found))
	return found
}

// Offsets returns committed offset, end and lag of each partition.
func (g *Group) Offsets() []Offset {
	g.k.t.Helper()
	var found struct{ Offsets []Offset }
	g.k.check(g.k.Ask(http.MethodGet, g.path+"/offsets", nil, &found))
	return found.Offsets
}

// Delivery returns what became of the records that the group was sent, once each partition that moved was fetched.
func (g *Group) Delivery() Delivery {
	g.k.t.Helper()
	var found Delivery
	g.k.check(g.k.Ask(http.MethodGet, g.path+"/delivery", nil, &found))
	return found
}

// Why returns why the group rebalanced, in the sentences of "kohort why".
func (g *Group) Why() string {
	g.k.t.Helper()
	story, err := g.k.story(g.id)
	g.k.check(err)
	return story
}

// Condition is one of those that Until waits for.
type Condition func(url.Values)

func condition(name string, value any) Condition {
	return func(query url.Values) { query.Set(name, fmt.Sprint(value)) }
}

// State is the name of the group's state: Empty, PreparingRebalance, CompletingRebalance, Stable or Dead.
func State(name string) Condition { return condition("state", name) }

// Members is the number of members.
func Members(count int) Condition { return condition("members", count) }

// Generation is the least generation.
func Generation(number int) Condition { return condition("generation", number) }

// Rebalances is the least number of rebalances that have ended.
func Rebalances(count int) Condition { return condition("rebalances", count) }

// Assigned is that the group is Stable, and each member has partitions.
func Assigned() Condition { return condition("assigned", true) }

// Committed is the least offset that is committed.
func Committed(topic string, partition int32, offset int64) Condition {
	return func(query url.Values) {
		query.Set("topic", topic)
		query.Set("partition", fmt.Sprint(partition))
		query.Set("offset", fmt.Sprint(offset))
	}
}

// Lag is the most records that are not committed.
func Lag(records int64) Condition { return condition("lag", records) }

// Within is the longest wait; 10 seconds by default.
func Within(longest time.Duration) Condition { return condition("timeout", longest.Seconds()) }

// Until waits for all of some conditions. A time-out fails the test with the group's story.
func (g *Group) Until(conditions ...Condition) Description {
	g.k.t.Helper()
	query := url.Values{"timeout": {"10"}}
	for _, each := range conditions {
		each(query)
	}
	seconds, _ := strconv.ParseFloat(query.Get("timeout"), 64)
	longest := answerTime + time.Duration(seconds*float64(time.Second))
	var found Description
	g.k.check(g.k.ask(http.MethodGet, g.path+"/until?"+query.Encode(), nil, &found, longest))
	return found
}

// Stable waits until the group is Stable with this number of members.
func (g *Group) Stable(members int) Description {
	g.k.t.Helper()
	return g.Until(State("Stable"), Members(members))
}

// CaughtUp waits until every record of the group's topics is committed.
func (g *Group) CaughtUp() Description {
	g.k.t.Helper()
	return g.Until(Lag(0))
}

// Transaction returns a transactional id, which need not exist yet.
func (k *Kohort) Transaction(id string) *Transaction {
	return &Transaction{k, "/v1/transactions/" + url.PathEscape(id)}
}

// Transaction has verbs and views of a transactional.id.
type Transaction struct {
	k    *Kohort
	path string
}

// TransactionDescription is a transactional id at a moment; Partitions and Groups are those of its transaction, which
// only Describe returns.
type TransactionDescription struct {
	State         string
	ProducerID    int64 `json:"producer_id"`
	ProducerEpoch int   `json:"producer_epoch"`
	Coordinator   int
	Held          string // the state of its hold; empty if it is not held
	Groups        []string
	Partitions    []TransactionPartition
}

// TransactionPartition is a partition of a transaction.
type TransactionPartition struct {
	Topic     string
	Partition int32
	IsMarked  bool `json:"is_marked"` // it has the marker
}

func (x *Transaction) verb(name string, body fields) TransactionDescription {
	x.k.t.Helper()
	var found TransactionDescription
	x.k.post(x.path+"/"+name, body, &found)
	return found
}

// Fence fences the producer: raises the epoch, and aborts an open transaction.
func (x *Transaction) Fence() TransactionDescription {
	x.k.t.Helper()
	return x.verb("fence", fields{})
}

// Expire aborts the open transaction, as transaction.timeout.ms does.
func (x *Transaction) Expire() TransactionDescription {
	x.k.t.Helper()
	return x.verb("expire", fields{})
}

// Hold holds the next transaction in a state, PrepareCommit or PrepareAbort, before its markers are written, until
// Release. By default it is PrepareCommit.
func (x *Transaction) Hold(state ...string) TransactionDescription {
	x.k.t.Helper()
	if len(state) == 0 {
		return x.verb("hold", fields{})
	}
	return x.verb("hold", fields{"state": state[0]})
}

// Release is the opposite of Hold.
func (x *Transaction) Release() TransactionDescription {
	x.k.t.Helper()
	return x.verb("release", fields{})
}

// Move makes a node the coordinator: the next running one, unless another is given.
func (x *Transaction) Move(node ...int) TransactionDescription {
	x.k.t.Helper()
	if len(node) == 0 {
		return x.verb("move", fields{})
	}
	return x.verb("move", fields{"node": node[0]})
}

// Describe returns the transactional id as it is.
func (x *Transaction) Describe() TransactionDescription {
	x.k.t.Helper()
	var found TransactionDescription
	x.k.check(x.k.Ask(http.MethodGet, x.path, nil, &found))
	return found
}

// Until waits until the transactional id is in a state, with Kafka's name, as in "Ongoing"; at most 10 seconds.
func (x *Transaction) Until(state string) TransactionDescription {
	x.k.t.Helper()
	var found TransactionDescription
	query := url.Values{"state": {state}}
	x.k.check(x.k.Ask(http.MethodGet, x.path+"/until?"+query.Encode(), nil, &found))
	return found
}

// StopNode stops a node; others take over its partitions and groups.
func (k *Kohort) StopNode(id int) {
	k.t.Helper()
	k.post(fmt.Sprintf("/v1/nodes/%d/stop", id), fields{}, nil)
}

// StartNode starts a node again, on its port.
func (k *Kohort) StartNode(id int) {
	k.t.Helper()
	k.post(fmt.Sprintf("/v1/nodes/%d/start", id), fields{}, nil)
}

// RestartNode stops a node, and starts it again.
func (k *Kohort) RestartNode(id int) {
	k.t.Helper()
	k.post(fmt.Sprintf("/v1/nodes/%d/restart", id), fields{}, nil)
}

// Advance moves the broker's clock, and fires each timer that is due by then, in order. Members with a connection
// count as heard from.
func (k *Kohort) Advance(by time.Duration) {
	k.t.Helper()
	k.post("/v1/clock/advance", fields{"seconds": by.Seconds()}, nil)
}

// AdvanceUnheard is Advance where sessions of members end that send no heartbeat meanwhile.
func (k *Kohort) AdvanceUnheard(by time.Duration) {
	k.t.Helper()
	k.post("/v1/clock/advance", fields{"seconds": by.Seconds(), "credit_heartbeats": false}, nil)
}

// Rule by which the broker misbehaves; kohort's page on faults has its keys.
type Rule map[string]any

// Faults are the rules of a broker.
type Faults struct{ k *Kohort }

// Faults returns the broker's rules.
func (k *Kohort) Faults() Faults { return Faults{k} }

// Add adds a rule: Rule{"api": "Fetch", "once": true, "disconnect": "before"}.
func (f Faults) Add(rule Rule) *Fault {
	f.k.t.Helper()
	var added struct{ ID int }
	f.k.post("/v1/faults", rule, &added)
	return &Fault{f.k, fmt.Sprintf("/v1/faults/%d", added.ID)}
}

// Fail makes an API answer with an error, as in Fail("OffsetCommit", "NOT_COORDINATOR", Rule{"times": 2}).
func (f Faults) Fail(api, error string, when Rule) *Fault {
	f.k.t.Helper()
	return f.Add(when.with("api", api).with("error", error))
}

// Delay makes an API answer later, as in Delay("JoinGroup", 2*time.Second, Rule{"client_id": "billing-1"}).
func (f Faults) Delay(api string, by time.Duration, when Rule) *Fault {
	f.k.t.Helper()
	return f.Add(when.with("api", api).with("delay_ms", by.Milliseconds()))
}

// Clear removes all rules.
func (f Faults) Clear() {
	f.k.t.Helper()
	f.k.check(f.k.Ask(http.MethodDelete, "/v1/faults", nil, nil))
}

func (rule Rule) with(key string, value any) Rule {
	copied := Rule{key: value}
	for each := range rule {
		copied[each] = rule[each]
	}
	return copied
}

// Fault is a rule that was added.
type Fault struct {
	k    *Kohort
	path string
}

// Strikes returns how often it has struck.
func (f *Fault) Strikes() int {
	f.k.t.Helper()
	var found struct{ Strikes int }
	f.k.check(f.k.Ask(http.MethodGet, f.path, nil, &found))
	return found.Strikes
}

// Remove removes it.
func (f *Fault) Remove() {
	f.k.t.Helper()
	f.k.check(f.k.Ask(http.MethodDelete, f.path, nil, nil))
}
