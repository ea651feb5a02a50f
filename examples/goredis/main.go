// SPDX-License-Identifier: Apache-2.0

// Command goredis is a service with a go-redis client that gets locks by one line.
package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/contrib/goredis"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/reentrant"
)

func main() { demo.Main(show) }

func show(ctx context.Context, url string) error {
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	client := redis.NewClient(options) // the service has it anyway
	defer client.Close()
	return pay(ctx, client)
}

func pay(ctx context.Context, client *redis.Client) error {
	session, err := goredis.Dial(ctx, client) // a *signalbox.Session, once in a process; Close leaves the client alone
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx)) // ctx may have ended by then

	return reentrant.New(session, "order/42").Do(ctx, func(ctx context.Context, lease signalbox.Lease) error {
		return markPaid(ctx, client, lease.Token()) // if the lease is lost, ctx ends, and Do returns signalbox.ErrLost, also after nil
	})
}

func markPaid(ctx context.Context, client *redis.Client, token uint64) error {
	keys, err := client.Exists(ctx, "sb:{order/42}:lock").Result() // a real store keeps the token, and refuses a smaller one
	fmt.Println("keys of the lock that the client sees:", keys, "token:", token > 0)
	return err
}
