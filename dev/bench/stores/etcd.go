// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcd is a cluster of so many members.
func etcd(members int, form string) store {
	kept := survival{"freed after its session's lease", "kept", "kept"}
	name := "etcd"
	if members == 1 {
		kept.failover = "none"
	} else {
		name = fmt.Sprintf("etcd, %d members", members)
	}
	if form == inMemory {
		kept.server = "lost with the machine"
	}
	return store{name, form, kept, func() (*server, error) { return startEtcd(members, form) }, []client{{"concurrency.Mutex", joinEtcd}}}
}

func startEtcd(members int, form string) (*server, error) {
	binary, err := tool("go.etcd.io/etcd/server/v3")
	if err != nil {
		return nil, err
	}
	version, err := versionOf(binary)
	if err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(2 * members)
	if err != nil {
		return nil, err
	}
	all := make([]string, members)
	for i := range all {
		all[i] = "m" + strconv.Itoa(i) + "=http://" + addresses[members+i]
	}
	s := &server{version, strings.Join(addresses[:members], ","), func() {}}
	for i := range members {
		folder, err := folderFor(form)
		if err != nil {
			return nil, err
		}
		ours, peers := "http://"+addresses[i], "http://"+addresses[members+i]
		stop, err := daemon{path: binary, args: []string{
			"--name", "m" + strconv.Itoa(i), "--data-dir", filepath.Join(folder, "etcd"), "--log-level", "error",
			"--listen-client-urls", ours, "--advertise-client-urls", ours, "--listen-peer-urls", peers,
			"--initial-advertise-peer-urls", peers, "--initial-cluster", strings.Join(all, ","),
		}}.run(folder)
		if err != nil {
			s.close()
			return nil, err
		}
		others := s.close
		s.close = func() { stop(); others() }
	}
	if err := await(func() (process, error) { return joinEtcd(s.address, time.Minute) }); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

type etcdProcess struct {
	client  *clientv3.Client
	session *concurrency.Session // all locks share its lease
}

func joinEtcd(address string, lease time.Duration) (process, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(address, ","), DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(c, concurrency.WithTTL(int(lease/time.Second)))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &etcdProcess{c, session}, nil
}

func (p *etcdProcess) lock(ctx context.Context, name string) (unlock func() error, err error) {
	m := concurrency.NewMutex(p.session, name)
	return func() error { return m.Unlock(context.WithoutCancel(ctx)) }, m.Lock(ctx)
}

func (p *etcdProcess) close() error { return errors.Join(p.session.Close(), p.client.Close()) }
