// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// RunReplicated runs a script, and waits until replicas have what it wrote. shortfall says why it is not
// known that enough replicas have it; it has no meaning if the script wrote nothing. err is the script's.
func (s *Session) RunReplicated(ctx context.Context, call wire.Call, want Replicas) (reply wire.Reply, shortfall, err error) {
	script, replicated := s.Runner.RunReplicated(ctx, call, want.Count, want.Wait)
	switch got := replicated.Reply.Int(0); {
	case replicated.Err != nil:
		shortfall = replicated.Err
	case got < int64(want.Count):
		shortfall = fmt.Errorf("%w: %d of %d said so within %v", errs.ErrNotReplicated, got, want.Count, want.Wait)
	}
	return script.Reply, shortfall, script.Err
}
