// Group members of sarama, as many as wanted in one process, told and telling as those of franz-go beside. sarama has
// eager assignors alone. Its application reads within a session, which begins with Setup and ends with Cleanup.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/IBM/sarama"
)

const monotonic = 1 // CLOCK_MONOTONIC

// What a member is told: the first time what it is to be.
type order struct {
	Do          string
	Member      string
	Group       string
	Topics      []string
	Assignor    string
	InstanceID  *string `json:"instance_id"`
	SessionMs   *int    `json:"session_ms"`
	HeartbeatMs *int    `json:"heartbeat_ms"`
	MaxPollMs   *int    `json:"max_poll_ms"`
	MetadataMs  *int    `json:"metadata_age_ms"`
	FetchWaitMs *int    `json:"fetch_wait_ms"`
	Commit      string
	CommitMs    *int `json:"commit_ms"`
}

type fields map[string]any

type member struct {
	order
	closing context.Context
	close   context.CancelFunc
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

func (m *member) sayPlaces(kind string, session sarama.ConsumerGroupSession) {
	places := [][]any{}
	for topic, partitions := range session.Claims() {
		for _, partition := range partitions {
			places = append(places, []any{topic, partition})
		}
	}
	m.say(kind, fields{"places": places})
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.sayPlaces("assigned", session)
	return nil
}

func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	m.sayPlaces("revoked", session)
	return nil
}

// One for each partition, until the session ends.
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			m.say("records", fields{"rows": [][]any{{message.Topic, message.Partition, message.Offset}}})
			session.MarkMessage(message, "")
			if m.Commit != "auto" {
				session.Commit()
			}
		}
	}
}

func (m *member) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = m.Commit == "auto"
	config.Consumer.Group.Rebalance.GroupStrategies = m.strategies()
	if m.InstanceID != nil {
		config.Consumer.Group.InstanceId = *m.InstanceID
	}
	set(&config.Consumer.Group.Session.Timeout, m.SessionMs)
	set(&config.Consumer.Group.Heartbeat.Interval, m.HeartbeatMs)
	set(&config.Consumer.Group.Rebalance.Timeout, m.MaxPollMs)
	set(&config.Consumer.Offsets.AutoCommit.Interval, m.CommitMs)
	set(&config.Consumer.MaxWaitTime, m.FetchWaitMs)
	set(&config.Metadata.RefreshFrequency, m.MetadataMs)
	config.Net.ReadTimeout = max(config.Net.ReadTimeout, config.Consumer.Group.Rebalance.Timeout+time.Second)
	return config
}

// What is not given is left to sarama.
func set(value *time.Duration, ms *int) {
	if ms != nil {
		*value = time.Duration(*ms) * time.Millisecond
	}
}

func (m *member) strategies() (strategies []sarama.BalanceStrategy) {
	known := map[string]func() sarama.BalanceStrategy{
		"range":      sarama.NewBalanceStrategyRange,
		"roundrobin": sarama.NewBalanceStrategyRoundRobin,
		"sticky":     sarama.NewBalanceStrategySticky,
	}
	for _, name := range strings.Split(m.Assignor, ",") {
		strategies = append(strategies, known[name]())
	}
	return strategies
}

func (m *member) live(bootstrapServers string) {
	group, err := sarama.NewConsumerGroup(strings.Split(bootstrapServers, ","), m.Group, m.config())
	if err != nil {
		m.say("error", fields{"error": err.Error()})
		return
	}
	go func() {
		for err := range group.Errors() {
			m.say("trouble", fields{"error": err.Error()})
		}
	}()
	for m.closing.Err() == nil {
		if err := group.Consume(m.closing, m.Topics, m); err != nil {
			m.say("trouble", fields{"error": err.Error()})
		}
	}
	m.say("stopped", nil)
	if err := group.Close(); err != nil {
		m.say("trouble", fields{"error": err.Error()})
	}
	m.say("closed", nil)
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
			closing, end := context.WithCancel(context.Background())
			members[told.Member] = &member{order: told, closing: closing, close: end}
			go members[told.Member].live(os.Args[1])
		case "close":
			members[told.Member].close()
		}
	}
}
