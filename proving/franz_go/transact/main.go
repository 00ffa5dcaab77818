// A transactional producer of franz-go, and a reader of what is committed: transact BOOTSTRAP TOPIC ID COUNT.
// Of every three transactions the last is aborted. It prints the values that a reader of committed records gets.
// With COUNT 0 it leaves a transaction open, and ends without a word.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	address, topic, id := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	must(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(err)
	if count == 0 {
		must(client.BeginTransaction())
		must(client.ProduceSync(ctx, &kgo.Record{Value: []byte("left")}).FirstErr())
		os.Exit(0)
	}
	for number := range count {
		must(client.BeginTransaction())
		must(client.ProduceSync(ctx, &kgo.Record{Value: []byte(strconv.Itoa(number))}).FirstErr())
		must(client.EndTransaction(ctx, kgo.TransactionEndTry(number%3 != 2)))
	}
	client.Close()
	read(ctx, address, topic, count-count/3)
}

// Waits for so many values: those that are aborted would come between them.
func read(ctx context.Context, address, topic string, wanted int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(err)
	defer client.Close()
	for found := 0; found < wanted; {
		fetches := client.PollFetches(ctx)
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(string(record.Value))
			found++
		})
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
