// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// The bounds of times in the options of a client. A shorter one would try, or probe, without pause.
const (
	leastTimeout  = time.Millisecond
	leastInterval = 10 * time.Millisecond
	mostTimeout   = 24 * time.Hour
	mostDelay     = time.Second // of a request that waits for others
)

// CheckNumbers returns ErrBadOption for a number in o with which no client works: it would panic, never send, or send without
// pause. 0 is the client's default everywhere, and a negative interval turns off what it is for.
func CheckNumbers(o *rueidis.ClientOption) error {
	const mostRing, mostBuffer = 20, 1 << 30 // a power of two, and bytes
	for option, n := range map[string]struct{ is, most int }{
		"SelectDB":            {o.SelectDB, math.MaxInt32},
		"RingScaleEachConn":   {o.RingScaleEachConn, mostRing},
		"ReadBufferEachConn":  {o.ReadBufferEachConn, mostBuffer},
		"WriteBufferEachConn": {o.WriteBufferEachConn, mostBuffer},
		"PipelineMultiplex":   {max(o.PipelineMultiplex, 0), rueidis.MaxPipelineMultiplex}, // less is one connection
	} {
		if n.is < 0 || n.is > n.most {
			return fmt.Errorf("%w: %s is %d: it must be from 0 to %d", errs.ErrBadOption, option, n.is, n.most)
		}
	}
	for option, t := range map[string]struct{ is, least, most time.Duration }{
		"Dialer.Timeout":          {o.Dialer.Timeout, leastTimeout, mostTimeout},
		"Sentinel.Dialer.Timeout": {o.Sentinel.Dialer.Timeout, leastTimeout, mostTimeout},
		"ConnWriteTimeout":        {o.ConnWriteTimeout, leastTimeout, mostTimeout},
		"MaxFlushDelay":           {o.MaxFlushDelay, 1, mostDelay},
		// Here less than 0 is off.
		"ConnLifetime":                        {max(o.ConnLifetime, 0), leastInterval, math.MaxInt64},
		"Dialer.KeepAlive":                    {max(o.Dialer.KeepAlive, 0), leastInterval, math.MaxInt64},
		"Sentinel.Dialer.KeepAlive":           {max(o.Sentinel.Dialer.KeepAlive, 0), leastInterval, math.MaxInt64},
		"Sentinel.TopologyRefreshInterval":    {max(o.Sentinel.TopologyRefreshInterval, 0), leastInterval, math.MaxInt64},
		"ClusterOption.ShardsRefreshInterval": {max(o.ClusterOption.ShardsRefreshInterval, 0), leastInterval, math.MaxInt64},
	} {
		if t.is != 0 && (t.is < t.least || t.is > t.most) {
			return fmt.Errorf("%w: %s is %v: it must be from %v to %v", errs.ErrBadOption, option, t.is, t.least, t.most)
		}
	}
	return nil
}
