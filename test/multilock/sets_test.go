// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

const (
	processes, workers = 4, 4
	limit              = 4 * time.Minute
	sets               = 1000 // of all workers
	urlEnv             = "URL"
)

// P1, P4, P6: a thousand random sets of ten locks of all kinds and of permits, which overlap and are asked for in any order by sixteen
// workers in four processes, some of which do not wait or give up. None waits for good, no two have one lock, tokens
// rise, and nothing is left.
func TestOverlappingSetsOfManyProcesses(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "processes give up calls that are on their way, which are undone 3 s later")
	overlap(t)
}

func TestSoakOverlappingSetsOfManyProcesses(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	for n := 0; more(); n++ {
		t.Run(fmt.Sprint(n), overlap)
	}
}

// overlap lets processes take sets, on a server of their own.
func overlap(t *testing.T) {
	t.Helper()
	server := redistest.Start(t)
	children := make([]*redistest.Process, processes)
	for i := range children {
		children[i] = redistest.Child(t, "sets", urlEnv+"="+server.URL())
	}
	var got, gone int
	for _, child := range children {
		line, err := child.ReadLine(limit)
		require.NoError(t, err, "a deadlock? %s", child.Stderr())
		var had, left int
		_, err = fmt.Sscanf(line, "had %d left %d", &had, &left)
		require.NoError(t, err, "%s %s", line, child.Stderr())
		got, gone = got+had, gone+left
		require.Zero(t, child.Wait(limit), child.Stderr())
	}
	t.Logf("%d sets had, %d not", got, gone)
	require.GreaterOrEqual(t, got+gone, sets)
	require.Greater(t, got, sets/2)
	s := locktest.Session(t, server)
	redistest.Await(t, "all are free", func() bool {
		lease, err := multilock.New(everything(s)...).TryLock(locktest.Context(t))
		return err == nil && lease.Unlock() == nil
	})
	locktest.NewView(t, server).NoImmortals(t)
}

// seats is how many permits there are.
const seats = 2

// everything returns a permit, and ten locks; the last two are one, to write and to read.
func everything(s *signalbox.Session) []multilock.Member {
	all := []multilock.Member{semaphore.New(s, "p0", seats).Permits(1)}
	for i := range 6 {
		all = append(all, reentrant.New(s, fmt.Sprint("r", i)))
	}
	both := rwlock.New(s, "w0")
	return append(all, fair.New(s, "f0"), fair.New(s, "f1"), rwlock.New(s, "w1"), both, both.Reader())
}

// runSets is a process whose workers take sets.
func runSets(_ io.Reader, stdout io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, err := signalbox.Dial(ctx, os.Getenv(urlEnv))
	must(err)
	options, err := rueidis.ParseURL(os.Getenv(urlEnv))
	must(err)
	client, err := rueidis.NewClient(options)
	must(err)
	defer client.Close()
	var group sync.WaitGroup
	var count struct {
		sync.Mutex
		had, left int
	}
	for range workers {
		group.Go(func() {
			for range sets/processes/workers + 1 {
				had, err := takeSet(ctx, client, everything(s))
				must(err)
				count.Lock()
				if had {
					count.had++
				} else {
					count.left++
				}
				count.Unlock()
			}
		})
	}
	group.Wait()
	must(s.Close(ctx))
	fmt.Fprintln(stdout, "had", count.had, "left", count.left)
}

// takeSet takes some of all, in any order and in one of three ways, and checks that they are the caller's.
func takeSet(ctx context.Context, client rueidis.Client, all []multilock.Member) (had bool, err error) {
	var members []multilock.Member
	var places []int
	for _, i := range rand.Perm(len(all))[:1+rand.IntN(5)] {
		members, places = append(members, all[i]), append(places, i)
	}
	set := multilock.New(members...)
	var lease signalbox.Lease
	switch rand.IntN(8) {
	case 0:
		lease, err = set.TryLock(ctx)
	case 1:
		impatient, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(5000))*time.Microsecond)
		defer cancel()
		lease, err = set.Lock(impatient)
	default:
		lease, err = set.Lock(ctx)
	}
	if errors.Is(err, signalbox.ErrHeld) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	tokens := multilock.Tokens(lease)
	writesBoth := false
	for _, i := range places {
		writesBoth = writesBoth || i == len(all)-2
	}
	for n, i := range places {
		if i == 0 {
			err = errors.Join(err, use(ctx, client, i, "seat", 0))
			continue
		}
		if i == len(all)-1 { // a reader
			if !writesBoth {
				err = errors.Join(err, use(ctx, client, len(all)-2, "read", 0))
			}
			continue
		}
		err = errors.Join(err, use(ctx, client, i, "write", tokens[n]))
	}
	return true, errors.Join(err, lease.Err(), lease.Unlock())
}

// use records that a caller is inside, checks whether another is, and leaves. These are separate steps,
// so that an overlap is seen.
func use(ctx context.Context, client rueidis.Client, i int, side string, token uint64) error {
	const enter = `
local resource = KEYS[1]
local inside, last = redis.call('HINCRBY', resource, ARGV[1], 1), tonumber(redis.call('HGET', resource, 'token') or 0)
local readers = tonumber(redis.call('HGET', resource, 'read') or 0)
local writers = tonumber(redis.call('HGET', resource, 'write') or 0)
if ARGV[1] == 'seat' and inside > tonumber(ARGV[3]) then return 'more are in than there are seats' end
if writers > 1 or writers == 1 and readers > 0 then return 'another is in' end
if ARGV[1] == 'write' then
  if tonumber(ARGV[2]) <= last then return 'the token fell' end
  redis.call('HSET', resource, 'token', ARGV[2])
end
return ''`
	resourceKey := "resource:" + strconv.Itoa(i)
	b := client.B()
	wrong, err := client.Do(ctx, b.Eval().Script(enter).Numkeys(1).Key(resourceKey).Arg(side, strconv.FormatUint(token, 10), strconv.Itoa(seats)).Build()).ToString()
	if err != nil {
		return err
	}
	if wrong != "" {
		return fmt.Errorf("%s: %s", resourceKey, wrong)
	}
	return client.Do(ctx, b.Hincrby().Key(resourceKey).Field(side).Increment(-1).Build()).Error()
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
