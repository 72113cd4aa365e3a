// Everyday work of a Go application with franz-go: a group whose members come and go, commits that
// are found again, and transactions of which only the committed ones are read. Told to transform, it
// copies a topic in transactions instead; told to read, it follows one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const records = 600

// work is how long the application has to do with what one poll gives it.
const work = 50 * time.Millisecond

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(bootstrap string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...)}, options...)...)
	must(err)
	return made
}

// produce writes numbered records and waits for every acknowledgement.
func produce(ctx context.Context, bootstrap, topic string) {
	producer := client(bootstrap, kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()))
	defer producer.Close()
	for number := range records {
		value := []byte(fmt.Sprintf("%d", number))
		producer.Produce(ctx, &kgo.Record{Key: value, Value: value}, func(_ *kgo.Record, err error) { must(err) })
	}
	must(producer.Flush(ctx))
}

// seen counts how often each value was read, by all members together.
type seen struct {
	sync.Mutex
	values map[string]int
}

func (s *seen) count() int {
	s.Lock()
	defer s.Unlock()
	return len(s.values)
}

// member reads in a group and commits what it has read, until told to leave.
func member(ctx context.Context, bootstrap, topic, group string, into *seen, done *sync.WaitGroup) {
	defer done.Done()
	reader := client(bootstrap, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())
	defer reader.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := reader.PollRecords(ctx, 20)
		for _, problem := range fetches.Errors() {
			if !errors.Is(problem.Err, context.Canceled) {
				must(problem.Err)
			}
		}
		into.Lock()
		fetches.EachRecord(func(record *kgo.Record) { into.values[string(record.Value)]++ })
		into.Unlock()
		if !fetches.Empty() {
			time.Sleep(work)
			must(reader.CommitUncommittedOffsets(context.Background()))
		}
		reader.AllowRebalance()
	}
}

func groupWork(ctx context.Context, bootstrap, topic, group string) {
	into := &seen{values: map[string]int{}}
	var done sync.WaitGroup
	first, leaveFirst := context.WithCancel(ctx)
	done.Add(1)
	go member(first, bootstrap, topic, group, into, &done)
	waitFor(ctx, func() bool { return into.count() > 20 })
	second, leaveSecond := context.WithCancel(ctx)
	done.Add(1)
	go member(second, bootstrap, topic, group, into, &done)
	waitFor(ctx, func() bool { return into.count() == records })
	leaveFirst()
	leaveSecond()
	done.Wait()
	admin := kadm.NewClient(client(bootstrap))
	defer admin.Close()
	var lag kadm.DescribedGroupLags
	waitFor(ctx, func() bool { // an administrator is told of a broker that is down, and asks again
		found, err := admin.Lag(ctx, group)
		lag = found
		return err == nil && found.Error() == nil
	})
	if left := lag[group].Lag.Total(); left != 0 {
		must(fmt.Errorf("%d records are not committed", left))
	}
}

func waitFor(ctx context.Context, condition func() bool) {
	for !condition() {
		select {
		case <-ctx.Done():
			must(ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// transactions writes three of them, aborts one, and reads back what was committed.
func transactions(ctx context.Context, bootstrap, topic string) {
	writer := client(bootstrap, kgo.DefaultProduceTopic(topic), kgo.TransactionalID("from-go"))
	defer writer.Close()
	for number, ending := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		must(writer.BeginTransaction())
		for range 10 {
			value := []byte(fmt.Sprintf("%d", number))
			writer.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) { must(err) })
		}
		must(writer.Flush(ctx))
		must(writer.EndTransaction(ctx, ending))
	}
	reader := client(bootstrap, kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	counts := map[string]int{}
	for total := 0; total < 20; {
		fetches := reader.PollFetches(ctx)
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { counts[string(record.Value)]++; total++ })
	}
	if counts["0"] != 10 || counts["1"] != 0 || counts["2"] != 10 {
		must(fmt.Errorf("read %v instead of ten of each committed transaction", counts))
	}
}

func main() {
	if os.Args[1] == "transform" {
		transform(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
		return
	}
	if os.Args[1] == "read" {
		read(os.Args[2], os.Args[3])
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	bootstrap, topic := os.Args[1], os.Args[2]
	produce(ctx, bootstrap, topic)
	groupWork(ctx, bootstrap, topic, "go-group")
	transactions(ctx, bootstrap, topic+"-transactions")
	fmt.Println("well")
}
