package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// read follows a topic from its end with the client's default settings, until it is ended, and says of which
// partition it received something, and when.
func read(bootstrap, topic string) {
	reader := client(bootstrap, kgo.ConsumeTopics(topic), kgo.ConsumerGroup("reads-with-franz-go"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	defer reader.Close()
	for {
		fetches := reader.PollFetches(context.Background())
		now := float64(time.Now().UnixMilli()) / 1000
		fetches.EachPartition(func(found kgo.FetchTopicPartition) {
			if len(found.Records) > 0 {
				fmt.Printf("%d %.3f\n", found.Partition, now)
			}
		})
	}
}
