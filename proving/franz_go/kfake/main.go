// kfake, franz-go's Kafka in memory, as a process: kfake PORT NAME=VALUE ... It runs until it is killed.
package main

import (
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	settings := map[string]string{}
	for _, word := range os.Args[2:] {
		name, value, _ := strings.Cut(word, "=")
		settings[name] = value
	}
	if _, err := kfake.NewCluster(kfake.Ports(port), kfake.BrokerConfigs(settings)); err != nil {
		log.Fatal(err)
	}
	select {}
}
