// SPDX-License-Identifier: Apache-2.0

// Command valkeygo is a service with the options of a valkey-go client that gets locks by one line.
package main

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"github.com/signalbox-go/signalbox/contrib/valkeygo"
	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/reentrant"
)

func main() { demo.Main(show) }

func show(ctx context.Context, url string) error {
	options, err := valkey.ParseURL(url) // the service makes its client of them
	if err != nil {
		return err
	}
	return pay(ctx, options)
}

func pay(ctx context.Context, options valkey.ClientOption) error {
	session, err := valkeygo.Dial(ctx, options) // once in a process
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx)) // ctx may have ended by then

	lease, err := reentrant.New(session, "order/42").Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock()
	fmt.Println("token of the lease:", lease.Token() > 0)
	return nil
}
