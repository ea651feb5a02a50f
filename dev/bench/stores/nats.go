// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	natsclient "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// nats is one server of NATS with a bucket of keys and values.
func nats(form string) store {
	kept := survival{"freed after its lease", "lost", "none"}
	if form == durable {
		kept.server = "kept"
	}
	return store{"NATS KV", form, kept, func() (*server, error) { return startNATS(form) }, []client{{"Create, Watch", joinNATS}}}
}

func startNATS(form string) (*server, error) {
	binary, err := tool("github.com/nats-io/nats-server/v2")
	if err != nil {
		return nil, err
	}
	version, err := versionOf(binary)
	if err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	folder, err := folderFor(form)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(folder, "config")
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always }\n", addresses[0], folder)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	stop, err := daemon{path: binary, args: []string{"-c", config, "-l", filepath.Join(folder, "log")}}.run(folder)
	if err != nil {
		return nil, err
	}
	s := &server{version, form + "|" + addresses[0], stop}
	if err := await(func() (process, error) { return joinNATS(s.address, time.Minute) }); err != nil {
		stop()
		return nil, err
	}
	return s, nil
}

type natsProcess struct {
	connection *natsclient.Conn
	bucket     jetstream.KeyValue
	lease      time.Duration
}

func joinNATS(address string, lease time.Duration) (process, error) {
	form, address, _ := strings.Cut(address, "|")
	storage := jetstream.MemoryStorage
	if form == durable {
		storage = jetstream.FileStorage
	}
	connection, err := natsclient.Connect("nats://" + address)
	if err != nil {
		return nil, err
	}
	stream, err := jetstream.New(connection)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name := fmt.Sprintf("locks-%d", lease.Milliseconds())
	bucket, err := stream.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		// A key that is not updated for a lease ends, and its watchers are notified.
		bucket, err = stream.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, TTL: lease, LimitMarkerTTL: lease, Storage: storage})
	}
	return &natsProcess{connection, bucket, lease}, err
}

func (p *natsProcess) close() error { p.connection.Close(); return nil }
