// Transactional producers of franz-go, and readers of partitions, as asked on stdin: a line of words for each request,
// and a line for each answer, `ok` with words or `error` with a text.
//
//	open BOOTSTRAP ID TIMEOUT_MS       a producer that has claimed its id; the answer is its number
//	begin N, commit N, abort N, close N
//	send N TOPIC PARTITION VALUE       answered when the broker has it
//	read BOOTSTRAP TOPIC PARTITION ISOLATION_LEVEL   all values up to the end that this level has
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = time.Minute

var opened []*kgo.Client

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		answer, err := serve(words[0], words[1:])
		if err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println(strings.TrimSpace("ok " + answer))
		}
	}
}

func serve(what string, words []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch what {
	case "open":
		return open(ctx, words[0], words[1], words[2])
	case "read":
		return read(ctx, words[0], words[1], number(words[2]), words[3])
	}
	client := opened[number(words[0])]
	switch what {
	case "begin":
		return "", client.BeginTransaction()
	case "send":
		record := &kgo.Record{Topic: words[1], Partition: int32(number(words[2])), Value: []byte(words[3])}
		return "", client.ProduceSync(ctx, record).FirstErr()
	case "commit":
		return "", client.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		return "", client.EndTransaction(ctx, kgo.TryAbort)
	case "close":
		client.Close()
		return "", nil
	}
	return "", errors.New("no such request: " + what)
}

func open(ctx context.Context, address, id, timeout string) (string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.TransactionalID(id),
		kgo.TransactionTimeout(time.Duration(number(timeout))*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordDeliveryTimeout(patience))
	if err != nil {
		return "", err
	}
	opened = append(opened, client)
	_, _, err = client.ProducerID(ctx) // claims the id
	return strconv.Itoa(len(opened) - 1), err
}

// Markers are kept: the last one may be all that is at the end.
func read(ctx context.Context, address, topic string, partition int, level string) (string, error) {
	isolation := kgo.ReadUncommitted()
	if level == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	places := map[string]map[int32]kgo.Offset{topic: {int32(partition): kgo.NewOffset().AtStart()}}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumePartitions(places),
		kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	if err != nil {
		return "", err
	}
	defer client.Close()
	end, err := endOf(ctx, client, topic, int32(partition), level)
	var values []string
	for next := int64(0); err == nil && next < end; {
		fetches := client.PollFetches(ctx)
		err = fetches.Err()
		fetches.EachRecord(func(record *kgo.Record) {
			next = record.Offset + 1
			if !record.Attrs.IsControl() {
				values = append(values, string(record.Value))
			}
		})
	}
	return strings.Join(values, " "), err
}

func endOf(ctx context.Context, client *kgo.Client, topic string, partition int32, level string) (int64, error) {
	admin := kadm.NewClient(client)
	ask := admin.ListEndOffsets
	if level == "read_committed" {
		ask = admin.ListCommittedOffsets
	}
	ends, err := ask(ctx, topic)
	if err != nil {
		return 0, err
	}
	found, _ := ends.Lookup(topic, partition)
	return found.Offset, found.Err
}

func number(word string) int {
	found, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return found
}
