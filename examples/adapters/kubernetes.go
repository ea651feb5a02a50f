// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
)

// ResourceLock is the Lock of a leaderelection.LeaderElectionConfig. An election keeps the record as the value of its term, so
// only the leader writes it. LeaseDuration has to be the election's lease, 15 s by default.
type ResourceLock struct {
	Election *election.Election
	ID       string // of this process

	mu   sync.Mutex
	term election.Term
}

var _ resourcelock.Interface = (*ResourceLock)(nil)

// Get implements resourcelock.Interface: it reads what the leader wrote.
func (l *ResourceLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	leader, err := l.Election.Leader(ctx)
	if errors.Is(err, signalbox.ErrNotHeld) || err == nil && leader.Value == "" { // none leads, or one is about to
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "elections"}, l.ID)
	} else if err != nil {
		return nil, nil, err
	}
	var record resourcelock.LeaderElectionRecord
	return &record, []byte(leader.Value), json.Unmarshal([]byte(leader.Value), &record)
}

// Update implements resourcelock.Interface: it leads, if none does, and writes the record.
func (l *ResourceLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if record.HolderIdentity == "" {
		return l.term.Resign() //nolint:contextcheck // it takes none
	}
	if l.term.Err() != nil { // it was none yet, or was lost
		ctx, cancel := context.WithTimeout(ctx, time.Second) // another leads: client-go asks again
		defer cancel()
		_ = l.term.Resign() //nolint:contextcheck // it takes none
		term, err := l.Election.Campaign(ctx)
		if err != nil {
			return err
		}
		l.term = term
	}
	value, err := json.Marshal(record)
	return errors.Join(err, l.term.SetValue(ctx, string(value)))
}

// Create implements resourcelock.Interface.
func (l *ResourceLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// RecordEvent implements resourcelock.Interface.
func (l *ResourceLock) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *ResourceLock) Identity() string { return l.ID }

// Describe implements resourcelock.Interface.
func (l *ResourceLock) Describe() string { return "signalbox election, " + l.ID }
