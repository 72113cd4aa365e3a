package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transform copies a topic in transactions, as a member of a group, until it is killed.
func transform(bootstrap, input, output, name string) {
	for {
		session, err := kgo.NewGroupTransactSession(
			kgo.SeedBrokers(bootstrap),
			kgo.TransactionalID(name),
			kgo.TransactionTimeout(10*time.Second),
			kgo.ConsumerGroup("go-transformers"),
			kgo.ConsumeTopics(input),
			kgo.SessionTimeout(6*time.Second),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.RequireStableFetchOffsets(),
		)
		must(err)
		err = copyAll(session, output)
		fmt.Fprintln(os.Stderr, "begins anew:", err)
		session.Close()
	}
}

// copyAll returns when a transaction can neither be committed nor aborted.
func copyAll(session *kgo.GroupTransactSession, output string) error {
	ctx := context.Background()
	for {
		fetches := session.PollRecords(ctx, 20)
		if fetches.Empty() {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		written := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: output, Value: record.Value}, written.Promise())
		})
		if _, err := session.End(ctx, kgo.TransactionEndTry(written.Err() == nil)); err != nil {
			return err
		}
	}
}
