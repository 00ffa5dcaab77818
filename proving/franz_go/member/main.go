// Group members of franz-go, as many as wanted in one process. Each line of input is told to a member,
// {do: "join", "commit alone", "produce", "pause", "resume" or "close", member, ...}; each line of output is what a
// member tells, {at, member, kind, ...}. `at` is the machine's monotonic clock in seconds, as in the Python members.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	monotonic = 1 // CLOCK_MONOTONIC
	poll      = 50 * time.Millisecond
)

// What a member is told: the first time what it is to be.
type order struct {
	Do          string
	Member      string
	Group       string
	Topics      []string
	Pattern     *string
	Assignor    string
	InstanceID  *string `json:"instance_id"`
	SessionMs   *int    `json:"session_ms"`
	HeartbeatMs *int    `json:"heartbeat_ms"`
	MaxPollMs   *int    `json:"max_poll_ms"`
	MetadataMs  *int    `json:"metadata_age_ms"`
	FetchWaitMs *int    `json:"fetch_wait_ms"`
	Commit      string
	CommitMs    *int `json:"commit_ms"`
	Place       []any
	Offset      int64
	Places      [][]any
	Count       int
	Security    *security
}

type fields map[string]any

type member struct {
	order
	pausing atomic.Bool
	resumed chan struct{}
	closing atomic.Bool
}

var speaking sync.Mutex

func now() float64 {
	var at syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&at)), 0)
	return float64(at.Nano()) / 1e9
}

func (m *member) say(kind string, more fields) {
	speaking.Lock()
	defer speaking.Unlock()
	line := fields{"at": now(), "member": m.Member, "kind": kind}
	for name, value := range more {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(text, '\n'))
}

func (m *member) tellPlaces(kind string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		places := [][]any{}
		for topic, partitions := range topics {
			for _, partition := range partitions {
				places = append(places, []any{topic, partition})
			}
		}
		m.say(kind, fields{"places": places})
	}
}

// What the group's loop meets and does not give up for.
func (m *member) OnGroupManageError(err error) {
	m.say("trouble", fields{"error": err.Error()})
}

func (m *member) options() []kgo.Opt {
	options := []kgo.Opt{
		kgo.WithHooks(m),
		kgo.ConsumerGroup(m.Group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(m.tellPlaces("assigned")),
		kgo.OnPartitionsRevoked(m.tellPlaces("revoked")),
		kgo.OnPartitionsLost(m.tellPlaces("lost")),
		kgo.BlockRebalanceOnPoll(),
	}
	if m.Assignor == "consumer" { // the broker assigns
		options = append(options, kgo.ServerSideBalancer())
	} else {
		options = append(options, kgo.Balancers(m.balancers()...))
	}
	if m.Pattern == nil {
		options = append(options, kgo.ConsumeTopics(m.Topics...))
	} else {
		pattern := "^" + *m.Pattern
		if m.Assignor == "consumer" { // the broker's regexes match whole names
			pattern += ".*"
		}
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(pattern))
	}
	if m.InstanceID != nil {
		options = append(options, kgo.InstanceID(*m.InstanceID))
	}
	if m.Commit != "auto" {
		options = append(options, kgo.DisableAutoCommit())
	} else if m.CommitMs != nil {
		options = append(options, kgo.AutoCommitInterval(ms(m.CommitMs)))
	}
	return append(options, m.times()...)
}

// Those that are given; the others are left to franz-go.
func (m *member) times() (options []kgo.Opt) {
	if m.SessionMs != nil && m.Assignor != "consumer" {
		options = append(options, kgo.SessionTimeout(ms(m.SessionMs)))
	}
	if m.HeartbeatMs != nil && m.Assignor != "consumer" {
		options = append(options, kgo.HeartbeatInterval(ms(m.HeartbeatMs)))
	}
	if m.MaxPollMs != nil {
		options = append(options, kgo.RebalanceTimeout(ms(m.MaxPollMs)))
	}
	if m.MetadataMs != nil {
		options = append(options, kgo.MetadataMaxAge(ms(m.MetadataMs)), kgo.MetadataMinAge(100*time.Millisecond))
	}
	if m.FetchWaitMs != nil {
		options = append(options, kgo.FetchMaxWait(ms(m.FetchWaitMs)))
	}
	return options
}

func ms(count *int) time.Duration { return time.Duration(*count) * time.Millisecond }

func (m *member) balancers() (balancers []kgo.GroupBalancer) {
	known := map[string]func() kgo.GroupBalancer{
		"range":              kgo.RangeBalancer,
		"roundrobin":         kgo.RoundRobinBalancer,
		"sticky":             kgo.StickyBalancer,
		"cooperative-sticky": kgo.CooperativeStickyBalancer,
	}
	for _, name := range strings.Split(m.Assignor, ",") {
		balancers = append(balancers, known[name]())
	}
	return balancers
}

// A client that reaches the brokers; nil, and the reason told: there is none.
func (m *member) open(bootstrapServers string, more ...kgo.Opt) *kgo.Client {
	options, err := m.reach(bootstrapServers)
	if err == nil {
		var client *kgo.Client
		if client, err = kgo.NewClient(append(options, more...)...); err == nil {
			return client
		}
	}
	m.say("error", fields{"error": err.Error()})
	return nil
}

func (m *member) live(bootstrapServers string) {
	client := m.open(bootstrapServers, m.options()...)
	if client == nil {
		return
	}
	m.ping(client)
	for !m.closing.Load() {
		m.consume(client)
	}
	m.say("stopped", nil)
	client.CloseAllowingRebalance()
	m.say("closed", nil)
}

// A client that is not let in tries on in silence: who wants to know asks first.
func (m *member) ping(client *kgo.Client) {
	if m.Security == nil {
		return
	}
	if err := client.Ping(context.Background()); err != nil {
		m.say("trouble", fields{"error": err.Error()})
	}
}

func (m *member) consume(client *kgo.Client) {
	patience, cancel := context.WithTimeout(context.Background(), poll)
	defer cancel()
	defer client.AllowRebalance()
	fetches := client.PollFetches(patience)
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			m.say("trouble", fields{"error": err.Error()})
		}
	})
	records := fetches.Records()
	if len(records) == 0 {
		return
	}
	rows := [][]any{}
	for _, record := range records {
		rows = append(rows, []any{record.Topic, record.Partition, record.Offset})
	}
	m.say("records", fields{"rows": rows})
	if m.pausing.Swap(false) {
		m.say("paused", nil)
		<-m.resumed
	}
	if m.Commit == "auto" {
		return
	}
	m.tellCommit(client.CommitRecords(context.Background(), records...))
}

func (m *member) tellCommit(err error) {
	if err != nil {
		m.say("refused", fields{"error": nameOf(err)})
	} else {
		m.say("committed", nil)
	}
}

// By a client that is no member of the group.
func (m *member) commitAlone(bootstrapServers string) {
	client := m.open(bootstrapServers)
	if client == nil {
		return
	}
	defer client.Close()
	offsets := kadm.Offsets{}
	offsets.AddOffset(m.Place[0].(string), int32(m.Place[1].(float64)), m.Offset, -1)
	answered, err := kadm.NewClient(client).CommitOffsets(context.Background(), m.Group, offsets)
	if err == nil {
		err = answered.Error()
	}
	m.tellCommit(err)
	m.say("closed", nil)
}

func (m *member) produce(bootstrapServers string) {
	client := m.open(bootstrapServers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if client == nil {
		return
	}
	defer client.Close()
	records := []*kgo.Record{}
	for _, place := range m.Places {
		for number := range m.Count {
			value := []byte(strconv.Itoa(number))
			record := &kgo.Record{Topic: place[0].(string), Partition: int32(place[1].(float64)), Value: value}
			records = append(records, record)
		}
	}
	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		m.say("error", fields{"error": err.Error()})
	}
	m.say("closed", nil)
}

func nameOf(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}

func main() {
	members := map[string]*member{}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var told order
		if err := json.Unmarshal(input.Bytes(), &told); err != nil {
			panic(err)
		}
		switch told.Do {
		case "join":
			joined := &member{order: told, resumed: make(chan struct{}, 1)}
			members[told.Member] = joined
			go joined.live(os.Args[1])
		case "commit alone":
			go (&member{order: told}).commitAlone(os.Args[1])
		case "produce":
			go (&member{order: told}).produce(os.Args[1])
		case "pause":
			members[told.Member].pausing.Store(true)
			members[told.Member].say("pausing", nil)
		case "resume":
			members[told.Member].resumed <- struct{}{}
		case "close":
			members[told.Member].closing.Store(true)
		}
	}
}
