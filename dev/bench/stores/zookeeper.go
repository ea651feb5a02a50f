// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// zookeeper is an ensemble of so many members, with the lock recipe of its Go client.
func zookeeper(members int) store {
	name, kept := "ZooKeeper", survival{"freed after its session's time", "kept", "none"}
	if members > 1 {
		name, kept.failover = fmt.Sprintf("ZooKeeper, %d members", members), "kept"
	}
	return store{name, durable, kept, func() (*server, error) { return startZookeeper(members) }, []client{{"zk.Lock", joinZookeeper}}}
}

func startZookeeper(members int) (*server, error) {
	library, err := zookeeperLibrary()
	if err != nil {
		return nil, err
	}
	jars, err := filepath.Glob(filepath.Join(library, "zookeeper-[0-9]*.jar"))
	if err != nil {
		return nil, err
	}
	if len(jars) != 1 {
		return nil, fmt.Errorf("the server of ZooKeeper in %s: found %q", library, jars)
	}
	s := &server{strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "zookeeper-"), ".jar"), "", func() {}}
	addresses, err := freeAddresses(3 * members)
	if err != nil {
		return nil, err
	}
	s.address = strings.Join(addresses[:members], ",")
	var ensemble strings.Builder // empty for one member, which needs no other
	for i := range members {
		if members > 1 {
			fmt.Fprintf(&ensemble, "server.%d=%s:%s\n", i+1, addresses[members+i], portOf(addresses[2*members+i]))
		}
	}
	for i, address := range addresses[:members] {
		stop, err := startMember(library, i+1, address, ensemble.String())
		if err != nil {
			s.close()
			return nil, err
		}
		others := s.close
		s.close = func() { stop(); others() }
	}
	if err := await(func() (process, error) { return joinZookeeper(s.address, time.Minute) }); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func portOf(address string) string { return address[strings.LastIndex(address, ":")+1:] }

// zookeeperLibrary returns the folder of the server's archives, which Maven fills anew in each run.
var zookeeperLibrary = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // both ensembles have it
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	library := filepath.Join(cache, "signalbox-stores", "zookeeper")
	if err := os.RemoveAll(library); err != nil { // it may have another version
		return "", err
	}
	fetch := exec.Command("mvn", "--batch-mode", "--quiet", "--file", "zookeeper.xml", //nolint:noctx // it ends by itself
		"dependency:copy-dependencies", "-DoutputDirectory="+library)
	if out, err := fetch.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn: %w: %s", err, out)
	}
	return library, nil
})

// startMember starts one member. A session lasts between 2 and 20 ticks.
func startMember(library string, id int, address, ensemble string) (stop func(), err error) {
	folder, err := folderFor(durable)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(folder, "zoo.cfg")
	text := fmt.Sprintf("tickTime=1000\nmaxSessionTimeout=60000\ninitLimit=10\nsyncLimit=5\nadmin.enableServer=false\nmaxClientCnxns=0\n"+
		"dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n%s", folder, portOf(address), ensemble)
	err = errors.Join(os.WriteFile(config, []byte(text), 0o600),
		os.WriteFile(filepath.Join(folder, "myid"), []byte(strconv.Itoa(id)), 0o600))
	if err != nil {
		return nil, err
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, err
	}
	return daemon{path: java, args: []string{
		"-cp", filepath.Join(library, "*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", config,
	}}.run(folder)
}

type zookeeperProcess struct{ connection *zk.Conn }

type noLog struct{}

func (noLog) Printf(string, ...any) {}

func joinZookeeper(address string, lease time.Duration) (process, error) {
	connection, _, err := zk.Connect(strings.Split(address, ","), lease, zk.WithLogger(noLog{}), zk.WithLogInfo(false))
	return zookeeperProcess{connection}, err
}

// lock has no use for its context: the client's recipe takes none.
func (p zookeeperProcess) lock(_ context.Context, name string) (unlock func() error, err error) {
	l := zk.NewLock(p.connection, "/locks/"+strings.ReplaceAll(name, "/", "-"), zk.WorldACL(zk.PermAll))
	return l.Unlock, l.Lock()
}

func (p zookeeperProcess) close() error { p.connection.Close(); return nil }
