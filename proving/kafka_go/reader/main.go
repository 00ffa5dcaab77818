// reader BOOTSTRAP TOPIC MOST: reads partition 0 of a topic with kafka-go, from the beginning to the end that it has
// now, and prints the offset of each message. It gives up after MOST messages: a reader that is led astray has no end.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: reader BOOTSTRAP TOPIC MOST"))
	}
	address, topic := os.Args[1], os.Args[2]
	most, err := strconv.Atoi(os.Args[3])
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	leader, err := kafka.DialLeader(ctx, "tcp", address, topic, 0)
	check(err)
	end, err := leader.ReadLastOffset()
	check(err)
	check(leader.Close())
	// A fetch of few bytes brings few batches: one that has lost all its records would come alone.
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{address}, Topic: topic, Partition: 0, MinBytes: 1, MaxBytes: 4000, MaxWait: 100 * time.Millisecond,
	})
	check(reader.SetOffset(kafka.FirstOffset))
	for count := 0; ; count++ {
		message, err := reader.ReadMessage(ctx)
		check(err)
		fmt.Println(message.Offset)
		if message.Offset >= end-1 || count >= most {
			break
		}
	}
	check(reader.Close())
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
