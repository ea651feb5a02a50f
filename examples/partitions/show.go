// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/examples/internal/database"
	"github.com/signalbox-go/signalbox/shards"
)

// message is what stands in a partition at a position.
type message struct{ position int64 }

// queue has as many messages in each partition.
type queue struct {
	mu     sync.Mutex
	length int64
	grown  chan struct{} // closed when there is another message
}

func newQueue() *queue { return &queue{grown: make(chan struct{})} }

// publish adds a message to each partition, and returns how many it has.
func (q *queue) publish() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.length++
	close(q.grown)
	q.grown = make(chan struct{})
	return q.length
}

// next returns the message at a position of a partition when it is there, or false if ctx ends.
func (q *queue) next(ctx context.Context, _ int, position int64) (message, bool) {
	for {
		q.mu.Lock()
		length, grown := q.length, q.grown
		q.mu.Unlock()
		if position < length {
			return message{position}, ctx.Err() == nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return message{}, false
		}
	}
}

// consumer is what would be a process.
type consumer struct {
	session *signalbox.Session
	stop    context.CancelFunc // what SIGTERM would do
	ended   chan error
}

func start(ctx context.Context, url, label string, db *sql.DB, messages *queue) (*consumer, error) {
	session, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"), signalbox.WithLabel(label))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	c := &consumer{session, stop, make(chan error, 1)}
	go func() { c.ended <- consume(ctx, session, db, messages.next) }()
	return c, nil
}

// end ends a consumer, and returns when its partitions are released.
func (c *consumer) end(ctx context.Context) error {
	c.stop()
	err := <-c.ended
	c.session.Close(context.WithoutCancel(ctx))
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// show lets a third consumer join two others, ends the first one, and writes in its name.
func show(ctx context.Context, url string) error {
	db, err := database.Open(ctx, schema)
	if err != nil {
		return err
	}
	defer db.Close()
	observer, err := signalbox.Dial(ctx, url, signalbox.WithPrefix("shop:"))
	if err != nil {
		return err
	}
	defer observer.Close(context.WithoutCancel(ctx))
	group := shards.New(observer, "orders", shards.Count(partitions))

	messages := newQueue()
	var running []*consumer
	for _, label := range []string{"a", "b", "c"} {
		c, err := start(ctx, url, label, db, messages)
		if err != nil {
			return err
		}
		if running = append(running, c); len(running) < 2 {
			continue
		}
		if err := awaitEven(ctx, group, db, messages, len(running)); err != nil {
			return err
		}
	}
	view, err := group.View(ctx)
	if err != nil {
		return err
	}
	late := ownedBy(view, running[0].session.ID())
	fmt.Println("the first consumer ends")
	if err := running[0].end(ctx); err != nil {
		return err
	}
	if err := awaitEven(ctx, group, db, messages, 2); err != nil {
		return err
	}
	if err := setPosition(ctx, db, late.index, 0, late.token); !errors.Is(err, errStale) {
		return fmt.Errorf("a late write should be refused: %w", err)
	}
	fmt.Println("a write of the first consumer that comes late is refused:", errStale)
	return errors.Join(running[1].end(ctx), running[2].end(ctx))
}

// ownership is a partition that a session had, and with which token.
type ownership struct {
	index int
	token uint64
}

func ownedBy(view *shards.View, session string) ownership {
	for i, name := range view.Names() {
		if owner, _ := view.Owner(name); owner.Session == session {
			return ownership{i, owner.Token}
		}
	}
	return ownership{}
}

// awaitEven waits until n consumers own all partitions and have as many as each other, and then until they have handled a message
// of each.
func awaitEven(ctx context.Context, group *shards.Group, db *sql.DB, messages *queue, n int) error {
	for view, err := range group.Watch(ctx) {
		if ctx.Err() != nil {
			return err
		}
		if err != nil || len(view.Members) != n || view.Unowned+view.Draining > 0 {
			continue // the group is not there yet, or shards are on their way
		}
		var owned []int
		for _, member := range view.Members {
			owned = append(owned, member.Owned)
		}
		slices.Sort(owned)
		if owned[n-1]-owned[0] > 1 {
			continue
		}
		fmt.Printf("%d consumers own %v of %d partitions\n", n, owned, view.Count)
		return awaitHandled(ctx, db, messages.publish())
	}
	return ctx.Err()
}

// awaitHandled waits until so many messages of each partition have been handled.
func awaitHandled(ctx context.Context, db *sql.DB, count int64) error {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		var done int
		err := db.QueryRowContext(ctx, `SELECT count(*) FROM partitions WHERE position = ?`, count).Scan(&done)
		if err != nil {
			return err
		}
		if done == partitions {
			fmt.Printf("message %d of all %d partitions is handled\n", count, partitions)
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
