// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
)

// Whatever use it was, and whenever it came, a round is kept for as long as it was asked for after it, but for a sixtieth, and
// not for longer: one that runs, and one that is open, of which late workers ask.
func TestARoundIsKeptAfterEachUse(t *testing.T) {
	t.Parallel()
	const keep = time.Hour
	uses := map[string]func(l *countdown.Latch, r countdown.Round, f *fixture) error{
		"CountDown": func(_ *countdown.Latch, r countdown.Round, f *fixture) error {
			_, err := r.CountDown(f.T.Context(), "x")
			return err
		},
		"Count": func(_ *countdown.Latch, r countdown.Round, f *fixture) error {
			_, err := r.Count(f.T.Context())
			return err
		},
		"Round": func(l *countdown.Latch, _ countdown.Round, f *fixture) error {
			_, err := l.Round(f.T.Context())
			return err
		},
	}
	for name, use := range uses {
		for _, open := range []bool{false, true} {
			bubble(t, func(f *fixture) {
				t := f.T
				s, _, closeSession := f.session(t)
				defer closeSession()
				l := countdown.New(s, "a", countdown.Keep(keep))
				total := 2
				if open {
					total = 1
				}
				r, err := l.Start(t.Context(), total)
				require.NoError(t, err)
				_, err = r.CountDown(t.Context(), "x")
				require.NoError(t, err)
				for _, after := range []time.Duration{keep / 100, keep / 4, keep / 2, keep * 3 / 4, keep * 58 / 60} {
					time.Sleep(after)
					require.NoError(t, use(l, r, f), "%s, open: %t, after %v", name, open, after)
				}
				time.Sleep(keep * 58 / 60)
				require.NoError(t, use(l, r, f), "%s, open: %t", name, open)
				time.Sleep(keep + time.Second)
				require.Error(t, use(l, r, f), "%s, open: %t", name, open)
				require.ErrorIs(t, r.Wait(t.Context()), signalbox.ErrRoundLost)
			})
		}
	}
}
